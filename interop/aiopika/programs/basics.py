"""One conversation through every part of the protocol; the package programs says what each line shows."""
import asyncio
import datetime
import logging
import os

import aio_pika
from aio_pika import DeliveryMode, Message
from aio_pika.exceptions import DeliveryError
from aiormq.exceptions import ChannelLockedResource, ChannelNotFoundEntity, ChannelPreconditionFailed

logging.getLogger("aiormq").setLevel(logging.ERROR)  # it warns of what this program provokes
CODES = {ChannelLockedResource: 405, ChannelNotFoundEntity: 404, ChannelPreconditionFailed: 406}
DEAD_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "basics.dead"}


def connect():
    return aio_pika.connect(os.environ["AMQP_URL"])


async def get(queue):
    """The next message of the queue, which may be about to come."""
    while (message := await queue.get(no_ack=True, fail=False)) is None:
        await asyncio.sleep(0.02)
    return message


async def refused(connection, step):
    """The code with which the broker closes the channel of the step."""
    try:
        await step(await connection.channel())
    except tuple(CODES) as error:
        return CODES[type(error)]
    return "not refused"


async def publish(channel):
    for name in ("basics.dead", "basics.q", "basics.ttl"):
        await channel.queue_delete(name)
    exchange = await channel.declare_exchange("basics.x", "topic", durable=True)
    dead = await channel.declare_queue("basics.dead", durable=True)
    queue = await channel.declare_queue("basics.q", durable=True, arguments=DEAD_LETTERS)
    await queue.bind(exchange, "a.#")
    declared = queue.declaration_result
    print(f"declared: {declared.message_count} messages, {declared.consumer_count} consumers")
    confirms = [await exchange.publish(Message(str(i).encode(), delivery_mode=DeliveryMode.PERSISTENT), "a.b") for i in range(1, 101)]
    print(f"confirmed: {sum(type(c).__name__ == 'Ack' for c in confirms)} of 100")
    print(f"waiting: {await waiting(channel)}")
    return exchange, queue, dead


async def waiting(channel):
    return (await channel.declare_queue("basics.q", passive=True)).declaration_result.message_count


async def consume(connection, channel):
    worker = await connection.channel()
    await worker.set_qos(10)
    deliveries = asyncio.Queue()
    await (await worker.get_queue("basics.q")).consume(deliveries.put)
    held = [await deliveries.get() for _ in range(10)]
    print(f"prefetch 10: {len(held) + deliveries.qsize()} in hand, {await waiting(channel)} waiting")
    await held[7].ack(multiple=True)
    await held[8].nack(requeue=True)
    await held[9].reject(requeue=False)
    while len(held) < 10 + 90 + 1:
        held.append(await deliveries.get())
        await held[-1].ack()
    again = ",".join(message.body.decode() for message in held if message.redelivered)
    print(f"drained: {len({message.body for message in held})} distinct, again: {again}")
    await worker.close()


async def dead_letter(dead):
    message = await get(dead)
    death = message.headers["x-death"][0]
    print(f"dead: {message.body.decode()}, {death['reason']} from {death['queue']}")


async def refusals(connection, channel, exchange):
    try:
        await exchange.publish(Message(b"lost"), "zzz")
    except DeliveryError as error:
        delivery = error.message.delivery
        print(f"returned: {delivery.reply_code} {delivery.reply_text} {delivery.routing_key}")
    await channel.declare_queue("basics.mine", exclusive=True)
    async with await connect() as other:
        print(f"exclusive: {await refused(other, lambda ch: ch.declare_queue('basics.mine', passive=True))}")
    print(f"inequivalent: {await refused(connection, lambda ch: ch.declare_queue('basics.q', durable=True))}")
    print(f"missing: {await refused(connection, lambda ch: ch.declare_queue('basics.none', passive=True))}")


async def content(channel, queue):
    moment = datetime.datetime.fromtimestamp(1700000000, datetime.timezone.utc)
    headers = {"s": "text", "i": -7, "l": 1 << 40, "b": True, "d": 1.5, "t": moment, "x": bytearray(b"\x00\xff"), "n": {"k": "v"}, "a": [1, "two"], "v": None}
    await channel.default_exchange.publish(Message(
        b"", headers=headers, content_type="text/plain", content_encoding="utf-8", delivery_mode=2, priority=5, correlation_id="corr",
        reply_to="reply", expiration=60, message_id="msg", timestamp=moment, type="kind", user_id="guest", app_id="app"), "basics.q")
    p = await get(queue)
    h = p.headers
    print(f"headers: s={h['s']} i={h['i']} l={h['l']} b={str(h['b']).lower()} d={h['d']} t={int(h['t'].timestamp())} x={h['x'].hex()} n=k:{h['n']['k']} "
          f"a={','.join(map(str, h['a']))} v={'null' if h['v'] is None else h['v']}")
    print("properties:", p.content_type, p.content_encoding, int(p.delivery_mode), p.priority, p.correlation_id, p.reply_to, int(1000 * p.expiration),
          p.message_id, int(p.timestamp.timestamp()), p.type, p.user_id, p.app_id)
    large = bytes(range(256)) * (5 << 12)
    await channel.default_exchange.publish(Message(large), "basics.q")
    body = (await get(queue)).body
    print(f"large: {len(body)} bytes, {'the same' if body == large else 'changed'}")


async def cancel(connection, channel):
    watcher = await connection.channel()
    gone = await watcher.declare_queue("basics.gone")
    cancelled = asyncio.get_running_loop().create_future()
    (await watcher.get_underlay_channel()).on_consumer_cancel_callbacks.add(lambda frame: cancelled.set_result(frame.consumer_tag))
    await gone.consume(lambda message: None, consumer_tag="watcher")
    await channel.queue_delete("basics.gone")
    print(f"cancelled: {await cancelled}")


async def rpc(connection, channel):
    server = await connection.channel()

    async def answer(message):
        reply = Message(str(2 * int(message.body)).encode(), correlation_id=message.correlation_id)
        await server.default_exchange.publish(reply, message.reply_to)

    await (await server.declare_queue("basics.rpc", auto_delete=True)).consume(answer, no_ack=True)
    answers = asyncio.Queue()
    await (await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)).consume(answers.put, no_ack=True)
    await channel.default_exchange.publish(Message(b"21", reply_to="amq.rabbitmq.reply-to", correlation_id="1"), "basics.rpc")
    message = await answers.get()
    print(f"rpc: {message.body.decode()}" if message.correlation_id == "1" else f"rpc: the answer is for {message.correlation_id}")


async def main():
    connection = await connect()
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    exchange, queue, dead = await publish(channel)
    await consume(connection, channel)
    await dead_letter(dead)
    await refusals(connection, channel, exchange)
    await channel.declare_queue("basics.ttl", arguments=DEAD_LETTERS | {"x-message-ttl": 50})
    await channel.default_exchange.publish(Message(b"late"), "basics.ttl")
    await dead_letter(dead)
    await content(channel, queue)
    await cancel(connection, channel)
    await rpc(connection, channel)
    await connection.close()
    print("closed")


asyncio.run(main())

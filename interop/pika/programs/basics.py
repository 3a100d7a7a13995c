"""One conversation through every part of the protocol; the package programs says what each line shows."""
import datetime
import time

import pika
from broker import connect
from pika.exceptions import ChannelClosedByBroker, UnroutableError


def get(channel, queue):
    """The next message of the queue, which may be about to come."""
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method:
            return properties, body
        time.sleep(0.02)


def refused(connection, step):
    """The code with which the broker closes the channel of the step."""
    try:
        step(connection.channel())
    except ChannelClosedByBroker as error:
        return error.reply_code
    return "not refused"


connection = connect()
channel = connection.channel()
for queue in ("basics.dead", "basics.q", "basics.ttl"):
    channel.queue_delete(queue)
dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "basics.dead"}
channel.exchange_declare("basics.x", "topic", durable=True)
channel.queue_declare("basics.dead", durable=True)
declared = channel.queue_declare("basics.q", durable=True, arguments=dead_letters).method
channel.queue_bind("basics.q", "basics.x", "a.#")
print(f"declared: {declared.message_count} messages, {declared.consumer_count} consumers")

channel.confirm_delivery()
for i in range(1, 101):
    channel.basic_publish("basics.x", "a.b", str(i).encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
print("confirmed: 100 of 100")


def waiting():
    return channel.queue_declare("basics.q", passive=True).method.message_count


print(f"waiting: {waiting()}")

worker = connection.channel()
worker.basic_qos(prefetch_count=10)
held = []
worker.basic_consume("basics.q", lambda ch, method, properties, body: held.append((method, body)))
while len(held) < 10:
    connection.process_data_events(time_limit=1)
print(f"prefetch 10: {len(held)} in hand, {waiting()} waiting")
worker.basic_ack(held[7][0].delivery_tag, multiple=True)
worker.basic_nack(held[8][0].delivery_tag, requeue=True)
worker.basic_reject(held[9][0].delivery_tag, requeue=False)
handled, again = 10, []
while handled < 10 + 90 + 1:
    connection.process_data_events(time_limit=1)
    for method, body in held[handled:]:
        if method.redelivered:
            again.append(body.decode())
        worker.basic_ack(method.delivery_tag)
        handled += 1
print(f"drained: {len({body for _, body in held})} distinct, again: {','.join(again)}")
worker.close()
properties, body = get(channel, "basics.dead")
death = properties.headers["x-death"][0]
print(f"dead: {body.decode()}, {death['reason']} from {death['queue']}")

try:
    channel.basic_publish("basics.x", "zzz", b"lost", mandatory=True)
except UnroutableError as error:
    method = error.messages[0].method
    print(f"returned: {method.reply_code} {method.reply_text} {method.routing_key}")

channel.queue_declare("basics.mine", exclusive=True)
other = connect()
print(f"exclusive: {refused(other, lambda ch: ch.queue_declare('basics.mine', passive=True))}")
other.close()
print(f"inequivalent: {refused(connection, lambda ch: ch.queue_declare('basics.q', durable=True))}")
print(f"missing: {refused(connection, lambda ch: ch.queue_declare('basics.none', passive=True))}")

channel.queue_declare("basics.ttl", arguments=dead_letters | {"x-message-ttl": 50})
channel.basic_publish("", "basics.ttl", b"late")
properties, body = get(channel, "basics.dead")
death = properties.headers["x-death"][0]
print(f"dead: {body.decode()}, {death['reason']} from {death['queue']}")

moment = datetime.datetime.fromtimestamp(1700000000, datetime.timezone.utc)
headers = {"s": "text", "i": -7, "l": 1 << 40, "b": True, "t": moment.replace(tzinfo=None), "x": b"\x00\xff", "n": {"k": "v"}, "a": [1, "two"], "v": None}
channel.basic_publish("", "basics.q", b"", pika.BasicProperties(
    content_type="text/plain", content_encoding="utf-8", headers=headers, delivery_mode=2, priority=5, correlation_id="corr", reply_to="reply",
    expiration="60000", message_id="msg", timestamp=1700000000, type="kind", user_id="guest", app_id="app"))
p, _ = get(channel, "basics.q")
h = p.headers
print(f"headers: s={h['s']} i={h['i']} l={h['l']} b={str(h['b']).lower()} t={int(h['t'].replace(tzinfo=datetime.timezone.utc).timestamp())} "
      f"x={h['x'].hex()} n=k:{h['n']['k']} a={','.join(map(str, h['a']))} v={'null' if h['v'] is None else h['v']}")
print("properties:", p.content_type, p.content_encoding, p.delivery_mode, p.priority, p.correlation_id, p.reply_to, p.expiration, p.message_id,
      p.timestamp, p.type, p.user_id, p.app_id)

large = bytes(range(256)) * (5 << 12)
channel.basic_publish("", "basics.q", large)
_, body = get(channel, "basics.q")
print(f"large: {len(body)} bytes, {'the same' if body == large else 'changed'}")

cancelled = []
watcher = connection.channel()
watcher.queue_declare("basics.gone")
watcher.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
watcher.basic_consume("basics.gone", lambda *_: None, consumer_tag="watcher")
channel.queue_delete("basics.gone")
while not cancelled:
    connection.process_data_events(time_limit=1)
print(f"cancelled: {cancelled[0]}")

server = connection.channel()
server.queue_declare("basics.rpc", auto_delete=True)
server.basic_consume("basics.rpc", lambda ch, method, properties, body: ch.basic_publish(
    "", properties.reply_to, str(2 * int(body)).encode(), pika.BasicProperties(correlation_id=properties.correlation_id)), auto_ack=True)
answers = {}
channel.basic_consume("amq.rabbitmq.reply-to", lambda ch, method, properties, body: answers.update({properties.correlation_id: body}), auto_ack=True)
channel.basic_publish("", "basics.rpc", b"21", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="1"))
while "1" not in answers:
    connection.process_data_events(time_limit=1)
print(f"rpc: {answers['1'].decode()}")
connection.close()
print("closed")

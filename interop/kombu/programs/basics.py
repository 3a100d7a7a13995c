"""One conversation through every part of the protocol; the package programs says what each line shows."""
import datetime
import os
import time

import kombu
from amqp.exceptions import ChannelError
from kombu import Consumer, Exchange, Producer, Queue

DEAD_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "basics.dead"}


def connect():
    return kombu.Connection(os.environ["AMQP_URL"], transport_options={"confirm_publish": True})


def get(queue):
    """The next message of the queue, which may be about to come."""
    while (message := queue.get(no_ack=True)) is None:
        time.sleep(0.02)
    return message


def refused(connection, step):
    """The code with which the broker closes the channel of the step."""
    try:
        step(connection.channel())
    except ChannelError as error:
        return error.reply_code
    return "not refused"


connection = connect()
channel = connection.channel()
exchange = Exchange("basics.x", "topic", durable=True, channel=channel)
dead = Queue("basics.dead", durable=True, channel=channel)
queue = Queue("basics.q", exchange, "a.#", durable=True, queue_arguments=DEAD_LETTERS, channel=channel)
for name in ("basics.dead", "basics.q", "basics.ttl"):
    channel.queue_delete(name)
exchange.declare()
dead.queue_declare()
queue.queue_declare()
queue.queue_bind()
_, messages, consumers = queue.queue_declare(passive=True)
print(f"declared: {messages} messages, {consumers} consumers")

returned = []
producer = Producer(channel, on_return=lambda error, exchange, key, message: returned.append((error, key)))
for i in range(1, 101):
    producer.publish(str(i), exchange=exchange, routing_key="a.b", delivery_mode=2, mandatory=True)
print("confirmed: 100 of 100")
print(f"waiting: {queue.queue_declare(passive=True)[1]}")

held, acking = [], [False]


def take(message):
    held.append(message)
    if acking[0]:
        message.ack()


worker = connection.channel()
consumer = Consumer(worker, [queue], on_message=take, prefetch_count=10)
consumer.consume()
while len(held) < 10:
    connection.drain_events()
print(f"prefetch 10: {len(held)} in hand, {queue.queue_declare(passive=True)[1]} waiting")
acking[0] = True
held[7].ack(multiple=True)
worker.basic_reject(held[8].delivery_tag, requeue=True)
worker.basic_reject(held[9].delivery_tag, requeue=False)
while len(held) < 10 + 90 + 1:
    connection.drain_events()
again = ",".join(message.payload for message in held if message.delivery_info["redelivered"])
print(f"drained: {len({message.payload for message in held})} distinct, again: {again}")
consumer.cancel()


def dead_letter():
    message = get(dead)
    death = message.headers["x-death"][0]
    print(f"dead: {message.payload}, {death['reason']} from {death['queue']}")


dead_letter()
producer.publish("lost", exchange=exchange, routing_key="zzz", mandatory=True)
while not returned:
    connection.drain_events()
error, key = returned[0]
print(f"returned: {error.reply_code} {error.reply_text} {key}")
Queue("basics.mine", exclusive=True, durable=False, channel=channel).queue_declare()
with connect() as other:
    print(f"exclusive: {refused(other, lambda ch: ch.queue_declare('basics.mine', passive=True))}")
print(f"inequivalent: {refused(connection, lambda ch: ch.queue_declare('basics.q', durable=True, auto_delete=False))}")
print(f"missing: {refused(connection, lambda ch: ch.queue_declare('basics.none', passive=True))}")

Queue("basics.ttl", message_ttl=0.05, queue_arguments=DEAD_LETTERS, channel=channel).queue_declare()
producer.publish("late", routing_key="basics.ttl")
dead_letter()

moment = datetime.datetime.fromtimestamp(1700000000, datetime.timezone.utc).replace(tzinfo=None)
headers = {"s": "text", "i": -7, "l": 1 << 40, "b": True, "d": 1.5, "t": moment, "n": {"k": "v"}, "a": [1, "two"], "v": None}
producer.publish("", routing_key="basics.q", headers=headers, content_type="text/plain", content_encoding="utf-8", delivery_mode=2, priority=5,
                 correlation_id="corr", reply_to="reply", expiration=60, message_id="msg", timestamp=1700000000, type="kind", user_id="guest", app_id="app")
message = get(queue)
h, p = message.headers, message.properties
print(f"headers: s={h['s']} i={h['i']} l={h['l']} b={str(h['b']).lower()} d={h['d']} t={int(h['t'].replace(tzinfo=datetime.timezone.utc).timestamp())} "
      f"n=k:{h['n']['k']} a={','.join(map(str, h['a']))} v={'null' if h['v'] is None else h['v']}")
print("properties:", message.content_type, message.content_encoding, p["delivery_mode"], p["priority"], p["correlation_id"], p["reply_to"],
      p["expiration"], p["message_id"], int(p["timestamp"]), p["type"], p["user_id"], p["app_id"])
large = bytes(range(256)) * (5 << 12)
producer.publish(large, routing_key="basics.q", content_type="application/octet-stream", content_encoding="binary")
body = get(queue).body
print(f"large: {len(body)} bytes, {'the same' if bytes(body) == large else 'changed'}")

cancelled = []
watcher = connection.channel()
watcher.queue_declare("basics.gone", durable=False, auto_delete=False)
watcher.basic_consume("basics.gone", consumer_tag="watcher", on_cancel=cancelled.append)
channel.queue_delete("basics.gone")
while not cancelled:
    connection.drain_events()
print(f"cancelled: {cancelled[0]}")

server = connection.channel()
answering = Producer(server)
requests = Queue("basics.rpc", durable=False, auto_delete=True, channel=server)
answers = []
serving = Consumer(server, [requests], no_ack=True, on_message=lambda m: answering.publish(
    str(2 * int(m.payload)), routing_key=m.properties["reply_to"], correlation_id=m.properties["correlation_id"]))
serving.consume()
channel.basic_consume("amq.rabbitmq.reply-to", no_ack=True, callback=answers.append)
producer.publish("21", routing_key="basics.rpc", reply_to="amq.rabbitmq.reply-to", correlation_id="1")
while not answers:
    connection.drain_events()
print(f"rpc: {answers[0].body}" if answers[0].properties["correlation_id"] == "1" else "rpc: the answer to something else")
connection.release()
print("closed")

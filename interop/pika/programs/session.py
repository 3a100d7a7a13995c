"""session.py: works in the session of AMQP_SESSION, through two failovers; the package programs says what each line shows.
Nothing but the client property knows of sessions."""
import os

import pika
from pika.exceptions import AMQPError

addresses = [pika.URLParameters(url) for url in os.environ["AMQP_URLS"].split(",")]
for address in addresses:
    address.client_properties = {"x-session-id": os.environ["AMQP_SESSION"]}
connections = 0


def work(connection):
    channel = connection.channel()
    own = channel.queue_declare("session.own", exclusive=True).method
    channel.queue_declare("session.q", durable=True)
    channel.confirm_delivery()
    if connections == 1:
        channel.basic_publish("", "session.own", b"mine")
    else:
        print(f"own {own.message_count}")
    for n in range(1, 101):
        properties = pika.BasicProperties(delivery_mode=2, headers={"x-dedup-id": f"message-{n}"})
        channel.basic_publish("", "session.q", str(n).encode(), properties, mandatory=True)
    print("published")
    consume(connection)


def consume(connection):
    held = []

    def take(channel, method, properties, body):
        print(f"held {body.decode()} {method.delivery_tag}" + (" again" if method.redelivered else ""))
        held.append(method.delivery_tag)
        if len(held) == 100 and connections == 3:
            for tag in held:
                channel.basic_ack(tag)
            print("settled")

    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    channel.basic_consume("session.q", take)
    channel.start_consuming()


while True:
    try:
        connection = pika.BlockingConnection(addresses)
        connections += 1
        work(connection)
    except pika.exceptions.ChannelClosedByBroker:
        raise
    except AMQPError:
        continue

"""failover.py COUNT: publishes and consumes numbered messages while a node dies. pika takes a list of addresses and tries
one after the other; what to do about a connection that is lost it leaves to the application."""
import os
import sys

import pika
from pika.exceptions import AMQPError

count = int(sys.argv[1])
addresses = [pika.URLParameters(url) for url in os.environ["AMQP_URLS"].split(",")]
published, confirmed, received = set(), set(), set()


def work(channel):
    """Publishes what is not confirmed, and consumes what comes meanwhile and later."""
    channel.queue_declare("failover.q", durable=True)
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=20)
    channel.basic_consume("failover.q", take)
    for n in range(1, count + 1):
        if n in confirmed:
            continue
        if n in published:
            print(f"published {n} again")
        published.add(n)
        channel.basic_publish("", "failover.q", str(n).encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
        confirmed.add(n)
        print(f"confirmed {n}")
    told = False
    while True:
        if len(received) == count and not told:
            print("done")
            told = True
        channel.connection.process_data_events(time_limit=1)


def take(channel, method, properties, body):
    print(f"received {body.decode()}" + (" again" if method.redelivered else ""))
    received.add(int(body))
    channel.basic_ack(method.delivery_tag)


connections = 0
while True:
    try:
        connection = pika.BlockingConnection(addresses)
        connections += 1
        if connections > 1:
            print("reconnected")
        work(connection.channel())
    except AMQPError:
        continue

"""failover.py COUNT: publishes and consumes numbered messages while a node dies. kombu takes several addresses, and publishes
again by itself what was not confirmed; its consumers are set up anew by the mixin."""
import os
import sys
import threading

import kombu
from kombu import Queue
from kombu.mixins import ConsumerMixin

count = int(sys.argv[1])
queue = Queue("failover.q", durable=True)
all_received = threading.Event()


def say(line):
    """Prints a line in one piece, whichever thread it comes from."""
    sys.stdout.write(line + "\n")


def connect():
    return kombu.Connection(os.environ["AMQP_URLS"].replace(",", ";"), transport_options={"confirm_publish": True})


class Worker(ConsumerMixin):
    """Consumes whatever comes."""
    connect_max_retries = None

    def __init__(self, connection):
        self.connection = connection
        self.received = set()
        self.connections = 0

    def get_consumers(self, consumer_class, channel):
        return [consumer_class([queue], on_message=self.take, prefetch_count=20)]

    def on_connection_revived(self):
        say("reconnected")

    def on_connection_error(self, exc, interval):
        pass

    def take(self, message):
        say(f"received {message.payload}" + (" again" if message.delivery_info["redelivered"] else ""))
        self.received.add(message.payload)
        message.ack()
        if len(self.received) == count:
            all_received.set()


def publish():
    with connect() as connection:
        producer = connection.Producer()
        for n in range(1, count + 1):
            policy = {"interval_start": 0.1, "interval_max": 0.1, "errback": lambda exc, interval, n=n: say(f"published {n} again")}
            producer.publish(str(n), routing_key="failover.q", delivery_mode=2, retry=True, retry_policy=policy, declare=[queue])
            say(f"confirmed {n}")


    all_received.wait()
    say("done")


threading.Thread(target=publish).start()
with connect() as connection:
    Worker(connection).run()

"""Where the broker is: the one thing that a tutorial's program is told from outside."""
import os

import pika


def connect():
    return pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")))

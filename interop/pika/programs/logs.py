"""Tutorials 3, 4 and 5: logs.py emit TYPE KEY TEXT | receive TYPE KEY... (TYPE is fanout, direct or topic)."""
import sys

from broker import connect


def channel_with_exchange(kind):
    channel = connect().channel()
    channel.exchange_declare(exchange=f"logs_{kind}", exchange_type=kind)
    return channel


def emit(kind, key, text):
    channel = channel_with_exchange(kind)
    channel.basic_publish(exchange=f"logs_{kind}", routing_key=key, body=text)
    print(f" [x] Sent {key}:{text}")
    channel.connection.close()


def receive(kind, *keys):
    channel = channel_with_exchange(kind)
    queue = channel.queue_declare(queue="", exclusive=True).method.queue
    for key in keys or ("",):
        channel.queue_bind(exchange=f"logs_{kind}", queue=queue, routing_key=key)
    channel.basic_consume(queue=queue, auto_ack=True, on_message_callback=lambda ch, method, properties, body: print(f" [x] {method.routing_key}:{body.decode()}"))
    print(" [*] Waiting for logs")
    channel.start_consuming()


{"emit": emit, "receive": receive}[sys.argv[1]](*sys.argv[2:])

"""Tutorial 1: hello.py send | receive."""
import sys

from broker import connect


def send():
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue="hello")
    channel.basic_publish(exchange="", routing_key="hello", body="Hello World!")
    print(" [x] Sent 'Hello World!'")
    connection.close()


def receive():
    channel = connect().channel()
    channel.queue_declare(queue="hello")
    channel.basic_consume(queue="hello", auto_ack=True, on_message_callback=lambda ch, method, properties, body: print(f" [x] Received {body.decode()}"))
    print(" [*] Waiting for messages")
    channel.start_consuming()


{"send": send, "receive": receive}[sys.argv[1]]()

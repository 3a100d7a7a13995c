"""Tutorial 2: work.py task TEXT... | worker [die]. A dot in a task is a tenth of a second of work; a worker told to die
does so with its first task in hand."""
import os
import sys
import time

import pika
from broker import connect


def task(*texts):
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue="task_queue", durable=True)
    for text in texts:
        channel.basic_publish(exchange="", routing_key="task_queue", body=text, properties=pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent))
        print(f" [x] Sent {text}")
    connection.close()


def worker(*how):
    channel = connect().channel()
    channel.queue_declare(queue="task_queue", durable=True)

    def work(ch, method, properties, body):
        print(f" [x] Received {body.decode()}" + (" again" if method.redelivered else ""))
        if how:
            os._exit(1)
        time.sleep(body.count(b".") / 10)
        print(f" [x] Done {body.decode()}")
        ch.basic_ack(delivery_tag=method.delivery_tag)

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue="task_queue", on_message_callback=work)
    print(" [*] Waiting for messages")
    channel.start_consuming()


{"task": task, "worker": worker}[sys.argv[1]](*sys.argv[2:])

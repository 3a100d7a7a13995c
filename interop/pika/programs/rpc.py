"""Tutorial 6: rpc.py server | client N..."""
import sys
import uuid

import pika
from broker import connect


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def server():
    channel = connect().channel()
    channel.queue_declare(queue="rpc_queue")

    def answer(ch, method, properties, body):
        print(f" [.] fib({body.decode()})")
        ch.basic_publish(exchange="", routing_key=properties.reply_to, properties=pika.BasicProperties(correlation_id=properties.correlation_id), body=str(fib(int(body))))
        ch.basic_ack(delivery_tag=method.delivery_tag)

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue="rpc_queue", on_message_callback=answer)
    print(" [x] Awaiting requests")
    channel.start_consuming()


def client(*numbers):
    connection = connect()
    channel = connection.channel()
    replies = channel.queue_declare(queue="", exclusive=True).method.queue
    answers = {}
    channel.basic_consume(queue=replies, auto_ack=True, on_message_callback=lambda ch, method, properties, body: answers.update({properties.correlation_id: body.decode()}))
    for n in numbers:
        key = str(uuid.uuid4())
        channel.basic_publish(exchange="", routing_key="rpc_queue", properties=pika.BasicProperties(reply_to=replies, correlation_id=key), body=n)
        while key not in answers:
            connection.process_data_events(time_limit=None)
        print(f" [.] Got {answers[key]} for fib({n})")
    connection.close()


{"server": server, "client": client}[sys.argv[1]](*sys.argv[2:])

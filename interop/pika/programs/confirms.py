"""Tutorial 7: confirms.py. Publishes with confirms; an unroutable mandatory message is returned."""
import pika
from broker import connect

connection = connect()
channel = connection.channel()
queue = channel.queue_declare(queue="", exclusive=True).method.queue
channel.confirm_delivery()
for i in range(200):
    channel.basic_publish(exchange="", routing_key=queue, body=str(i), properties=pika.BasicProperties(delivery_mode=2), mandatory=True)
count = channel.queue_declare(queue=queue, passive=True).method.message_count
print(f" [x] {count} messages confirmed")
try:
    channel.basic_publish(exchange="", routing_key="nowhere", body="lost", mandatory=True)
    print(" [!] the unroutable message was taken")
except pika.exceptions.UnroutableError as error:
    returned = error.messages[0]
    print(f" [x] returned {returned.body.decode()}: {returned.method.reply_code} {returned.method.reply_text}")
bodies = [body.decode() for _, _, body in (channel.basic_get(queue, auto_ack=True) for _ in range(200))]
print(f" [x] in order: {bodies == [str(i) for i in range(200)]}")
connection.close()

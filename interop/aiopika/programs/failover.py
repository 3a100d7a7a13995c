"""failover.py COUNT: publishes and consumes numbered messages while a node dies. The robust connection of aio-pika knows one
address, here that of a balancer before the nodes; it finds its way back and restores queue and consumer by itself."""
import asyncio
import logging
import os
import sys

import aio_pika
from aio_pika import DeliveryMode, Message

logging.disable(logging.CRITICAL)  # it tells of every attempt that fails
count = int(sys.argv[1])
received = set()


async def main():
    connection = await aio_pika.connect_robust(os.environ["AMQP_BALANCED"], reconnect_interval=0.1)
    connection.reconnect_callbacks.add(lambda *_: print("reconnected"))
    done = asyncio.Event()
    worker = await connection.channel()
    await worker.set_qos(20)

    async def take(message):
        print(f"received {message.body.decode()}" + (" again" if message.redelivered else ""))
        received.add(message.body)
        if len(received) == count:
            done.set()
        await message.ack()

    await (await worker.declare_queue("failover.q", durable=True)).consume(take)
    channel = await connection.channel(publisher_confirms=True)
    for first in range(1, count + 1, 10):
        await asyncio.gather(*(publish(channel, n) for n in range(first, min(count + 1, first + 10))))
    await done.wait()
    print("done")
    await asyncio.Future()


async def publish(channel, n):
    """Publishes n until it is confirmed."""
    while True:
        try:
            message = Message(str(n).encode(), delivery_mode=DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "failover.q")
            print(f"confirmed {n}")
            return
        except (ConnectionError, RuntimeError, aio_pika.exceptions.AMQPError, aio_pika.exceptions.ChannelInvalidStateError):
            print(f"published {n} again")
            await asyncio.sleep(0.1)


asyncio.run(main())

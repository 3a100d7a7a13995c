"""celery-session.py: a worker of Celery with 100 tasks in hand, acked late, that loses its node while the first one runs. Its session
is AMQP_SESSION; nothing but broker_transport_options knows of it. Each task that is run says so; one that comes again after
it was run is not run twice, for which the worker remembers what it has done: the session brings a worker its own tasks back."""
import logging
import os
import sys
import threading
import warnings

from celery import Celery

warnings.simplefilter("ignore")  # of running as root, where tests do
logging.disable(logging.CRITICAL)  # it tells of every ack that the dead node does not take
HELD = 100
brokers = os.environ["AMQP_URLS"].replace(",", ";")
sender = Celery("sender", broker=brokers)
app = Celery("session", broker=brokers)
app.conf.update(
    task_acks_late=True, task_default_queue="session.q", task_ignore_result=True, worker_prefetch_multiplier=HELD, worker_concurrency=1,
    worker_hijack_root_logger=False, worker_redirect_stdouts=False, worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True, broker_heartbeat=0,
    broker_transport_options={"client_properties": {"x-session-id": os.environ["AMQP_SESSION"]}})
sender.conf.update(task_default_queue="session.q", broker_transport_options={"confirm_publish": True})
done = set()


@app.task(bind=True, name="take")
def take(self, n):
    if self.request.id in done:
        return
    sys.stdout.write(f"ran {n}" + (" again" if self.request.delivery_info["redelivered"] else "") + "\n")
    if n == 1:
        sys.stdin.readline()  # its work takes until its node is dead
    done.add(self.request.id)


def send():
    for n in range(1, HELD + 1):
        sender.send_task("take", (n,))


threading.Thread(target=send, daemon=True).start()
app.worker_main(["--quiet", "worker", "--pool=solo", "--loglevel=critical", "--without-gossip", "--without-mingle", "--without-heartbeat"])

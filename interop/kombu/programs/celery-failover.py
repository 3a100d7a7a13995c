"""celery-failover.py COUNT: the same as tasks of Celery, acked late. Worker and sender reconnect by Celery's own means to the
next of the addresses."""
import os
import sys
import threading
import warnings

from celery import Celery, bootsteps

warnings.simplefilter("ignore")  # of running as root, where tests do
count = int(sys.argv[1])
app = Celery("failover", broker=os.environ["AMQP_URLS"].replace(",", ";"))
# Remote control has an exclusive queue named after the worker. It belongs to the lost connection until the cluster has declared the
# dead node down; its declaration waits for that. (A refusal would be the end of the worker.)
app.conf.update(
    task_acks_late=True, task_default_queue="failover.q", task_ignore_result=True, worker_prefetch_multiplier=20, worker_concurrency=1,
    worker_hijack_root_logger=False, worker_redirect_stdouts=False, worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True, broker_transport_options={"confirm_publish": True}, broker_heartbeat=0)
received = set()
all_received = threading.Event()
connections = 0


def say(line):
    """Prints a line in one piece, whichever thread it comes from."""
    sys.stdout.write(line + "\n")


class Announce(bootsteps.StartStopStep):
    """Runs whenever the worker has its consumer anew."""
    requires = {"celery.worker.consumer.tasks:Tasks"}

    def start(self, parent):
        global connections
        connections += 1
        if connections > 1:
            say("reconnected")


app.steps["consumer"].add(Announce)


@app.task(bind=True)
def take(self, n):
    say(f"received {n}" + (" again" if self.request.delivery_info["redelivered"] else ""))
    received.add(n)
    if len(received) == count:
        all_received.set()


def publish():
    for n in range(1, count + 1):
        policy = {"max_retries": None, "interval_start": 0.1, "interval_max": 0.1, "errback": lambda exc, interval, n=n: say(f"published {n} again")}
        take.apply_async((n,), retry=True, retry_policy=policy)
        say(f"confirmed {n}")
    all_received.wait()
    say("done")


threading.Thread(target=publish, daemon=True).start()
app.worker_main(["--quiet", "worker", "--pool=solo", "--loglevel=critical", "--without-gossip", "--without-mingle", "--without-heartbeat"])

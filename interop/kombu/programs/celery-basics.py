"""celery-basics.py worker NAME OPTION... | tasks | control | shutdown: what Celery asks of a broker, a line per step; the test says what
each shows. The worker is Celery's own, with its default pool of processes; CELERY_QUEUES is the type of the queues, and without
CELERY_CONTROL the worker has no remote control."""
import os
import subprocess
import sys
import threading
import time
import warnings

from celery import Celery, chain, group
from celery.exceptions import Reject, TaskRevokedError
from celery.signals import worker_ready
from kombu import Exchange, Queue
from kombu.common import Broadcast

warnings.simplefilter("ignore")  # of running as root, where tests do
url, kind = os.environ["AMQP_URL"], os.environ.get("CELERY_QUEUES", "classic")
patience = 40  # seconds
name = f"basics.{kind}"
dead = Queue("basics.dead")
letters = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
app = Celery("basics", broker=url, backend="rpc://")
app.conf.update(
    task_default_queue=name, task_default_exchange=name, task_default_exchange_type="topic", task_default_routing_key=name,
    task_queues=[Queue(name, Exchange(name, "topic"), name, queue_arguments=letters), Broadcast("basics.all")],
    worker_enable_remote_control="CELERY_CONTROL" in os.environ, worker_hijack_root_logger=False, worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True, broker_transport_options={"confirm_publish": True})


def say(*words):
    """Prints a line in one piece, whichever process it comes from."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


@app.task(name="add")
def add(x, y):
    return x + y


@app.task(name="fail")
def fail():
    raise ValueError("no")


@app.task(name="flaky", bind=True, max_retries=3)
def flaky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=1)
    return self.request.retries


@app.task(name="reject", bind=True, acks_late=True)
def reject(self, requeue):
    if requeue and self.request.delivery_info["redelivered"]:
        return "again"
    raise Reject("no", requeue=requeue)


@app.task(name="steps", bind=True)
def steps(self, count):
    for i in range(count):
        self.update_state(state="PROGRESS", meta=i)
    return count


@app.task(name="when")
def when():
    return time.time()


@app.task(name="slow")
def slow():
    time.sleep(600)


@app.task(name="everywhere")
def everywhere():
    say("everywhere")


def get(connection, queue):
    """The next message of the queue, which may be about to come."""
    bound = queue(connection.channel())
    while (message := bound.get(no_ack=True)) is None:
        time.sleep(0.02)
    return message


def outcome(result):
    """What the task's caller is told."""
    try:
        return result.get(timeout=patience)
    except (TaskRevokedError, ValueError) as error:
        return type(error).__name__, *error.args


def tasks():
    with app.connection() as connection:
        channel = connection.channel()
        dead(channel).declare()
        dead(channel).purge()
    say("result:", add.delay(2, 3).get(timeout=patience))
    say("failed:", *outcome(fail.delay()))
    say("retried:", flaky.delay().get(timeout=patience))
    say("chain:", chain(add.s(1, 2), add.s(3)).delay().get(timeout=patience))
    say("group:", sum(group(add.s(i, 0) for i in range(10))().get(timeout=patience)))
    progress = []
    steps.delay(3).get(timeout=patience, on_message=lambda body: progress.append(body["status"]))
    say("progress:", *progress)
    eta = time.time() + 1
    say("countdown:", "kept" if when.apply_async(countdown=1).get(timeout=patience) >= eta else "too early")
    reject.delay(False)
    with app.connection() as connection:
        letter = get(connection, dead)
        say("dead:", letter.headers["task"], letter.headers["x-death"][0]["reason"], "from", letter.headers["x-death"][0]["queue"])
    say("requeued:", reject.delay(True).get(timeout=patience))
    priorities()


def priorities():
    """Tasks that wait, the most urgent first."""
    urgent = Queue("basics.urgent", max_priority=10)
    with app.connection() as connection:
        urgent(connection.channel()).declare()
        for priority in (1, 9, 5):
            add.apply_async((1, 1), queue=urgent, priority=priority, ignore_result=True)
        say("priorities:", *(get(connection, urgent).properties["priority"] for _ in range(3)))


def until(step):
    """Answers what the step answers once it answers something."""
    for _ in range(patience * 10):
        if answer := step():
            return answer
        time.sleep(0.1)
    raise TimeoutError(step)


def control():
    inspect = app.control.inspect(timeout=patience, limit=2)
    say("ping:", *sorted(host for answer in app.control.ping(timeout=patience, limit=2) for host in answer))
    say("registered:", *sorted({task for listed in inspect.registered().values() for task in listed}))
    say("queues:", *sorted({queue["name"] for listed in inspect.active_queues().values() for queue in listed if "bcast" not in queue["name"]}))
    say("events:", *events())
    later = add.apply_async((1, 1), countdown=500)
    until(lambda: any(inspect.scheduled().values()))
    app.control.revoke(later.id)
    say("scheduled, revoked:", len(until(lambda: inspect.revoked())))
    running = slow.delay()
    until(lambda: any(inspect.active().values()))
    app.control.revoke(running.id, terminate=True)
    say("running, terminated:", *outcome(running))
    say("rate limit:", *(list(answer.values())[0]["ok"] for answer in app.control.rate_limit("add", "100/s", reply=True, timeout=patience, limit=2)))
    app.control.add_consumer("basics.extra", reply=True, timeout=patience, limit=2)
    say("another queue:", add.apply_async((1, 2), queue="basics.extra").get(timeout=patience))
    everywhere.apply_async(queue="basics.all", ignore_result=True)
    say("command line:", command_line("inspect", "ping"), "and", command_line("status"))


def events():
    """The events of one task. That a worker answers with a heartbeat shows that they are listened to."""
    seen, listening, over = [], threading.Event(), threading.Event()

    def take(event):
        if event["type"].startswith("worker-"):
            listening.set()
        elif event["type"] == "task-succeeded":
            over.set()
        seen.append(event["type"])

    def listen():
        with app.connection() as connection:
            app.events.Receiver(connection, handlers={"*": take}).capture(limit=None, timeout=patience, wakeup=True)

    threading.Thread(target=listen, daemon=True).start()
    listening.wait(patience)
    add.delay(1, 1).get(timeout=patience)
    over.wait(patience)
    return [event for event in seen if event.startswith("task-")]


def command_line(*words):
    """The last line of what Celery's own command says."""
    done = subprocess.run([sys.executable, "-m", "celery", "-b", url, *words, "--timeout", "5"], capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


@worker_ready.connect
def ready(**_):
    say("ready")


match sys.argv[1:]:
    case ["worker", host, *options]:
        app.worker_main(["--quiet", "worker", "--loglevel=critical", "--concurrency=2", f"--hostname={host}", *options])
    case ["tasks"]:
        tasks()
    case ["control"]:
        control()
    case ["shutdown"]:
        app.control.shutdown()

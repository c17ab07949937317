"""Handlers that do what handlers should, and what they should not."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

_kept = []


def echo(job, context):
    return job.payload


def nothing(job, context):
    return None


def about(job, context):
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "job": context.job.id,
        "attempt": context.attempt,
        "run": context.run,
        "environ": {name: value for name, value in os.environ.items() if name.startswith("JOBQ_")},
    }


def prints(job, context):
    print("one")
    print("two", file=sys.stderr)
    os.write(1, b"three\n")
    ctypes.CDLL(None).printf(b"four ")
    subprocess.run(["/bin/sh", "-c", "echo five; echo six >&2"], check=True)
    context.log.info("seven")
    os.write(1, bytes(range(256)))
    print("eight", end="")
    return "returned"


def floods(job, context):
    for _ in range(64):
        os.write(1, b"x" * 65535 + b"\n")


def shows_environment(job, context):
    return subprocess.run(
        ["/bin/sh", "-c", "echo $JOBQ_JOB_ID $JOBQ_RUN $JOBQ_WORKER"], check=True, capture_output=True, text=True
    ).stdout


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Outside(BaseException):
    pass


def raises(job, context):
    print("about to fail")
    kind = job.payload
    if kind == "value":
        raise ValueError("no such size\nand more")
    if kind == "unspeakable":
        raise Unspeakable
    if kind == "outside":
        raise Outside("far out")
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "surrogate":
        raise ValueError("half a \ud83d")
    if kind == "group":
        raise ExceptionGroup("several", [ValueError(1)])
    raise AssertionError


def exits(job, context):
    sys.exit(job.payload)


def dies(job, context):
    print("last words")
    if job.payload == "abort":
        os.abort()
    if job.payload == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(job.payload)


def result(job, context):
    values = {
        "set": {1},
        "nan": float("nan"),
        "surrogate": "\ud83d",
        "big": "x" * 900_000,
        "text": "ünï\u2028",
    }
    loop = []
    loop.append(loop)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    nested = {}
    for _ in range(100):
        nested = {"in": nested}
    return (values | {"loop": loop, "deep": deep, "nested": nested})[job.payload]


async def awaits(job, context):
    async def forever():
        await asyncio.Event().wait()

    _kept.append(asyncio.get_running_loop().create_task(forever()))
    await asyncio.sleep(0.001)
    if job.payload == "raise":
        raise LookupError("async")
    return {"others": len(asyncio.all_tasks())}


async def awaits_stubborn(job, context):
    async def forever():
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                print("not me")

    _kept.append(asyncio.get_running_loop().create_task(forever()))
    await asyncio.sleep(0)


def sleeps(job, context):
    how = job.payload
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "polite":
        signal.signal(signal.SIGTERM, lambda *_: print("told"))
        print("started")
        signal.pause()
        return "done"
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print(os.getpid(), child.pid)
    while True:
        time.sleep(1000)


def leaves(job, context):
    """Leaves a process behind; the pids of this process and of that one."""
    how = job.payload
    if how == "plain":
        process = subprocess.Popen(["sleep", "1000"])
        _kept.append(process)
        pid = process.pid
    elif how == "daemon":
        command = "(setsid sleep 1000 >/dev/null 2>&1 & echo $!)"
        pid = int(subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout)
    elif how == "cleared":
        command = "(env -i setsid sleep 1000 >/dev/null 2>&1 & echo $!)"
        pid = int(subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout)
    elif how == "fork":
        pid = os.fork()
        if not pid:
            os.setsid()
            time.sleep(1000)
    elif how == "dead":
        process = subprocess.Popen(["true"])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        _kept.append(process)
        pid = process.pid
    else:
        thread = threading.Thread(target=time.sleep, args=(1000,))
        thread.start()
        pid = os.getpid()
    return [os.getpid(), pid]


def forks_and_returns(job, context):
    os.fork()
    return os.getpid()


def closes_everything(job, context):
    os.closerange(3, 256)
    return "nobody hears this"


def closes_stdout(job, context):
    print("before")
    sys.stdout.close()


def replaces_stdout(job, context):
    class Broken:
        def flush(self):
            raise OSError("broken")

    sys.stdout = Broken()


def closes_the_pipe(job, context):
    os.close(1)
    os.close(2)


not_callable = 5


def enqueues(job, context):
    return context.enqueue(command="echo from a handler").id


def waits_for(job, context):
    """Ends when there is a file of the payload's name."""
    while not os.path.exists(job.payload):
        time.sleep(0.001)


def writes(job, context):
    os.write(1 + len(job.payload) % 2, (job.payload if isinstance(job.payload, str) else "").encode())


def starts_what_prints(job, context):
    text = job.payload if isinstance(job.payload, str) else ""
    subprocess.run(["/bin/cat"], input=text, text=True, check=True)


def appends(job, context):
    with open(job.payload, "a") as file:
        file.write(job.id)


def is_alone(job, context):
    """Whether this process has no living children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def sleeps_with(job, context):
    time.sleep(1000)


def shares_memory(job, context):
    """The pid of this process; leaves Python's resource tracker running."""
    from multiprocessing import shared_memory

    shared = shared_memory.SharedMemory(create=True, size=16)
    shared.close()
    shared.unlink()
    return os.getpid()

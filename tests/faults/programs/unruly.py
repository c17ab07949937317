"""A handler that does what no handler should; its payload says what, with arguments."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
import time


def run(job, context):
    """Call the function of that name."""
    what, *arguments = job.payload
    return globals()[what](*arguments)


def shell(script):
    """Run a script, which prints to where this process does."""
    return subprocess.run(["sh", "-c", script], check=False).returncode


def prints(path, size):
    """Write what a file holds, so many bytes at a time."""
    with open(path, "rb") as file:
        while data := file.read(size):
            os.write(1, data)


def says(word):
    """Print a word."""
    print(word)


def reads():
    """What there is to read: by a file, by the descriptor, and by a person."""
    try:
        person = input()
    except EOFError:
        person = None
    return [sys.stdin.read(), os.read(0, 1).decode(), person]


def leaves(script):
    """Leave processes behind that still hold the output."""
    subprocess.Popen(["sh", "-c", script])
    print("said")


def ends(how, number):
    """End this process by an exit code or a signal."""
    if how == "exit":
        os._exit(number)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number in signal.valid_signals() - {signal.SIGKILL}:  # some of them Python takes for itself
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    time.sleep(1000)


def stays(how, path):
    """Never return, and take no notice of some signals; tell the pid first."""
    if how != "stopped":
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    with open(path, "w") as file:
        file.write(f"{os.getpid()}\n")
    if how != "deaf":
        os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        time.sleep(1000)


def endless():
    """Never return."""
    while True:
        pass


def standing(seconds=0):
    """What this process has that others share with it."""
    time.sleep(seconds)
    with open("/proc/self/status") as file:
        status = {line.partition(":")[0]: line.partition(":")[2].strip() for line in file}
    numbers = [number for number in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{number}")]
    kinds = sorted(os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in numbers)
    print("heard")
    return {
        "directory": os.getcwd(),
        "descriptors": kinds,
        "limits": [resource.getrlimit(number) for number in range(16)],
        **{name: status[name] for name in ("Umask", "SigBlk", "Uid", "Gid")},
    }


def changes(what):
    """Change something of this process."""
    CHANGES[what]()
    return os.getpid()


def _goes_away():
    os.chdir("/")


def _limits_itself():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def _blocks_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _leads():
    for call in (os.setsid, lambda: os.setpgid(0, 0)):
        try:
            call()
        except OSError:
            pass


ZOMBIES = int(os.environ.get("UNRULY_ZOMBIES", "0"))


def _forks_zombies():
    for _ in range(ZOMBIES):
        if os.fork() == 0:
            os._exit(0)


def _writes_everywhere():
    for number in os.listdir("/proc/self/fd"):
        try:
            os.write(int(number), b"garbage\ngarbage")
        except OSError:
            pass


def forges(path):
    """Answer in the place of this process, with a key that it finds in its frames; return when the path is there."""
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        frame = frame.f_back
    with open("/proc/self/cmdline", "rb") as file:
        answers = int(file.read().split(b"\0")[4])
    os.write(answers, b'%b 1 {"result":"forged"}\n' % frame.f_locals["request"]["key"].encode() * 2)
    while not os.path.exists(path):
        time.sleep(0.01)
    print("printed too late")
    return "late"


def _prints_elsewhere():
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _reads_elsewhere():
    os.dup2(os.open("/dev/zero", os.O_RDONLY), 0)


CHANGES = {
    "directory": _goes_away,
    "umask": lambda: os.umask(0),
    "mask": _blocks_signals,
    "alarm": lambda: signal.setitimer(signal.ITIMER_REAL, 0.05),
    "limits": _limits_itself,
    "session": _leads,
    "zombies": _forks_zombies,
    "descriptors": _writes_everywhere,
    "stdout": _prints_elsewhere,
    "stdin": _reads_elsewhere,
    "user": lambda: os.setresuid(65534, 65534, 65534) if os.geteuid() == 0 else None,
}


def raises(name):
    """Raise something."""
    error = RAISED[name]()
    raise error


class Speechless(Exception):
    """Cannot be told of."""

    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__


class Shapeless(BaseException):
    """Cannot be shown."""

    def __repr__(self):
        raise KeyboardInterrupt


class _Unnamed(type):
    @property
    def __name__(cls):
        raise GeneratorExit


class Nameless(Exception, metaclass=_Unnamed):
    """Has no name."""


def _caused():
    error = ValueError("first")
    for number in range(1000):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    return error


def _endless():
    return _endless()


RAISED = {
    "exit": lambda: SystemExit(3),
    "exit for no reason that can be told": lambda: SystemExit(Speechless()),
    "interrupt": KeyboardInterrupt,
    "generator": GeneratorExit,
    "iteration": StopIteration,
    "cancelled": asyncio.CancelledError,
    "base": lambda: BaseException("far out"),
    "group": lambda: BaseExceptionGroup("several", [KeyboardInterrupt(), Speechless()]),
    "speechless": Speechless,
    "shapeless": Shapeless,
    "nameless": Nameless,
    "long": lambda: type("X" * 1_000_000, (Exception,), {})("y" * 1_000_000),
    "surrogates": lambda: type("\ud800", (Exception,), {})("\udfff"),
    "caused": _caused,
    "memory": MemoryError,
    "recursion": _endless,
}


def returns(name):
    """Return something."""
    return RETURNED[name]()


class _Refusing(dict):
    def items(self):
        raise SystemExit(0)


class _Hiding(dict):
    def values(self):
        return []


class _Lying(int):
    def __repr__(self):
        return "nonsense"


class _Mute(str):
    __slots__ = ()

    def __str__(self):
        raise KeyboardInterrupt


class _Failing(list):
    def __iter__(self):
        raise MemoryError("no")


def _nested(depth, make=lambda inner: [inner]):
    value = make(0)
    for _ in range(depth - 1):
        value = make(value)
    return value


def _looping():
    value = {}
    value["itself"] = value
    return value


RETURNED = {
    "itself": _looping,
    "nan": lambda: [float("nan")],
    "infinity": lambda: float("-inf"),
    "nan as a key": lambda: {float("nan"): 1},
    "a pair as a key": lambda: {(1, 2): 3},
    "bytes": lambda: b"bytes",
    "an object": object,
    "a generator": lambda: (each for each in ()),
    "half a character": lambda: "\ud83d",
    "too deep": lambda: _nested(101),
    "far too deep": lambda: _nested(100_000),
    "deeper than it looks": lambda: _nested(150, lambda inner: _Hiding(inner=inner)),
    "too large": lambda: "x" * (2 << 20),
    "a number too long": lambda: 10**5000,
    "refusing": lambda: _Refusing(a=1),
    "failing": lambda: _Failing([1]),
    "deep": lambda: _nested(100),
    "a number of a kind": lambda: _Lying(7),
    "a text of a kind": lambda: _Mute("text"),
    "a dict of a kind": lambda: _Hiding(a=[1]),
    "twice one key": lambda: {1: "a", "1": "b"},
    "a thread": lambda: threading.Thread(target=time.sleep, args=(1000,)).start(),
}


if __name__ == "__main__":
    changes(sys.argv[1])

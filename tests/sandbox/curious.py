"""An environment for the tests that asks for all there is to find out. Only its text is used."""

import ctypes
import datetime
import gc
import json
import os
import platform
import random
import resource
import signal
import socket
import sys
import threading
import time
import uuid
import zoneinfo
from datetime import datetime as Moment

LIBC = ctypes.CDLL(None, use_errno=True)
UNSEEDED = random.Random()
ZONE = zoneinfo.ZoneInfo("Europe/Berlin")


def frames():
    frame, seen = sys._getframe(), []
    while frame is not None:
        seen.append([frame.f_code.co_name, sorted(map(repr, frame.f_locals))])
        frame = frame.f_back
    return seen


def request():
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["request"]


def raw(number, *arguments):
    return LIBC.syscall(ctypes.c_long(number), *arguments), ctypes.get_errno()


ASKED = {
    "time": time.time,
    "ns": time.time_ns,
    "monotonic": time.monotonic,
    "perf": time.perf_counter,
    "process": time.process_time,
    "clocks": lambda: [time.clock_gettime(n) for n in (0, 1, 4, 5, 6, 7)],
    "now": datetime.datetime.now,
    "alias": lambda: (lambda: Moment)().now(),
    "today": datetime.date.today,
    "utc": lambda: Moment.now(datetime.UTC),
    "berlin": lambda: Moment.now(ZONE),
    "local": time.localtime,
    "text": time.ctime,
    "gettimeofday": lambda: LIBC.gettimeofday(ctypes.create_string_buffer(16), None),
    "libc": lambda: LIBC.time(None),
    "raw clock": lambda: raw(228, 0, ctypes.create_string_buffer(16)),
    "pid": os.getpid,
    "parent": os.getppid,
    "thread": threading.get_native_id,
    "raw pid": lambda: raw(39),
    "identity": threading.get_ident,
    "times": os.times,
    "usage": lambda: resource.getrusage(0),
    "user": os.getlogin,
    "limits": lambda: resource.getrlimit(resource.RLIMIT_CPU),
    "host": os.uname,
    "platform": platform.node,
    "load": os.getloadavg,
    "cores": os.cpu_count,
    "affinity": lambda: os.sched_getaffinity(0),
    "where": os.getcwd,
    "urandom": lambda: os.urandom(8),
    "uuid": uuid.uuid4,
    "unseeded": UNSEEDED.random,
    "new": lambda: random.Random().random(),
    "system": lambda: random.SystemRandom().random(),
    "state": lambda: hash(random.getstate()),
    "hash": lambda: hash("text"),
    "object": lambda: id(object()),
    "repr": lambda: repr(object()),
    "default hash": lambda: hash(object()),
    "set": lambda: repr({object(), object(), object()}),
    "objects": lambda: len(gc.get_objects()),
    "collected": gc.get_count,
    "statistics": gc.get_stats,
    "blocks": sys.getallocatedblocks,
    "argv": lambda: (sys.argv, sys.orig_argv),
    "modules": lambda: sorted(sys.modules),
    "environment": lambda: sorted(os.environ.items()),
    "frames": frames,
    "request": request,
    "files": lambda: os.listdir("/proc/self/fd"),
    "open": lambda: os.open("/proc/uptime", 0),
    "stat": lambda: os.stat("/"),
    "free": lambda: os.statvfs("/"),
    "stream": lambda: os.fstat(3),
    "peer": lambda: socket.socket(fileno=3).getpeername(),
    "wait": lambda: time.sleep(99),
    "fork": os.fork,
    "timer": lambda: signal.setitimer(signal.ITIMER_REAL, 1),
    "alarm": lambda: signal.alarm(1),
    "stopwatch": lambda: __import__("select").select([3], [], [], 0.01),
    "kill": lambda: os.kill(1, 9),
    "interned": lambda: id(sys.intern("a word")),
    "next": lambda: id([]) - id({}),
    "size": lambda: sys.getsizeof(sys.modules),
}


def told():
    found = {}
    for name, ask in ASKED.items():
        try:
            found[name] = repr(ask())
        except BaseException as error:
            found[name] = type(error).__name__
    return json.dumps(found)


def tools():
    return []


def oracle(seed):
    return []


def reset(seed):
    return [{"role": "user", "content": told()}]


def step(message):
    return {"messages": [], "done": False, "truncated": False}


def verdict():
    return {"reward": 0.0, "success": False, "checks": []}

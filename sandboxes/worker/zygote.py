"""The process that leaves are forked from."""

import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
import time

from leaf import Leaf
from machine import STREAM
from modules import load_modules
from wire import NAME, describe, encode

CRADLE = STREAM + 1
"""The descriptor over which each leaf is given the one that it waits on."""
FORK, REAP, DONE = b"f", b"r", b"\0"


class Zygote:
    """The process that leaves are forked from: it remembers nothing from one to the next.

    Every order of the supervisor is one byte on `STREAM`. `f` forks a leaf; the answer is one byte, 0 or why
    it could not be done. `r` asks for the leaves that have ended since the last time; the answer is how many,
    and the number and status of each. Orders are taken and leaves forked without making a list, a tuple or
    anything else that Python keeps for later: the thousandth leaf finds the memory that the first one found.
    """

    def __init__(self, machine, lonely):
        self.machine, self.lonely = machine, lonely
        self.code, self.leaf_bytes, self.process, self.sealed = None, 0, 1, False

    def prepare(self, request):
        """Compile the source, import what it names, fix the clock; return what the supervisor is told."""
        source, clock = request["source"], request["clock"]
        self.leaf_bytes, self.process = request["leaf_bytes"], request["process"]
        self.sealed = request["sealed"] and self.machine.seals
        sys.argv[:] = sys.orig_argv[:] = ["worker"]
        os.environ["TZ"] = "UTC"
        time.tzset()
        if self.sealed:
            self.machine.fix_clock(clock)
        register, os.register_at_fork = os.register_at_fork, lambda **_: None
        __import__("random").seed(0)  # without the new seed that it would draw in every leaf
        os.register_at_fork = register
        try:
            self.code = compile(source, NAME, "exec", dont_inherit=True)
        except BaseException as error:
            return {"err": f"the source does not compile: {describe(error)}"}
        load_modules(self.code)
        state = {"sealed": self.sealed, "clock": self.look_at_the_clock(clock)}
        for _ in range(3):  # what is done for the first time leaves traces that the second time finds
            self.look_at_the_clock(clock)
        gc.collect()
        gc.freeze()
        return state

    def look_at_the_clock(self, clock):
        """How a sealed leaf finds its clock: `fixed`, `deadly` (who looks at it dies), or `real`."""
        looker = os.fork()
        if looker == 0:
            try:
                if self.sealed:
                    self.machine.seal()
                os._exit(0 if int(time.time()) == clock == int(time.clock_gettime(0)) else 1)
            finally:
                os._exit(2)
        # Waited for, not polled: how often one polls depends on the machine, and leaves a mark in the memory.
        os.waitid(os.P_PID, looker, os.WEXITED | os.WNOWAIT)
        status = os.waitstatus_to_exitcode(struct.unpack("<qqq", reap())[2])
        reap()
        return {0: "fixed", -signal.SIGSEGV: "deadly"}.get(status, "real")

    def serve(self):
        """Fork leaves until the supervisor is gone; in a leaf, serve its episode."""
        if self.wait_for_birth():
            self.become_leaf()

    def wait_for_birth(self):
        """Take orders; returns in a leaf (True), and when the supervisor is gone (False)."""
        read, write, fork = os.read, os.write, os.fork
        while True:
            order = read(STREAM, 1)
            if order == FORK:
                try:
                    if fork() == 0:
                        return True
                    write(STREAM, DONE)
                except OSError as error:
                    write(STREAM, bytes((error.errno,)))
            elif order:
                write(STREAM, reap())
            else:
                return False

    def become_leaf(self):
        """In the child: shed what is the zygote's, wait for a stream, give up the kernel, and serve."""
        if self.lonely:
            self.machine.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        take(CRADLE)
        os.write(STREAM, struct.pack("<q", os.getpid()))
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        if self.leaf_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (self.leaf_bytes, self.leaf_bytes))
        warm_up()
        take(STREAM)
        if self.sealed:
            self.machine.seal()
        Leaf(self.code, STREAM, self.process).serve()


def take(fd):
    """Wait for the descriptor that comes over another one, and have it as `STREAM`, and nothing above it."""
    with socket.socket(fileno=os.dup(fd)) as wire:
        fds = socket.recv_fds(wire, 1, 1)[1]
    if not fds:
        os._exit(0)  # whoever would have spoken to this leaf is gone
    os.dup2(fds[0], STREAM)
    os.closerange(STREAM + 1, 1024)


def reap():
    """The leaves that have ended since the last look: how many, and number and status of each, packed."""
    told, count = b"", 0
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            told, count = told + struct.pack("<qq", pid, status), count + 1
    except ChildProcessError:
        pass
    return struct.pack("<q", count) + told


WARM = compile("def f(x: int = 1) -> int:\n    return x\n\nf()\n", "<warm>", "exec")


def warm_up():
    """Touch what every episode touches, while nobody waits: a fork shares memory only until it is used."""
    exec(WARM, {})
    sys.modules["random"].seed(0)
    encode(json.loads('{"id":1,"ok":[{"a":"b","c":null,"d":true,"e":1.5}]}'))

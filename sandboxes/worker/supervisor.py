"""The first process: speaks with the host and keeps account of the zygote and its leaves."""

import os
import resource
import select
import signal
import socket
import struct
import sys
import time

from leaf import FIRST
from machine import STREAM, Machine
from wire import Lines, describe, encode, err, ok, write_all
from zygote import CRADLE, FORK, REAP, Zygote

try:
    from _sha256 import sha256  # hashlib would load OpenSSL: 10 ms
except ImportError:
    from hashlib import sha256

PROTOCOL = 3
MAX_SPARES = 24
MAX_FATES = 1024
CALM_MS = 5000
BIRTH_SECONDS = 2.0
# Of every process here. Docker sets the same from outside; elsewhere nobody else does.
LIMITS = {"RLIMIT_NOFILE": 256, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0, "RLIMIT_CPU": 600, "RLIMIT_MEMLOCK": 0}


class Supervisor:
    """Speaks with the host and keeps account of the zygote and its leaves."""

    def __init__(self, read_fd, write_fd, sock, machine):
        self.read_fd, self.write_fd, self.sock, self.machine = read_fd, write_fd, sock, machine
        self.lonely = os.getpid() > 1000  # no pid namespace, which would end with the first process
        self.zygote, self.zygote_pid, self.cradle = None, 0, None
        self.sessions, self.fates = {}, {}  # pid of a living leaf -> session, session -> wait status
        self.relays = {}  # session -> descriptor of the leaf, only with --stdio
        self.least = 1 if sock is None else 0  # else the host has the next leaf bound ahead
        self.spares, self.stock = [], self.least  # sockets of the leaves forked ahead, and how many to have
        self.refusal = ""  # why the last fork failed
        self.inbox = select.poll()

    def serve(self):
        """Answer until the host closes the stream."""
        lines = Lines(self.read_fd, self.sock)
        self.inbox.register(self.read_fd, select.POLLIN)
        while True:
            while self.zygote is not None and len(self.spares) < self.stock:
                if lines.rest or self.inbox.poll(0) or not self.prepare():  # a request goes first
                    break
            while self.stock > self.least and not lines.rest and not self.inbox.poll(CALM_MS):
                self.dismiss()
            request, fds = lines.next()
            if request is None:
                return
            op = request["op"]
            if op == "ping":
                reply = ok(request, None)
            elif op == "load":
                reply = self.load(request)
            elif op == "fate":
                reply = ok(request, self.fate(request["session"]))
            elif op == "alive":
                self.reap()
                reply = ok(request, sorted(self.sessions.values()))
            elif op == "leaf" and self.zygote is not None and fds:
                self.bind(request["session"], fds[0])  # no reply: a leaf that never came is told by its fate
                os.close(fds[0])
                reply = None
            elif op in FIRST and self.zygote is not None and self.sock is None:
                reply = self.begin(request)
            elif self.relays.get(request.get("session")) is not None:
                reply = self.relay(request)
            else:
                reply = err(request, "order", f"'{op}' may not come now")
            if reply:
                write_all(self.write_fd, reply)

    def load(self, request):
        """Fork the zygote and have it compile the source."""
        if self.zygote is not None:
            return err(request, "order", "an environment is loaded already")
        ours, theirs = socket.socketpair()
        self.cradle, cradle = socket.socketpair()
        self.zygote_pid = os.fork()
        if self.zygote_pid == 0:
            try:
                self.become_zygote(theirs.detach(), cradle.detach(), request)
            finally:
                os._exit(0)
        theirs.close()
        cradle.close()
        self.zygote = ours
        state, _fds = Lines(ours.fileno()).next()
        if state is None:
            return err(request, "died", encode(self.end_of_zygote()))
        if "err" in state:
            return err(request, "environment", state["err"])
        return ok(request, state)

    def become_zygote(self, stream, cradle, request):
        """In the child: shed what is the supervisor's, and serve."""
        if self.lonely:
            self.machine.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        stream, cradle = os.dup2(stream, 200), os.dup2(cradle, 201)  # out of the way of the two
        os.dup2(stream, STREAM)
        os.dup2(cradle, CRADLE)
        os.closerange(CRADLE + 1, 1024)
        zygote = Zygote(self.machine, self.lonely)
        write_all(STREAM, (encode(zygote.prepare(request)) + "\n").encode())
        if zygote.code is not None:
            zygote.serve()

    def end_of_zygote(self):
        """How the zygote ended, as `fate` tells it of a leaf."""
        return {"oom_kills": oom_kills()} | told(os.waitpid(self.zygote_pid, 0)[1])

    def order(self, letter, size):
        """One order to the zygote, and the first so many bytes of its answer.

        Raises:
            OSError: It is gone.
        """
        self.zygote.sendall(letter)
        return hear(self.zygote, size)

    def prepare(self):
        """Have a leaf forked that waits for the first request of its episode; whether that could be done."""
        self.reap()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                (number,) = self.order(FORK, 1)
                if number:
                    raise OSError(number, os.strerror(number))
                socket.send_fds(self.cradle, [b"x"], [theirs.fileno()])
            except OSError as error:
                self.refusal = describe(error)
                ours.close()
                return False
        ours.settimeout(BIRTH_SECONDS)
        self.spares.append(ours)
        return True

    def dismiss(self):
        """Let half of the waiting leaves go: nobody has asked for one lately, and each holds memory."""
        self.stock = max(self.stock // 2, self.least)
        for wire in self.spares[self.stock :]:
            wire.close()  # it sees the end of its stream
        del self.spares[self.stock :]
        self.reap()

    def bind(self, session, fd):
        """Give a leaf the descriptor on which it will be spoken to; whether there was one to be had."""
        if not self.spares and self.inbox.poll(0):  # asked for faster than they are forked: keep more
            self.stock = min(2 * self.stock or 1, MAX_SPARES)
        while self.spares or self.prepare():
            with self.spares.pop(0) as wire:
                try:
                    (pid,) = struct.unpack(
                        "<q", hear(wire, 8)
                    )  # who has it: not always who was forked for it
                    socket.send_fds(wire, [b"x"], [fd])
                except OSError:  # it has gone, for want of memory perhaps: take another
                    continue
            self.sessions[pid] = session
            return True
        self.fates[session] = None
        return False

    def begin(self, request):
        """Begin an episode over the one stream there is (`--stdio` only)."""
        ours, theirs = socket.socketpair()
        with theirs:
            if not self.bind(request["session"], theirs.fileno()):
                return err(request, "fork", self.refusal)
        self.relays[request["session"]] = ours.detach()
        return self.relay(request)

    def relay(self, request):
        """Pass a request to its leaf and the reply line back (`--stdio` only)."""
        session = request.pop("session")
        if request["op"] == "end":
            os.close(self.relays.pop(session))  # the leaf sees the end of its stream
            return ok(request, None)
        fd = self.relays[session]
        try:
            os.set_blocking(fd, False)
            if os.read(fd, 1):
                return err(request, "protocol", "bytes were pending before the request")
            return err(request, "died", encode(self.fate(session)))
        except BlockingIOError:
            os.set_blocking(fd, True)
        except OSError:
            return err(request, "died", encode(self.fate(session)))
        try:
            write_all(fd, (encode(request) + "\n").encode())
        except OSError:
            return err(request, "died", encode(self.fate(session)))
        return self.receive(fd, session, request)

    def receive(self, fd, session, request):
        """Hand the leaf's reply to the host as it comes, marked as a leaf's; the host bounds its length."""
        mark = b">"
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            if not data:
                return err(request, "died", encode(self.fate(session)))
            line, end, more = data.partition(b"\n")
            if more:  # told instead of the reply, or behind what of it has gone out already: no reply then
                if not mark:
                    write_all(self.write_fd, line)
                return err(request, "protocol", "more than one line came from a leaf")
            write_all(self.write_fd, mark + line + end)
            if end:
                return None
            mark = b""

    def reap(self):
        """Note the leaves that have ended."""
        if self.zygote is None or not (self.spares or self.sessions):
            return
        try:
            (count,) = struct.unpack("<q", self.order(REAP, 8))
            ended = hear(self.zygote, 16 * count)
        except OSError:  # the zygote has gone, and with it whoever could tell
            return
        for pid, status in struct.iter_unpack("<qq", ended):
            session = self.sessions.pop(pid, None)
            if session is not None:
                self.fates[session] = status
                if len(self.fates) > MAX_FATES:
                    del self.fates[next(iter(self.fates))]

    def fate(self, session):
        """How a leaf ended: `{"exit"}`, `{"signal"}` or `{}`; and the out-of-memory kills so far."""
        for _ in range(100):
            self.reap()
            if session in self.fates:
                break
            time.sleep(0.001)
        fate = {"oom_kills": oom_kills()}
        if session not in self.fates:
            return fate
        status = self.fates[session]
        return fate | ({"refused": self.refusal} if status is None else told(status))


def hear(sock, size):
    """So many bytes from a socket.

    Raises:
        OSError: The other side is gone, or says nothing.
    """
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise OSError("the other side is gone")
        data += more
    return data


def told(status):
    """A wait status in words."""
    code = os.waitstatus_to_exitcode(status)
    return {"exit": code} if code >= 0 else {"signal": -code}


def oom_kills():
    """Out-of-memory kills in this container so far (cgroup v2, else v1); None where it cannot be read."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        except OSError:
            continue
    return None


def own_hash(folder):
    """SHA-256 over the files of this program, as `trace_assets.sandbox.files.worker_hash` takes it."""
    digest = sha256()
    for name in sorted(one for one in os.listdir(folder) if one.endswith(".py")):
        with open(os.path.join(folder, name), "rb") as file:
            text = file.read()
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def main(argv):
    """Take the private descriptor away from 0, 1 and 2, say hello, serve."""
    sock = None
    if argv[:1] == ["--connect"]:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(argv[1])
    elif argv[:1] == ["--fd"]:
        sock = socket.socket(fileno=os.dup(int(argv[1])))
    elif argv != ["--stdio"]:
        sys.exit("usage: worker.py --connect PATH | --fd N | --stdio")
    if sock is None:
        read_fd, write_fd = os.dup(0), os.dup(1)
    else:
        read_fd = write_fd = sock.fileno()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if null > 2:
        os.close(null)
    machine = Machine()
    machine.forbid_exec()
    machine.prctl(4, 0)  # PR_SET_DUMPABLE: no other process of this user may look into or attach to us
    for name, value in LIMITS.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    hello = {
        "hello": "trace-sandbox",
        "protocol": PROTOCOL,
        "python": sys.version.split()[0],
        "worker": own_hash(os.path.dirname(__file__)),
    }
    write_all(write_fd, (encode(hello) + "\n").encode())
    Supervisor(read_fd, write_fd, sock, machine).serve()
    os._exit(0)

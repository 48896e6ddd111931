"""The only program of the sandbox: it serves episodes of one environment module to the host.

Standard library only. The first process (the zygote) never runs a line of the environment's code: it
compiles the source it is given and forks a *leaf* for every episode, a few ahead of time while it has nothing
else to do. A leaf executes the module, serves one episode on a descriptor of its own and exits; it may start
neither a process nor a thread, so nothing outlives an episode.

Newline-delimited JSON, one request in flight on a descriptor. Requests are `{"id", "op", ...}`, replies
`{"id", "ok"}` or `{"id", "err", "msg"}`. The zygote answers `load` (`source`, `leaf_bytes`), `ping` and
`fate` (`session`: how a leaf ended). A leaf answers one of `tools`, `oracle` (`seed`) and `reset` (`seed`),
and after `reset` also `step` (`message`), `verdict` and `end`. With `--connect PATH` or `--fd N` the host
orders a leaf by `leaf` (`session`, and a descriptor along with it; no reply) and speaks to it on that
descriptor. With `--stdio` there is one stream: requests carry `session` and the zygote passes them on.
"""

import gc
import json
import os
import re
import resource
import select
import socket
import struct
import sys
import time

try:
    from _sha256 import sha256  # hashlib would load OpenSSL: 10 ms
except ImportError:
    from hashlib import sha256

PROTOCOL = 2
NAME = "<environment>"
FUNCTIONS = ("tools", "reset", "step", "verdict", "oracle")
FIRST = ("tools", "oracle", "reset")
MAX_SPARES = 24
CALM_MS = 5000
# Of every process here. Docker sets the same from outside; elsewhere nobody else does.
LIMITS = {"RLIMIT_NOFILE": 256, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0, "RLIMIT_CPU": 600, "RLIMIT_MEMLOCK": 0}
# Imported by the zygote when the source mentions them, so that a leaf finds them loaded.
PRELOAD = {
    "abc", "base64", "bisect", "calendar", "collections", "contextlib", "copy", "csv", "dataclasses",
    "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "html",
    "io", "itertools", "json", "math", "numbers", "operator", "random", "re", "sqlite3", "statistics",
    "string", "textwrap", "time", "types", "typing", "unicodedata", "urllib.parse", "uuid", "zlib",
    "zoneinfo",
}  # fmt: skip
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def printable(text, limit=4000):
    """Text that survives UTF-8, cut to `limit` characters."""
    return text[:limit].encode("utf-8", "backslashreplace").decode()


def describe(error):
    """One line on an exception of the environment, with the lines of its source that led there."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = f"{type(error).__name__} (its message cannot be shown)"
    where, frame = [], error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        if code.co_filename == NAME:
            where.append(f"line {frame.tb_lineno} in {code.co_name}")
        frame = frame.tb_next
    return printable(text + (f" ({', '.join(where[-8:])})" if where else ""))


def ok(request, value):
    """The reply line to a request; a value that is not JSON is the environment's fault."""
    try:
        return f'{{"id":{request["id"]},"ok":{encode(value)}}}\n'.encode()
    except BaseException as error:
        return err(
            request, "environment", f"{request['op']} returned what JSON cannot hold: {describe(error)}"
        )


def err(request, kind, text):
    """The reply line that reports a failure."""
    return (encode({"id": request["id"], "err": kind, "msg": printable(text)}) + "\n").encode()


def write_all(fd, data):
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Lines:
    """Requests read from a descriptor, and the descriptors sent along with them."""

    def __init__(self, fd, sock=None):
        self.fd, self.sock, self.rest = fd, sock, b""

    def next(self):
        """The next request and its descriptors; `(None, [])` at the end of the stream."""
        chunks, fds, data = [self.rest], [], self.rest
        while b"\n" not in data:
            if self.sock is None:
                data = os.read(self.fd, 65536)
            else:
                data, new, _flags, _address = socket.recv_fds(self.sock, 65536, 1)
                fds += new
            if not data:
                return None, fds
            chunks.append(data)
        line, self.rest = b"".join(chunks).split(b"\n", 1)
        return json.loads(line), fds


class Leaf:
    """One process, one execution of the module, one episode."""

    def __init__(self, code, fd):
        self.code, self.fd = code, fd

    def serve(self):
        """Answer the requests of one episode; not a line of the module runs before the first of them."""
        lines, allowed = Lines(self.fd), FIRST
        request, _fds = lines.next()
        if request is None:
            return None
        try:
            module = type(sys)("environment")
            sys.modules["environment"] = module
            exec(self.code, module.__dict__)
            missing = [name for name in FUNCTIONS if not callable(module.__dict__.get(name))]
            if missing:
                raise AttributeError(f"the module defines no {', '.join(missing)}")
        except BaseException as error:
            return write_all(
                self.fd, err(request, "environment", f"while the module was executed: {describe(error)}")
            )
        while request is not None:
            op = request["op"]
            if op == "end":
                return write_all(self.fd, ok(request, None))
            if op not in allowed:
                return write_all(self.fd, err(request, "order", f"'{op}' may not come now"))
            write_all(self.fd, self.answer(module, request))
            allowed = ("step", "verdict") if op in ("reset", "step") else ()
            request, _fds = lines.next()

    def answer(self, module, request):
        """Call the environment's function of the request's name."""
        op = request["op"]
        try:
            if op in ("reset", "oracle"):
                sys.modules["random"].seed(request["seed"])
            argument = {"step": "message", "reset": "seed", "oracle": "seed"}.get(op)
            function = getattr(module, op)
            value = function(request[argument]) if argument else function()
        except BaseException as error:
            return err(request, "environment", f"in {op}: {describe(error)}")
        return ok(request, value)


class Zygote:
    """Compiles the environment once and forks a leaf for every episode."""

    def __init__(self, read_fd, write_fd, sock, prctl):
        self.read_fd, self.write_fd, self.sock, self.prctl = read_fd, write_fd, sock, prctl
        self.code, self.leaf_bytes = None, 0
        self.pids, self.statuses = {}, {}  # session -> pid, pid -> wait status
        self.relays = {}  # session -> descriptor of the leaf, only with --stdio
        self.least = 1 if sock is None else 0  # else the host has the next leaf bound ahead
        self.spares, self.stock = [], self.least  # leaves forked ahead as (pid, socket), and how many to have
        self.refusal = ""  # why the last fork failed
        self.inbox = select.poll()

    def serve(self):
        """Answer until the host closes the stream."""
        lines = Lines(self.read_fd, self.sock)
        self.inbox.register(self.read_fd, select.POLLIN)
        while True:
            while self.code is not None and len(self.spares) < self.stock:
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
            elif op == "leaf" and self.code is not None and fds:
                self.bind(request["session"], fds[0])  # no reply: a leaf that never came is told by its fate
                os.close(fds[0])
                reply = None
            elif op in FIRST and self.code is not None and self.sock is None:
                reply = self.begin(request)
            elif self.relays.get(request.get("session")) is not None:
                reply = self.relay(request)
            else:
                reply = err(request, "order", f"'{op}' may not come now")
            if reply:
                write_all(self.write_fd, reply)

    def load(self, request):
        """Compile the source and import the library modules that it names."""
        if self.code is not None:
            return err(request, "order", "an environment is loaded already")
        source = request["source"]
        try:
            code = compile(source, NAME, "exec", dont_inherit=True)
        except BaseException as error:
            return err(request, "environment", f"the source does not compile: {describe(error)}")
        named = {name for match in re.findall(r"(?m)^[ \t]*(?:import|from)[ \t]+([\w., \t]+)", source)
                 for name in re.findall(r"[\w.]+", match)}  # fmt: skip
        register, os.register_at_fork = os.register_at_fork, lambda **_: None
        __import__("random")  # without the new seed that it would draw in every leaf
        os.register_at_fork = register
        for name in PRELOAD & named:
            __import__(name)
        self.code, self.leaf_bytes = code, request.get("leaf_bytes") or 0
        gc.collect()
        gc.freeze()
        return ok(request, None)

    def prepare(self):
        """Fork a leaf that waits for the first request of its episode; whether that could be done."""
        self.reap()
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError as error:
            self.refusal = describe(error)
            ours.close()
            theirs.close()
            return False
        if pid == 0:
            try:
                self.become_leaf(theirs)
            finally:
                os._exit(0)
        theirs.close()
        self.statuses.pop(pid, None)  # of an earlier leaf with this number
        self.spares.append((pid, ours))
        return True

    def dismiss(self):
        """Let half of the waiting leaves go: nobody has asked for one lately, and each holds memory."""
        self.stock = max(self.stock // 2, self.least)
        for _pid, wire in self.spares[self.stock :]:
            wire.close()  # it sees the end of its stream
        del self.spares[self.stock :]
        self.reap()

    def become_leaf(self, wire):
        """In the child: shed what is the zygote's, wait for a descriptor and serve an episode on it."""
        if os.getpid() > 1000:  # no pid namespace of its own, which would end with the first process
            self.prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
        keep = wire.fileno()
        os.closerange(3, keep)
        os.closerange(keep + 1, 1024)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        if self.leaf_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (self.leaf_bytes, self.leaf_bytes))
        warm_up()
        fds = socket.recv_fds(wire, 1, 1)[1]
        wire.close()
        if fds:
            Leaf(self.code, fds[0]).serve()

    def bind(self, session, fd):
        """Give a leaf the descriptor on which it will be spoken to; whether there was one to be had."""
        if not self.spares and self.inbox.poll(0):  # asked for faster than they are forked: keep more
            self.stock = min(2 * self.stock or 1, MAX_SPARES)
        while self.spares or self.prepare():
            pid, wire = self.spares.pop(0)
            try:
                socket.send_fds(wire, [b"x"], [fd])
            except OSError:  # it has gone, for want of memory perhaps: take another
                continue
            finally:
                wire.close()
            self.pids[session] = pid
            if len(self.pids) > 1024:
                self.statuses.pop(self.pids.pop(next(iter(self.pids))), None)
            return True
        self.pids[session] = None
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
        if request["op"] == "end":
            os.close(self.relays.pop(request["session"]))  # the leaf sees the end of its stream
            return ok(request, None)
        fd = self.relays[request["session"]]
        try:
            os.set_blocking(fd, False)
            if os.read(fd, 1):
                return err(request, "protocol", "bytes were pending before the request")
            return err(request, "died", encode(self.fate(request["session"])))
        except BlockingIOError:
            os.set_blocking(fd, True)
        except OSError:
            return err(request, "died", encode(self.fate(request["session"])))
        try:
            write_all(fd, (encode(request) + "\n").encode())
        except OSError:
            return err(request, "died", encode(self.fate(request["session"])))
        return self.receive(fd, request)

    def receive(self, fd, request):
        """Hand the leaf's reply to the host as it comes; the host bounds its length."""
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            if not data:
                return err(request, "died", encode(self.fate(request["session"])))
            write_all(self.write_fd, data)
            if b"\n" in data:
                return None

    def reap(self):
        """Collect the leaves that have ended."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.statuses[pid] = status
        except ChildProcessError:
            return

    def fate(self, session):
        """How a leaf ended: `{"exit"}`, `{"signal"}` or `{}`; and the out-of-memory kills so far."""
        pid, fate = self.pids.get(session), {"oom_kills": oom_kills()}
        if session in self.pids and pid is None:
            return fate | {"refused": self.refusal}
        for _ in range(100):
            self.reap()
            if pid in self.statuses:
                code = os.waitstatus_to_exitcode(self.statuses[pid])
                return fate | ({"exit": code} if code >= 0 else {"signal": -code})
            time.sleep(0.001)
        return fate


WARM = compile("def f(x: int = 1) -> int:\n    return x\n\nf()\n", "<warm>", "exec")


def warm_up():
    """Touch what every episode touches, while nobody waits: a fork shares memory only until it is used."""
    exec(WARM, {})
    sys.modules["random"].seed(0)
    encode(json.loads('{"id":1,"ok":[{"a":"b","c":null,"d":true,"e":1.5}]}'))


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


def forbid_exec(ctypes, prctl):
    """Refuse to become another program: it would be dumpable again, within reach of other episodes.

    A filter on top of the container's, which must let its first process be executed.
    """
    numbers = {"x86_64": (59, 322), "aarch64": (221, 281)}.get(os.uname().machine)
    if numbers is None:
        return
    rows = [(0x20, 0, 0, 0)]  # load the number of the system call
    rows += [(0x15, 0, 1, numbers[0]), (0x06, 0, 0, 0x00050001)]  # execve: EPERM
    rows += [
        (0x15, 0, 1, numbers[1]),
        (0x06, 0, 0, 0x00050001),
        (0x06, 0, 0, 0x7FFF0000),
    ]  # execveat; else allow
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rows), ctypes.addressof(filters)))
    prctl(22, 2, program)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def no_prctl(*_arguments):
    """Stands in where the C library cannot be called."""
    return -1


def main(argv):
    """Take the private descriptor away from 0, 1 and 2, say hello, serve."""
    sock = None
    if argv[:1] == ["--connect"]:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(argv[1])
    elif argv[:1] == ["--fd"]:
        sock = socket.socket(fileno=int(argv[1]))
    elif argv != ["--stdio"]:
        sys.exit("usage: worker.py --connect PATH | --fd N | --stdio")
    if sock is None:
        read_fd, write_fd = os.dup(0), os.dup(1)
    else:
        read_fd = write_fd = sock.fileno()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        forbid_exec(ctypes, prctl)
    except (ImportError, OSError, AttributeError):
        prctl = no_prctl
    prctl(4, 0)  # PR_SET_DUMPABLE: no other process of this user may look into or attach to us
    for name, value in LIMITS.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    with open(__file__, "rb") as file:
        digest = sha256(file.read()).hexdigest()
    hello = {
        "hello": "trace-sandbox",
        "protocol": PROTOCOL,
        "python": sys.version.split()[0],
        "worker": digest,
    }
    write_all(write_fd, (encode(hello) + "\n").encode())
    Zygote(read_fd, write_fd, sock, prctl).serve()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

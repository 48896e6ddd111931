"""`trace` in processes forked from one that has imported it: importing takes seconds, and is paid once.

    forked.py serve SOCKET         listens, until the process that started it ends
    forked.py SOCKET ARGUMENT...   runs `trace ARGUMENT...` there as if it ran here: its variables, folder,
                                   streams and exit code are this process's; it is killed where this one is

What importing itself does (how long it takes, what it loads, what it reads from the environment) is for tests
with a process of their own, and so is what a signal does.
"""

import array
import json
import os
import socket
import sys
import time
from contextlib import suppress

STREAMS = 3


def ask(address: str, arguments: list[str]) -> int:
    """Have a command run, and return its exit code."""
    said = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode("utf-8", "surrogateescape")
    with socket.socket(socket.AF_UNIX) as line:
        until = time.monotonic() + 300
        while True:
            try:
                line.connect(address)
                break
            except (FileNotFoundError, ConnectionRefusedError):  # it is still importing
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        handed = array.array("i", range(STREAMS))
        line.sendmsg([len(said).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
        line.sendall(said)
        code = line.recv(1)
    return code[0] if code else 70


def serve(address: str) -> None:
    """Import the program, and fork a process for every command until our parent ends."""
    import select

    import trace_assets.cli
    import trace_assets.definitions  # noqa: F401

    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        while os.getppid() == parent:
            ready, _, _ = select.select([listening], [], [], 0.5)
            _reap()
            if ready:
                line, _ = listening.accept()
                if os.fork() == 0:
                    listening.close()
                    _handle(line)
                line.close()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _handle(line: socket.socket) -> None:
    """Run a command in a further process; returns in that one only, when its interpreter is to end."""
    import select
    import signal

    head, streams, _, _ = socket.recv_fds(line, 8, STREAMS)
    said = b""
    while len(said) < int.from_bytes(head, "big"):
        said += line.recv(1 << 16)
    arguments, folder, variables = json.loads(said.decode("utf-8", "surrogateescape"))
    child = os.fork()
    if child == 0:
        line.close()
        _become(arguments, folder, variables, streams)
    for one in streams:
        os.close(one)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, line], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        line.sendall(bytes([status if status >= 0 else 128 - status]))
    os._exit(0)


def _become(arguments: list[str], folder: str, variables: dict[str, str], streams: list[int]) -> None:
    """Be a process in which `python -m trace_assets` was just started, and end with it."""
    import runpy

    for number, one in enumerate(streams):
        os.dup2(one, number)
        os.close(one)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, closefd=False, errors="backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.path.insert(0, folder)
    sys.argv = ["trace", *arguments]
    runpy.run_module("trace_assets", run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))

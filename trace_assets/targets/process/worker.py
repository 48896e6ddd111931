"""One process of a target, and as many as episodes are in flight.

A worker's calls have a deadline, and there is no way back once it has misbehaved: a pool replaces it.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from trace_assets.errors import InputError, UserFault
from trace_assets.targets.process import serve
from trace_assets.targets.process.answers import (
    TargetDied,
    TargetFault,
    TargetHung,
    TargetUnavailable,
)

MAX_REPLY = 64 * 1024 * 1024
"""Bytes of one reply; a target's whole task list is one."""


class TargetWorker:
    """A process that serves one target module.

    Not shared between threads. A call that ends in a `TargetHung`, `TargetDied` or a reply that cannot be
    read has killed the process: `alive` is False from then on and the worker is not used again.

    Args:
        python: Interpreter in which the target's packages are installed.
        module: The target's file.
        variables: Environment variables beside those of this process.
        name: How messages call the target.

    Raises:
        TargetUnavailable: The process cannot be started.
    """

    def __init__(
        self, python: Path, module: Path, *, variables: Mapping[str, str] | None = None, name: str
    ) -> None:
        self._name = name
        self._number = 0
        self._pending = b""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        watched, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                [str(python), "-u", serve.__file__, str(module)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **(variables or {}), serve.LIFELINE: str(watched)},
                pass_fds=(watched,),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            os.close(self._lifeline)
            self._log.close()
            raise TargetUnavailable(
                f"the interpreter {python} of target '{name}' cannot be started ({error.strerror}); install "
                "the target again, or correct targets.python."
            ) from error
        finally:
            os.close(watched)

    @property
    def alive(self) -> bool:
        """Whether it may still be called."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id, which is its process group too."""
        return self._process.pid

    def call(self, op: str, seconds: float, **fields: Any) -> Any:
        """Carry out one operation.

        Args:
            op: As in `serve`.
            seconds: Deadline.
            **fields: Fields of the request.

        Raises:
            TargetHung: No answer in time.
            TargetDied: The process ended.
            TargetFault: The target's own exception, or an answer that is none.
            UserFault: The simulated user failed.
            TargetUnavailable: Something the target needs is not there.
            InputError: The target says that it was asked for something that does not exist.
        """
        self._number += 1
        until = time.monotonic() + seconds
        line = json.dumps({"id": self._number, "op": op, **fields}, allow_nan=False) + "\n"
        try:
            self._write(line.encode(), until)
            reply = self._reply(until)
        except _Late:
            self.kill()
            raise TargetHung(
                f"target '{self._name}' did not answer {op}() within {seconds:g} s; its process was killed "
                "(targets.call_seconds)."
            ) from None
        except (BrokenPipeError, EOFError):
            said = self._last_words()
            self.kill()
            raise TargetDied(f"the process of target '{self._name}' ended in {op}(){said}.") from None
        except _Unreadable as error:
            self.kill()
            raise TargetFault(f"the answer of target '{self._name}' to {op}() {error}.") from None
        if "fault" in reply:
            raise _fault(reply, self._name, op)
        return reply["ok"]

    def _write(self, data: bytes, until: float) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        view = memoryview(data)
        os.set_blocking(pipe.fileno(), False)
        while view:
            _, ready, _ = select.select([], [pipe], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise _Late
            view = view[os.write(pipe.fileno(), view) :]

    def _reply(self, until: float) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None
        parts = [self._pending]
        size = len(self._pending)
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise _Late
            part = os.read(pipe.fileno(), 1 << 16)
            if not part:
                raise EOFError
            parts.append(part)
            size += len(part)
            if size > MAX_REPLY:
                raise _Unreadable(f"is longer than {MAX_REPLY} bytes")
        line, _, self._pending = b"".join(parts).partition(b"\n")
        try:
            reply = json.loads(line)
        except ValueError as error:
            raise _Unreadable("is not JSON") from error
        if not isinstance(reply, dict) or reply.get("id") != self._number:
            raise _Unreadable("does not belong to the request")
        if "ok" not in reply and "fault" not in reply:
            raise _Unreadable("is neither a result nor a fault")
        return reply

    def _last_words(self) -> str:
        """Return the end of what the process printed, which is where a traceback says why."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4000))
        lines = [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f" (exit {self._process.poll()}): {lines[-1].strip()[:300]}" if lines else ""

    def kill(self) -> None:
        """End the process and all it started; may be called twice."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


class _Late(Exception):
    pass


class _Unreadable(Exception):
    pass


def _fault(reply: dict[str, Any], name: str, op: str) -> Exception:
    message = " ".join(str(reply.get("message", "")).split())[:500]
    kind = reply["fault"]
    if kind == "user":
        return UserFault(f"the simulated user of target '{name}' failed: {message}")
    if kind == "infrastructure":
        return TargetUnavailable(f"target '{name}' cannot go on: {message}")
    if kind == "input":
        return InputError(f"target '{name}': {message}")
    return TargetFault(f"target '{name}' failed in {op}(): {message}")


class TargetProcessPool:
    """Lends workers, one an episode.

    Waiting for a worker does not block the event loop; calls run in threads of the pool, since an answer may
    take as long as a language model's.

    Args:
        start: Starts and greets a worker.
        size: Workers at once.
    """

    def __init__(self, start: Callable[[], TargetWorker], size: int) -> None:
        self._start, self._size = start, size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="target")
        self._idle: list[TargetWorker] = []
        self._busy: set[TargetWorker] = set()
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._closed = False

    async def lend(self) -> TargetWorker:
        """Return a worker that nobody else uses, started if need be.

        Raises:
            TraceError: It cannot be started.
        """
        while not self._free.acquire(blocking=False):
            await asyncio.sleep(0.005)
        try:
            worker: TargetWorker = await self.run(self._take)
        except BaseException:
            self._free.release()
            raise
        return worker

    def _take(self) -> TargetWorker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    self._busy.add(worker)
                    return worker
                worker.kill()
        worker = self._start()
        with self._lock:
            self._busy.add(worker)
            if not self._closed:
                return worker
        worker.kill()
        raise RuntimeError("the pool was closed")

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a blocking call in a thread of the pool."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*arguments))

    def give_back(self, worker: TargetWorker, *, clean: bool = True) -> None:
        """Take a worker back; one that is in the middle of something is killed."""
        with self._lock:
            if worker not in self._busy:
                return
            self._busy.discard(worker)
            keep = clean and worker.alive and not self._closed
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.kill()
        self._free.release()

    def close(self) -> None:
        """Kill all workers."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle, self._busy = [], set()
        for worker in workers:
            with suppress(Exception):
                worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

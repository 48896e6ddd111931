"""A model server as a process group: started, asked whether it is well, and stopped with all it started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import httpx

from trace_assets.errors import Unavailable
from trace_assets.policies.openai_faults import conceal
from trace_assets.system.machine import certificates, through_proxies
from trace_assets.system.processes import GROUP_OF_A_TRAINING, ask_to_end_with_parent
from trace_assets.system.progress import progress
from trace_assets.system.vllm import START, Launch, cpu_arguments, find_vllm, last_words

START_SECONDS = 900.0
"""A large model is loaded for minutes."""
STOP_SECONDS = 15.0
LIST_SECONDS, LIST_BYTES = 10.0, 4 << 20
"""What a list of models may take, so that no other program on the port holds a start up."""


class ModelServer:
    """vLLM, or whatever takes its arguments and speaks its API.

    Use as a context manager: the whole process group (vLLM starts children of its own) ends with the block,
    however it is left. What the server prints goes to a log file.

    Args:
        launch: What is served.
        log: File for its words; the folder must exist.
        command: Program and first arguments; None looks for vLLM.
        start_seconds: How long it may take until it answers.
    """

    def __init__(
        self,
        launch: Launch,
        log: Path,
        *,
        command: Sequence[str] | None = None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.launch, self.log = launch, log
        self._command, self._start_seconds = command, start_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until every model answers.

        Raises:
            InputError: The launch cannot be put into arguments.
            Unavailable: Another server has the port, or the program is not there, ends, or is not well in
                time; the log's last words say why.
        """
        arguments = self.launch.arguments()
        key = _key(arguments)
        program = self._command if self._command is not None else find_vllm()
        command = [*program, *arguments, *cpu_arguments(program, arguments)]
        if _is_taken(self.launch.host, self.launch.port):
            raise Unavailable(
                f"something listens at {self.launch.base_url} already; stop it, or choose another "
                "serving.port."
            )
        own = {key: value for key, value in os.environ.items() if key not in GROUP_OF_A_TRAINING}
        with self.log.open("ab") as log:
            log.write(f"{START}{conceal(' '.join(command), key)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**own, **self.launch.variables()},
                start_new_session=True,
                preexec_fn=ask_to_end_with_parent,
            )
        try:
            self._wait_until_well(key)
        except BaseException:
            self.stop()
            raise

    def _wait_until_well(self, key: str) -> None:
        wanted = {self.launch.name, *self.launch.adapters}
        until = time.monotonic() + self._start_seconds
        with progress("start the model server", 1) as bar:
            while time.monotonic() < until:
                if not self.alive:
                    raise Unavailable(f"the model server ended while it started{last_words(self.log)}")
                served = models_of(self.launch.base_url, key)
                if served is not None and wanted <= served:
                    bar.advance(1)
                    return
                if served is not None and served:
                    missing = ", ".join(sorted(wanted - served))
                    raise Unavailable(f"the model server does not serve {missing}; see {self.log}.")
                time.sleep(0.5)
        raise Unavailable(
            f"the model server was not well within {self._start_seconds:g} s{last_words(self.log)}"
        )

    def why_gone(self, within: float = 0.0) -> str:
        """Return, for a server that has ended by itself, a sentence with its last words; otherwise empty.

        Args:
            within: Seconds that one which answers no more may take to end.
        """
        until = time.monotonic() + within
        while self.alive and time.monotonic() < until:
            time.sleep(0.05)
        return "" if self.alive else f"the model server has ended{last_words(self.log)}"

    @property
    def alive(self) -> bool:
        """Whether the process that was started still runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Process id of the group, None before the start."""
        return self._process.pid if self._process is not None else None

    def stop(self) -> None:
        """End the whole group, gently first; may be called twice."""
        if self._process is None:
            return
        for sign, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, sign)
            until = time.monotonic() + patience
            while time.monotonic() < until:
                if self._process.poll() is not None and not _group_lives(self._process.pid):
                    return
                time.sleep(0.05)

    def __enter__(self) -> ModelServer:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


def models_of(base_url: str, key: str = "") -> set[str] | None:
    """Return the names that a server serves; None when it does not answer."""
    headers: Mapping[str, str] = {"Authorization": f"Bearer {key}"} if key else {}
    until, content = time.monotonic() + LIST_SECONDS, b""
    try:
        with httpx.stream(
            "GET",
            f"{base_url}/models",
            timeout=5.0,
            headers=headers,
            trust_env=(proxies := through_proxies(base_url)),
            verify=certificates(proxies),
        ) as answer:
            for part in answer.raise_for_status().iter_bytes():
                content += part
                if len(content) > LIST_BYTES or time.monotonic() > until:  # no list of models
                    return None
        return {str(row["id"]) for row in json.loads(content)["data"]}
    except (httpx.HTTPError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _key(arguments: Sequence[str]) -> str:
    """Return the key that vLLM will ask for, by its arguments or its variable; empty where it wants none."""
    for word, following in pairwise([*arguments, ""]):
        if word == "--api-key":
            return following
        if word.startswith("--api-key="):
            return word.partition("=")[2]
    return os.environ.get("VLLM_API_KEY", "")


def _is_taken(host: str, port: int) -> bool:
    """Whether something listens there, whatever it says or whether it says nothing."""
    try:
        socket.create_connection((host, port), timeout=2.0).close()
    except OSError:
        return False
    return True


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    # Zombies count as members: a group of nothing else is gone.
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            fields = entry.read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == group and fields[0] != "Z":
                return True
    return False

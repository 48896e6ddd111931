"""Prompts from files, and the versions that move with them and with the code around them."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

DISCOVERY = ("discover.md", "discover_batch.md", "merge.md", "repair.md", "transcript.md")
LABELLING = ("label.md", "repair.md", "transcript.md")
TRIAGE = ("triage.md", "repair.md", "transcript.md")

_SHARED_CODE = ("redaction.py", "view.py", "question.py", "prompt.py")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("trace_assets.diagnosis.model", "prompts"),
        undefined=StrictUndefined,
        keep_trailing_newline=False,
        autoescape=False,  # prompts are text, not HTML
    )


def render(name: str, **values: Any) -> str:
    """Return a prompt with its values filled in; a value that is missing is an error.

    >>> "ends too early" in render("repair.md", complaints=["it ends too early"])
    True
    """
    return _environment().get_template(name).render(**values).strip()


def prompt_version(prompts: tuple[str, ...], code: tuple[str, ...]) -> str:
    """Return a hash of some prompts and of the code that fills, shows and reads them.

    Args:
        prompts: Files in `prompts/`.
        code: Files of this package beside those that all prompts share.
    """
    package = resources.files("trace_assets.diagnosis.model")
    digest = hashlib.sha256()
    for name in prompts:
        digest.update(name.encode() + b"\0" + package.joinpath("prompts", name).read_bytes() + b"\0")
    for name in (*_SHARED_CODE, *code):
        digest.update(name.encode() + b"\0" + package.joinpath(name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def discovery_version() -> str:
    """Version of all that turns trajectories into a model's proposals, besides settings."""
    return prompt_version(DISCOVERY, ("batches.py", "discovery.py", "merge.py"))


@cache
def labelling_version() -> str:
    """Version of all that turns a trajectory into a model's labels, besides settings."""
    return prompt_version(LABELLING, ("labelling.py",))


@cache
def triage_version() -> str:
    """Version of a model's second look at faults, besides settings."""
    return prompt_version(TRIAGE, ("triage.py",))

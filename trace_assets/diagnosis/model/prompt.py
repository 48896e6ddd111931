"""Prompts from files, and the versions that move with them and with the code around them."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from trace_assets.sources import source_version

_SHARED = ("redaction", "view", "question", "prompt", "prompts/repair.md", "prompts/transcript.md")


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


@cache
def discovery_version() -> str:
    """Version of all that turns trajectories into a model's proposals, besides settings."""
    prompts = ("prompts/discover.md", "prompts/discover_batch.md", "prompts/merge.md")
    return _version("batches", "discovery", "merge", "recognise", *prompts, "prompts/recognise.md")


@cache
def labelling_version() -> str:
    """Version of all that turns a trajectory into a model's labels, besides settings."""
    return _version("labelling", "prompts/label.md")


def _version(*own: str) -> str:
    """Return a version of some files of this package and of those that every question rests on."""
    return source_version(
        *(
            f"diagnosis/model/{name}" if "/" in name else f"diagnosis.model.{name}"
            for name in (*own, *_SHARED)
        )
    )

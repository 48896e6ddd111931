"""Prompts from files, and the versions that move with them and with the code around them."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


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

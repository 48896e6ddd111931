"""What the program reads and does not import: the sandbox's files, SQL of views and queries, templates.

Files and SQL lie beside the package in a checkout and inside it where a wheel was installed (`setup.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

ROOT = Path(__file__).resolve().parent


def shipped(name: str, package: Path = ROOT) -> Path:
    """Return where a shipped folder or file lies, whether or not it is there.

    Args:
        name: `sandboxes` or `sql`, or a path below one of them.
        package: The package's folder.
    """
    inside = package / name
    return inside if inside.exists() else package.parent / name


@cache
def text_templates(package: str, folder: str, keep_trailing_newline: bool = True) -> Environment:
    """Return what fills templates of texts and programs, no HTML; a value that is missing is an error.

    Args:
        package: Below this one, such as `environments.exports`.
        folder: In the package's.
        keep_trailing_newline: At a template's end.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(f"trace_assets.{package}", folder),
        undefined=StrictUndefined,
        keep_trailing_newline=keep_trailing_newline,
        autoescape=False,
    )


def prompt(package: str, file: str, values: Mapping[str, Any]) -> str:
    """Return a prompt of a package with its values filled in."""
    return text_templates(package, "prompts", False).get_template(file).render(**values).strip()

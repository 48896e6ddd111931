"""Pydantic models whose fields are described by the text below each, read once for all models of a module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel


class Described(BaseModel):
    """Base of models whose fields are described by their docstrings.

    `use_attribute_docstrings` of pydantic does the same, and looks every class up in its file anew: a fifth
    of what `trace sql` takes to start. A subclass defers its build, so that its schema has the descriptions.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Describe the fields that the class itself declares."""
        said = _docs(cls.__module__).get(cls.__qualname__, {})
        for name in cls.__annotations__:
            field = cls.__pydantic_fields__.get(name)
            if field is not None and field.description is None:
                field.description = said.get(name)


@cache
def _docs(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return, for each class of a module, the text below each of its annotated names."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        tree = ast.parse(Path(file or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # typed in by hand, or shipped without its source
        return {}
    return dict(_classes(tree, ""))


def _classes(node: ast.AST, within: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef):
            yield within + inner.name, _below(inner.body)
            yield from _classes(inner, f"{within}{inner.name}.")
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(inner, f"{within}{inner.name}.<locals>.")
        elif isinstance(inner, ast.stmt):
            yield from _classes(inner, within)


def _below(body: list[ast.stmt]) -> dict[str, str]:
    return {
        one.target.id: cleandoc(text.value.value)
        for one, text in pairwise(body)
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }

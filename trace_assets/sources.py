"""Versions of the program's own code: an asset is due when code that decides its result has changed."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import trace_assets

ROOT = Path(trace_assets.__file__).resolve().parent


def source_version(*names: str) -> str:
    """Return one version for some modules, packages or data files of this program.

    Python counts by its syntax tree without docstrings: comments, docstrings, line breaks and the order of
    the names given change nothing. Other files (templates, prompts, policies) count by their bytes. Nothing
    is imported.

    Args:
        names: Modules and packages such as `diagnosis.contrast` or `statistics`, or files such as
            `synthesis/recipes/object_untouched.py.jinja`, all below `trace_assets`. A package counts with
            everything in it.

    Returns:
        16 hexadecimal digits of a SHA-256.

    Raises:
        FileNotFoundError: There is no such module or file.

    >>> source_version("statistics") == source_version("statistics", "statistics.wilson")
    True
    """
    files = sorted({file for name in names for file in _files(name)})
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + _content(file))
    return digest.hexdigest()[:16]


def python_version(source: str) -> bytes:
    """Return the hash of a Python text's syntax tree without docstrings.

    >>> python_version("def f(): 'Says one.'; return 1  # one") == python_version("def f(): return 1")
    True
    >>> python_version("x = 1") == python_version("x = 2")
    False
    """
    return hashlib.sha256("\n".join(_shape(ast.parse(source))).encode()).digest()


def _files(name: str) -> list[Path]:
    plain = ROOT / name
    if plain.is_file():
        return [plain]
    module = ROOT.joinpath(*name.split("."))
    if module.with_suffix(".py").is_file():
        return [module.with_suffix(".py")]
    if not module.is_dir():
        raise FileNotFoundError(f"there is no module or file '{name}' in {ROOT}.")
    return [
        file
        for file in module.rglob("*")
        if file.is_file() and file.suffix != ".pyc" and "/." not in f"/{file.relative_to(ROOT).as_posix()}"
    ]


@cache
def _content(file: Path) -> bytes:
    if file.suffix == ".py":
        return python_version(file.read_text(encoding="utf-8"))
    return hashlib.sha256(file.read_bytes()).digest()


def _shape(node: ast.AST) -> Iterator[str]:
    """Spell a tree out, fields that are empty left out: newer Pythons add some."""
    yield type(node).__name__
    for name in node._fields:
        value = getattr(node, name, None)
        if name == "body" and isinstance(value, list) and value and _is_text(value[0]):
            value = value[1:]
        if isinstance(value, ast.AST):
            yield name
            yield from _shape(value)
        elif isinstance(value, list):
            for part in value:
                yield name
                if isinstance(part, ast.AST):
                    yield from _shape(part)
                else:
                    yield repr(part)
        elif value is not None:
            yield f"{name}={value!r}"


def _is_text(statement: ast.AST) -> bool:
    """Tell whether a statement is a bare text, such as a docstring: it does nothing."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )

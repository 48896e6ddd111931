"""Versions of what writes and what audits, for stages that must run again when these change.

Cheap to import: hashes of source files, nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib import resources


def _hash(names: Iterable[str]) -> str:
    folder = resources.files("trace_assets.synthesis")
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode() + b"\0" + folder.joinpath(name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _recipes() -> list[str]:
    folder = resources.files("trace_assets.synthesis").joinpath("recipes")
    return [f"recipes/{file.name}" for file in folder.iterdir() if file.name.endswith(".jinja")]


CONTRACT_VERSION = _hash(
    ["closings.py", "contract.py", "guards.py", "phrasing.py", "shapes.py", "slots.py", "wrapping.py"]
)
WRITER_VERSION = _hash(["plan.py", "recipe_writer.py", "writer.py", *_recipes()])
AUDIT_VERSION = _hash(
    [
        "attackers.py",
        "audit.py",
        "checks.py",
        "checks_runtime.py",
        "checks_semantic.py",
        "checks_static.py",
        "checks_statistical.py",
        "probe.py",
        "severity.py",
    ]
)

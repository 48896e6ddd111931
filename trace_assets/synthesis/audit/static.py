"""What can be said of a module without running it."""

from __future__ import annotations

import ast
import re

from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject

FUNCTIONS = ("tools", "reset", "step", "verdict", "oracle")

ALLOWED_IMPORTS = frozenset(
    re.findall(
        r"\w+",
        """
        __future__ abc bisect calendar collections copy dataclasses datetime decimal enum fractions functools
        hashlib heapq itertools json math numbers operator random re statistics string textwrap typing
        unicodedata uuid zoneinfo
        """,
    )
)
"""Modules of the standard library that compute and do nothing else."""


def parses(subject: Subject) -> Finding:
    """The source is Python."""
    try:
        ast.parse(subject.environment.source)
    except (SyntaxError, ValueError) as error:
        return Finding("fail", f"not Python: {error}", bound="parses")
    return Finding("pass", f"{subject.environment.source.count(chr(10))} lines", bound="parses")


def declares_functions(subject: Subject) -> Finding:
    """The five functions of the protocol are defined at the top of the module."""
    tree = ast.parse(subject.environment.source)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing = [name for name in FUNCTIONS if name not in defined]
    bound = f"defines {', '.join(FUNCTIONS)}"
    if missing:
        return Finding("fail", f"no top-level function {', '.join(missing)}", bound=bound)
    return Finding("pass", "all are defined", bound=bound)


def imports_allowed(subject: Subject) -> Finding:
    """Only modules that compute are imported: no files, processes, network, clock or target."""
    wanted: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(subject.environment.source)):
        if isinstance(node, ast.Import):
            wanted += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            wanted.append((node.lineno, "." * node.level + (node.module or "")))
    bad = sorted((line, name) for line, name in wanted if name.split(".")[0] not in ALLOWED_IMPORTS)
    bound = "computing modules of the standard library only"
    if bad:
        return Finding(
            "fail", "; ".join(f"line {line} imports {name}" for line, name in bad[:5]), bound=bound
        )
    return Finding("pass", ", ".join(sorted({name for _, name in wanted})) or "no imports", bound=bound)


CHECKS = (
    AuditCheck("trace.parses", "static", parses),
    AuditCheck("trace.declares_functions", "static", declares_functions, ("trace.parses",)),
    AuditCheck("trace.imports_allowed", "static", imports_allowed, ("trace.parses",)),
)

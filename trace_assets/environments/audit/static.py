"""What can be said of a module without running it: size, syntax, protocol functions, imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.scripted_rollouts import arguments_for, properties

PARAMETERS = {"tools": 0, "reset": 1, "step": 1, "verdict": 0, "oracle": 1}
"""The functions of the protocol and how many arguments each is called with."""

MAX_BYTES = 200_000
MAX_LINES = 5_000

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
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Finding("fail", f"not Python: {error or type(error).__name__}", bound="parses")
    return Finding("pass", f"{subject.environment.source.count(chr(10))} lines", bound="parses")


def size(subject: Subject) -> Finding:
    """The source is short enough to be read by a person and compiled at once."""
    source = subject.environment.source
    length, lines = len(source.encode("utf-8", "surrogatepass")), source.count("\n") + 1
    bound = f"<= {MAX_BYTES} bytes and {MAX_LINES} lines"
    passed = length <= MAX_BYTES and lines <= MAX_LINES
    return Finding("pass" if passed else "fail", f"{length} bytes, {lines} lines", length, None, bound)


def declares_functions(subject: Subject) -> Finding:
    """The five functions of the protocol are defined at the top of the module."""
    tree = ast.parse(subject.environment.source)
    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    missing = [name for name in PARAMETERS if name not in defined]
    bound = f"defines {', '.join(PARAMETERS)}"
    if missing:
        return Finding("fail", f"no top-level function {', '.join(missing)}", bound=bound)
    return Finding("pass", "all are defined", bound=bound)


def signatures(subject: Subject) -> Finding:
    """They are plain functions that can be called as the protocol calls them, each defined once."""
    tree = ast.parse(subject.environment.source)
    problems: list[str] = []
    for name, wanted in PARAMETERS.items():
        found = [
            n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name
        ]
        problems += [f"{name} is defined {len(found)} times"] if len(found) > 1 else []
        problems += [f"{name} {problem}" for problem in _odd(found[-1], wanted)]
    bound = "tools(), reset(seed), step(message), verdict(), oracle(seed)"
    if problems:
        return Finding("fail", "; ".join(problems[:5]), len(problems), None, bound)
    return Finding("pass", "as the protocol calls them", bound=bound)


def _odd(function: ast.FunctionDef | ast.AsyncFunctionDef, wanted: int) -> list[str]:
    """Return what keeps a function from being called with so many positional arguments."""
    problems = ["is asynchronous"] if isinstance(function, ast.AsyncFunctionDef) else []
    problems += ["is decorated"] if function.decorator_list else []
    own = [node for node in _own_nodes(function) if isinstance(node, ast.Yield | ast.YieldFrom)]
    problems += ["is a generator"] if own else []
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    keywords = [k for k, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is None]
    if required > wanted or (len(positional) < wanted and given.vararg is None) or keywords:
        problems.append(
            f"takes {ast.unparse(given) or 'nothing'}, not {wanted} argument{'s' * (wanted != 1)}"
        )
    return problems


def _own_nodes(function: ast.AST) -> list[ast.AST]:
    """Return the nodes of a function without those of functions inside it."""
    nodes: list[ast.AST] = []
    for child in ast.iter_child_nodes(function):
        nodes.append(child)
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            nodes += _own_nodes(child)
    return nodes


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


STATIC_CHECKS = (
    AuditCheck("trace.size", "static", size),
    AuditCheck("trace.parses", "static", parses, ("trace.size",)),
    AuditCheck("trace.declares_functions", "static", declares_functions, ("trace.parses",)),
    AuditCheck("trace.signatures", "static", signatures, ("trace.declares_functions",)),
    AuditCheck("trace.imports_allowed", "static", imports_allowed, ("trace.parses",)),
)


# Whether the tools do what they declare: those declared answer, and what the schemas forbid is refused.


Call = dict[str, Any]

WRONG: dict[str, Any] = {
    "string": ["not", "a", "text"],
    "integer": "seven",
    "number": "seven",
    "boolean": "maybe",
    "array": "not a list",
    "object": "not an object",
}
"""A value that is surely not of a type."""


def tool_declaration_accuracy(subject: Subject) -> Finding:
    """Declared tools answer, undeclared ones are refused, and so are arguments that a schema forbids.

    A refusal is a tool message marked as an error. A declared tool that answers word for word like one that
    does not exist is not there.
    """
    probe, n = subject.probe, 0
    bound = "declared tools answer, all else is refused"
    for seed in subject.seeds[: subject.sizes.compared]:
        rng = probe.chance(f"declared/{seed}")
        for tool in probe.tools():
            name = tool["function"]["name"]
            arguments = arguments_for(tool, probe, seed, rng)[0]
            ghost = f"{name}_{rng.randrange(10**6)}"
            there, missing = probe.ask(
                seed, [{"name": name, "arguments": arguments}, {"name": ghost, "arguments": arguments}]
            )
            if not _refused(missing):
                return Finding("fail", f"seed {seed}: the undeclared tool {ghost} answers", None, n, bound)
            if _refused(there) and _masked(there, name) == _masked(missing, ghost):
                return Finding("fail", f"seed {seed}: the declared tool {name} is not there", None, n, bound)
            wrong = list(_wrong_calls(tool, arguments))
            for (what, _), told in zip(wrong, probe.ask(seed, [one for _, one in wrong]), strict=True):
                if not _refused(told):
                    return Finding("fail", f"seed {seed}: {name} accepts {what}", None, n, bound)
            n += 2 + len(wrong)
        names = {tool["function"]["name"] for tool in probe.tools()}
        twins = sorted({look_alike(name) for name in names} - names)
        for twin, told in zip(
            twins, probe.ask(seed, [{"name": twin, "arguments": {}} for twin in twins]), strict=True
        ):
            if not _refused(told):
                return Finding("fail", f"seed {seed}: the undeclared tool {twin!a} answers", None, n, bound)
        n += len(twins)
    return Finding("pass", "as declared", None, n, bound)


def _refused(message: dict[str, Any]) -> bool:
    return bool(message.get("is_error") or message.get("error"))


def _masked(message: dict[str, Any], name: str) -> str:
    return (message.get("content") or "").replace(name, "#")


def _wrong_calls(tool: dict[str, Any], arguments: dict[str, Any]) -> Iterator[tuple[str, Call]]:
    """Yield calls that the tool's schema forbids in one place each, in words and as a call."""
    name, parameters = tool["function"]["name"], tool["function"]["parameters"]
    for required in parameters.get("required", ()):
        left = {key: value for key, value in arguments.items() if key != required}
        yield f"a call without '{required}'", {"name": name, "arguments": left}
    for key, schema in properties(tool).items():
        kind = schema.get("type")
        if isinstance(kind, str) and kind in WRONG:
            yield (
                f"{WRONG[kind]!r} as '{key}', which is of type {kind}",
                {"name": name, "arguments": {**arguments, key: WRONG[kind]}},
            )
        if schema.get("enum") and all(isinstance(value, str) for value in schema["enum"]):
            value = "-".join(schema["enum"]) + "-no"
            yield f"'{key}' outside its enum", {"name": name, "arguments": {**arguments, key: value}}


def look_alike(name: str) -> str:
    """Return a name that looks alike in most fonts and is another one.

    >>> look_alike("open_door") == "open_door"
    False
    """
    return name.translate(str.maketrans("aeopcx", "аеорсх"))


DECLARED_CHECKS = (
    AuditCheck(
        "runtime.tool_declaration_accuracy",
        "runtime",
        tool_declaration_accuracy,
        ("runtime.episode_determinism",),
    ),
)

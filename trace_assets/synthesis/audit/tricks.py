"""Ways around the list of imports, and inputs beside the seed, as far as the text shows them.

No reading of a text can find every trick: the sandbox is what holds. These checks make the usual ones a named
finding, so that a writer is told what to mend and a reader need not search.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject

DYNAMIC_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
        exec eval compile __import__ __builtins__ __loader__ __spec__ open input breakpoint globals
        locals vars exit quit help importlib ctypes get_type_hints ForwardRef
        """,
    )
)
"""Names that run text as code, reach files, or reach the interpreter's insides."""

DYNAMIC_ATTRIBUTES = frozenset(
    re.findall(
        r"\w+",
        """
        __globals__ __builtins__ __subclasses__ __bases__ __base__ __mro__ mro __class__ __dict__
        __code__ __closure__ __self__ __func__ __import__ __loader__ __spec__ __getattribute__
        __reduce__ __reduce_ex__ __traceback__ __wrapped__ f_globals f_locals f_back f_builtins gi_frame
        cr_frame ag_frame tb_frame tb_next get_type_hints ForwardRef
        """,
    )
)
MODULES = frozenset(
    re.findall(
        r"\w+",
        """
        os sys io builtins posix subprocess importlib ctypes gc socket threading
        """,
    )
)
BY_NAME = frozenset(("getattr", "setattr", "delattr", "attrgetter", "methodcaller"))
"""Functions that take an attribute's name as text."""

CLOCKS = frozenset(("now", "utcnow", "today"))
ORDERED = frozenset(("list", "tuple", "iter", "next", "enumerate", "join", "choice", "choices", "sample"))
"""Functions whose result depends on the order of what they are given."""

Spot = tuple[int, str]


def dynamic_code(subject: Subject) -> Finding:
    """Nothing runs text as code, opens files or reaches around the imports (`__import__`, frames)."""
    tree = ast.parse(subject.environment.source)
    return _finding(sorted(set(_dynamic(tree))), "no dynamic code, no files, no interpreter insides")


def hidden_inputs(subject: Subject) -> Finding:
    """Nothing beside the seed decides what happens: no clock, no `hash`, `id` or order of a set.

    The sandbox holds some of these still (the seed of string hashes) and others change by the day only, so
    that playing an episode twice would not show them.
    """
    tree = ast.parse(subject.environment.source)
    return _finding(sorted(set(_inputs(tree))), "no clock, hash(), id() or order of a set")


def _finding(spots: list[Spot], bound: str) -> Finding:
    if spots:
        seen = "; ".join(f"line {line}: {what}" for line, what in spots[:5])
        return Finding("fail", seen, len(spots), None, bound)
    return Finding("pass", "none", 0.0, None, bound)


def _dynamic(tree: ast.Module) -> Iterator[Spot]:
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id in DYNAMIC_NAMES:
                yield node.lineno, node.id
            elif node.id in BY_NAME and id(node) not in called:
                yield node.lineno, f"{node.id} handed on"
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, a.name) for a in node.names if _forbidden(a.name) or a.name in MODULES)
        elif isinstance(node, ast.Attribute):
            of_module = isinstance(node.value, ast.Name) and node.value.id in imported
            if _forbidden(node.attr) or (of_module and (node.attr in MODULES or node.attr.startswith("_"))):
                yield node.lineno, f".{node.attr}"
        elif isinstance(node, ast.MatchClass):
            yield from ((node.lineno, f"case {a}=") for a in node.kwd_attrs if a.startswith("_"))
        elif isinstance(node, ast.Call) and _name(node.func) in BY_NAME:
            yield from _by_name(node)


def _by_name(node: ast.Call) -> Iterator[Spot]:
    """Yield attributes that are reached by a text."""
    function = _name(node.func)
    named = (
        node.args
        if function == "attrgetter"
        else node.args[:1]
        if function == "methodcaller"
        else node.args[1:2]
    )
    for argument in named or [node]:
        text = argument.value if isinstance(argument, ast.Constant) else None
        if not isinstance(text, str):
            yield node.lineno, f"{function} with a computed name"
        elif any(_forbidden(part) or part in MODULES or part.startswith("_") for part in text.split(".")):
            yield node.lineno, f"{function} of {text!r}"


def _forbidden(name: str) -> bool:
    return name in DYNAMIC_ATTRIBUTES or name in DYNAMIC_NAMES - {"open", "help", "input", "compile"}


def _inputs(tree: ast.Module) -> Iterator[Spot]:
    hashing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
            bare = isinstance(node.func, ast.Name)
            hashes = bare and name in ("hash", "id") and id(node) not in hashing
            if hashes or name in ("uuid1", "getnode") or (name in CLOCKS and _of_time(node.func)):
                yield node.lineno, f"{name}()"
            elif name in ORDERED and any(_is_set(argument) for argument in node.args):
                yield node.lineno, f"{name}() of a set"
        elif isinstance(node, ast.For) and _is_set(node.iter):
            yield node.lineno, "for over a set"


def _of_time(function: ast.expr) -> bool:
    """Tell whether a method is one of a date or time class and not of the module's own."""
    return isinstance(function, ast.Attribute) and _name(function.value) in ("datetime", "date", "time", "dt")


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_set(node: ast.expr) -> bool:
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and _name(node.func) in ("set", "frozenset") and bool(node.args)
    )


CHECKS = (
    AuditCheck("trace.dynamic_code", "static", dynamic_code, ("trace.imports_allowed",)),
    AuditCheck("trace.hidden_inputs", "static", hidden_inputs, ("trace.imports_allowed",)),
)

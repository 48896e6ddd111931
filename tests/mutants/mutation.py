"""Single small changes to a module's code, each as the text before and after.

Left alone is what only a reader sees: annotations, decorators, imports, docstrings, prose in string
constants, and whatever stands inside f-strings.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


@dataclass(frozen=True)
class Mutant:
    """One change; `function`, `before` and `after` name it wherever its lines stand by then."""

    function: str
    line: int
    end_line: int
    before: str
    after: str
    source: str
    """The whole module, changed."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.function, self.before, self.after


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of their lines, none twice."""
    found = {one.key: one for one in _made(source, _candidates(source))}
    return sorted(found.values(), key=lambda one: (one.line, one.key))


def draw(source: str, count: int, seed: str) -> list[Mutant]:
    """Return `count` mutants drawn at random, at most one a line; fewer where there are no more."""
    candidates = _candidates(source)
    random.Random(seed).shuffle(candidates)
    drawn: dict[int, Mutant] = {}
    for one in _made(source, candidates):
        if len(drawn) == count:
            break
        if one.key not in {other.key for other in drawn.values()}:
            drawn.setdefault(one.line, one)
    return sorted(drawn.values(), key=lambda one: one.line)


def _candidates(source: str) -> list[tuple[ast.AST, ast.AST, str]]:
    return list(_walk(ast.parse(source)))


def _made(source: str, candidates: list[tuple[ast.AST, ast.AST, str]]) -> Iterator[Mutant]:
    whole = ast.dump(ast.parse(source))
    lines = source.encode().split(b"\n")
    for place, changed, function in candidates:
        mutant = _mutant(lines, place, changed, function)
        try:
            if ast.dump(ast.parse(mutant.source)) != whole:
                yield mutant
        except SyntaxError:
            continue


def _mutant(lines: list[bytes], place: ast.AST, changed: ast.AST, function: str) -> Mutant:
    assert isinstance(place, ast.expr | ast.stmt) and place.end_lineno and place.end_col_offset is not None
    new = ast.unparse(ast.fix_missing_locations(changed))
    if isinstance(place, ast.expr):
        new = f"({new})"
    start, end = place.lineno - 1, place.end_lineno - 1
    middle = lines[start][: place.col_offset] + new.encode() + lines[end][place.end_col_offset :]
    return Mutant(
        function,
        place.lineno,
        place.end_lineno,
        " ".join(line.decode().strip() for line in lines[start : end + 1]),
        " ".join(line.strip() for line in middle.decode().split("\n")),
        b"\n".join([*lines[:start], middle, *lines[end + 1 :]]).decode(),
    )


def in_function(source: str, line: int) -> bool:
    """Whether a line stands in the body of a function, so that it is executed when that is called.

    >>> source = "LIMIT = 1\\ndef price(n=2):\\n    return n\\nclass Price:\\n    most: int = 3"
    >>> [in_function(source, line) for line in range(1, 6)]
    [False, False, True, False, False]
    """
    return any(
        one.body[0].lineno <= line <= (one.end_lineno or 0)
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    """Yield every node that is changed, what it is changed to, and the function around it."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, ast.AST, str]]:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return  # that its names are there is the linter's to say
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".lstrip(".")
        if isinstance(node, ast.expr):
            for changed in _expressions(node):
                yield node, changed, function
        if isinstance(node, ast.stmt):
            for changed in _statements(node):
                yield node, changed, function
        for tested in _conditions(node):
            for changed in (
                ast.UnaryOp(ast.Not(), copy.deepcopy(tested)),
                ast.Constant(True),
                ast.Constant(False),
            ):
                yield tested, changed, function
        for child in _children(node):
            yield from visit(child, function)

    yield from visit(tree, "")


def _children(node: ast.AST) -> Iterator[ast.AST]:
    skipped = {"annotation", "returns", "decorator_list", "bases", "type_params"}
    if isinstance(node, ast.ClassDef):
        skipped.add("keywords")
    if isinstance(node, ast.Subscript) and _is_type(node):
        return
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a docstring
            if isinstance(child, ast.AST):
                yield child


def _is_type(node: ast.Subscript) -> bool:
    """Whether it is such as `Literal["a"]` or `dict[str, int]`, which says nothing when it runs."""
    name = node.value.id if isinstance(node.value, ast.Name) else ""
    return (name[:1].isupper() and not name.isupper()) or name in {
        "dict",
        "list",
        "set",
        "tuple",
        "type",
        "frozenset",
    }


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test
    if isinstance(node, ast.comprehension):
        yield from node.ifs


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        yield ast.Pass()
    elif isinstance(node, ast.AugAssign):
        yield ast.Pass()
        yield ast.Assign([copy.deepcopy(node.target)], copy.deepcopy(node.value), lineno=node.lineno)
        if other := COMPUTED.get(type(node.op)):
            yield ast.AugAssign(copy.deepcopy(node.target), other(), copy.deepcopy(node.value))
    elif isinstance(node, ast.Raise | ast.Delete | ast.Assert):
        yield ast.Pass()
    elif isinstance(node, ast.Return) and not (node.value is None or _is(node.value, None)):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif isinstance(node, ast.Break):
        yield ast.Continue()


def _is(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in COMPARED[type(operator)]:
                changed = copy.deepcopy(node)
                changed.ops[place] = other()
                yield changed
    elif isinstance(node, ast.BoolOp):
        other_kind = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield ast.BoolOp(other_kind(), copy.deepcopy(node.values))
        for place in range(len(node.values)):
            left = [copy.deepcopy(one) for at, one in enumerate(node.values) if at != place]
            yield left[0] if len(left) == 1 else ast.BoolOp(copy.deepcopy(node.op), left)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield ast.BinOp(copy.deepcopy(node.left), COMPUTED[type(node.op)](), copy.deepcopy(node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield copy.deepcopy(node.operand)
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(copy.deepcopy(node.test), copy.deepcopy(node.orelse), copy.deepcopy(node.body))
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Slice):
        return
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        for name in ("lower", "upper"):
            if getattr(node.slice, name) is not None:
                changed_slice = copy.deepcopy(node)
                setattr(changed_slice.slice, name, None)
                yield changed_slice


def _constants(node: ast.Constant) -> Iterator[ast.expr]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
        if value != 0:
            yield ast.Constant(value - 1 if value != 1 else 0)
    elif isinstance(value, str | bytes) and value and len(value.split()) == 1 and value.strip() == value:
        yield ast.Constant(value + ("x" if isinstance(value, str) else b"x"))  # a name or a key, no prose


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    if isinstance(node.func, ast.Name) and node.func.id in CALLED:
        changed = copy.deepcopy(node)
        assert isinstance(changed.func, ast.Name)
        changed.func.id = CALLED[node.func.id]
        yield changed
    plain = not any(isinstance(one, ast.Starred) for one in node.args)
    if plain and len(node.args) >= 2:
        changed = copy.deepcopy(node)
        changed.args[0], changed.args[1] = changed.args[1], changed.args[0]
        yield changed
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            changed = copy.deepcopy(node)
            del changed.keywords[place]
            yield changed

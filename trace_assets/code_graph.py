"""What a definition of this program's code is made of: itself, and every definition that it names, in turn.

A definition is a function, a class or a value at the top of a module. Its hash is that of its syntax tree, in
which the name of another definition of the program stands for that one's hash. So a hash says what code does,
not where it lies or what it is called: moving a definition, or renaming it everywhere, changes none. Nothing
is imported.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Definition = tuple[str, str]
"""A module of the package, such as `diagnosis.contrast`, and a name at its top; `*`: what makes no name."""
EFFECTS = "*"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class _Module:
    """One module, parsed.

    Attributes:
        name: Below the package, with dots; empty for the package itself.
        statements: What makes each name at the top of the module; under `*` what makes none.
        imports: Name to the module, and to the name in it, None for the module itself; of this package alone.
        outside: Name to where it comes from, for what other packages give.
    """

    name: str
    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)


class CodeGraph:
    """The definitions of a package, parsed as far as somebody asks for them.

    Args:
        root: The package's folder.
        passed: Modules and packages, such as `store`, whose definitions count for nothing.
    """

    def __init__(self, root: Path, passed: Collection[str] = ()) -> None:
        self.root, self._package, self._passed = root, root.name, frozenset(passed)
        self._modules: dict[str, _Module] = {}
        self._shapes: dict[Definition, tuple[bytes, tuple[Definition, ...]]] = {}
        self._hashes: dict[Definition, bytes] = {}

    def hash(self, module: str, name: str) -> bytes:
        """Return the hash of a definition.

        Raises:
            LookupError: There is no such module, or no such name in it.
        """
        found = self._find(module, name)
        if found is None:
            raise LookupError(f"there is no '{name}' in {self._package}.{module}.")
        return self._hash_of(found)

    def hash_all(self, module: str) -> bytes:
        """Return the hash of all definitions of a module, or of a package with everything in it."""
        asked = self._is_passed(module)  # then somebody wants it all the same
        own = [
            self._hash_of((one.name, name))
            for one in self._modules_in(module)
            if asked or not self._is_passed(one.name)
            for name in one.statements
        ]
        return _digest(sorted(own))

    def reached(self, module: str, name: str) -> set[Definition]:
        """Return the definitions that a definition is made of, itself among them."""
        found: set[Definition] = set()
        waiting = [one for one in [self._find(module, name)] if one is not None]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self._shape(one)[1]
        return found

    def is_module(self, name: str) -> bool:
        """Whether there is a module or package of a name."""
        return self._file(name) is not None or self.root.joinpath(*name.split(".")).is_dir()

    def _hash_of(self, one: Definition) -> bytes:
        if one not in self._hashes:
            self._hash_from(one)
        return self._hashes[one]

    def _hash_from(self, start: Definition) -> None:
        """Hash a definition and all before it; those that name each other in a circle share one hash."""
        numbers: dict[Definition, int] = {}
        lowest: dict[Definition, int] = {}
        path: list[Definition] = []
        work: list[tuple[Definition, Iterator[Definition]]] = []

        def enter(one: Definition) -> None:
            numbers[one] = lowest[one] = len(numbers)
            path.append(one)
            work.append((one, iter(self._shape(one)[1])))

        enter(start)
        while work:
            one, others = work[-1]
            for other in others:
                if other in self._hashes:
                    continue
                if other not in numbers:
                    enter(other)
                    break
                lowest[one] = min(lowest[one], numbers[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[one])
                if lowest[one] == numbers[one]:
                    place = path.index(one)
                    self._hash_circle(path[place:])
                    del path[place:]

    def _hash_circle(self, members: list[Definition]) -> None:
        own = {
            one: _digest([shape, *(self._hashes.get(other, b"in the circle") for other in others)])
            for one in members
            for shape, others in [self._shape(one)]
        }
        if len(members) == 1:
            self._hashes |= own
            return
        circle = _digest(sorted(own.values()))
        self._hashes |= {one: _digest([circle, mine]) for one, mine in own.items()}

    def _shape(self, one: Definition) -> tuple[bytes, tuple[Definition, ...]]:
        """Return a definition's tree with other definitions left out, and those, in order."""
        if one not in self._shapes:
            module = self._module(one[0])
            speller = _Speller(self, module, one[1])
            for statement in module.statements[one[1]]:
                speller.spell(statement)
            others = list(speller.others)
            if one[1] != EFFECTS and EFFECTS in module.statements:
                others.append((module.name, EFFECTS))
            self._shapes[one] = ("\n".join(speller.words).encode(), tuple(others))
        return self._shapes[one]

    def _find(self, module: str, name: str | None) -> Definition | None:
        """Return where a name is defined that some module knows; None where that counts for nothing."""
        seen: set[tuple[str, str | None]] = set()
        while (module, name) not in seen and not self._is_passed(module):
            seen.add((module, name))
            if name is None or self._file(module) is None:
                return None
            known = self._module(module)
            if name in known.statements:
                return module, name
            if name not in known.imports:
                return None
            module, name = known.imports[name]
        return None

    def _is_passed(self, module: str) -> bool:
        return any(module == one or module.startswith(f"{one}.") for one in self._passed)

    def _file(self, name: str) -> Path | None:
        place = self.root.joinpath(*name.split(".")) if name else self.root
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                return file
        return None

    def _modules_in(self, name: str) -> list[_Module]:
        folder = self.root.joinpath(*name.split("."))
        if not folder.is_dir():
            return [self._module(name)]
        files = sorted(folder.rglob("*.py"))
        names = [one.relative_to(self.root).with_suffix("").parts for one in files]
        return [self._module(".".join(parts[:-1] if parts[-1] == "__init__" else parts)) for parts in names]

    def _module(self, name: str) -> _Module:
        if name not in self._modules:
            file = self._file(name)
            if file is None:
                raise LookupError(f"there is no module '{name}' in {self._package}.")
            self._modules[name] = module = _Module(name)
            tree = _parsed(file.read_text(encoding="utf-8"))
            for statement in tree.body:
                self._take(module, statement)
        return self._modules[name]

    def _take(self, module: _Module, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            ours, outside = self.imports(statement)
            module.imports |= ours
            module.outside |= outside
            return
        if _is_text(statement):
            return
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for inner in statement.body:
                self._take(module, inner)
            return
        for below in ast.walk(statement) if isinstance(statement, ast.If | ast.Try) else ():
            if isinstance(below, ast.Import | ast.ImportFrom):
                ours, outside = self.imports(below)
                module.imports |= ours
                module.outside |= outside
        for name in _made_by(statement) or [EFFECTS]:
            module.statements.setdefault(name, []).append(statement)

    def imports(
        self, statement: ast.Import | ast.ImportFrom
    ) -> tuple[dict[str, tuple[str, str | None]], dict[str, str]]:
        """Return what an import brings from this package, and what from others."""
        ours: dict[str, tuple[str, str | None]] = {}
        outside: dict[str, str] = {}
        for alias in statement.names:
            if isinstance(statement, ast.Import):
                shown = alias.asname or alias.name.partition(".")[0]
                full, name = (alias.name if alias.asname else shown), None
            else:
                shown, full, name = alias.asname or alias.name, statement.module or "", alias.name
            head, _, below = full.partition(".")
            if head == self._package:
                ours[shown] = (below, name)
            else:
                outside[shown] = f"{full}.{name}" if name else full
        return ours, outside


class _Speller:
    """Spells a definition's tree, and gathers the definitions that it names."""

    def __init__(self, graph: CodeGraph, module: _Module, name: str) -> None:
        self._graph, self._module, self._name = graph, module, name
        self.words: list[str] = []
        self.others: dict[Definition, int] = {}
        self._imports: list[Mapping[str, tuple[str, str | None]]] = [module.imports]
        self._outside: list[Mapping[str, str]] = [module.outside]

    def spell(self, node: ast.AST, *, inside: str = "module") -> None:
        """Write a tree down; what is empty is left out, since newer Pythons add some such fields."""
        if isinstance(node, ast.Name | ast.Attribute) and self._refers(node):
            return
        self.words.append(type(node).__name__)
        own = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        scope = inside
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            scope = "function"
            self._enter(node)
        elif isinstance(node, ast.ClassDef):
            scope = (
                "dataclass"
                if any("dataclass" in ast.unparse(one) for one in node.decorator_list)
                else "class"
            )
        for name in node._fields:
            value = getattr(node, name, None)
            if own and name == "name" and inside == "module" and value == self._name:
                continue  # what it is called
            if name == "returns" or (isinstance(node, ast.arg) and name == "annotation"):
                continue  # nothing is done with it
            if isinstance(node, ast.AnnAssign) and name == "annotation" and inside != "class":
                if inside == "dataclass" and isinstance(value, ast.AST):
                    self.words.append(ast.unparse(value).split("[")[0])
                continue
            if name == "body" and isinstance(value, list) and value and _is_text(value[0]):
                value = value[1:]
            self._spell_field(name, value, scope if name == "body" else inside if not own else scope)
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            self._imports.pop()
            self._outside.pop()

    def _spell_field(self, name: str, value: object, inside: str) -> None:
        if isinstance(value, ast.AST):
            self.words.append(name)
            self.spell(value, inside=inside)
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, ast.Import | ast.ImportFrom):
                    continue
                self.words.append(name)
                if isinstance(part, ast.AST):
                    self.spell(part, inside=inside)
                else:
                    self.words.append(repr(part))
        elif value is not None:
            self.words.append(f"{name}={value!r}")

    def _enter(self, node: ast.AST) -> None:
        ours: dict[str, tuple[str, str | None]] = {}
        outside: dict[str, str] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                one, other = self._graph.imports(inner)
                ours |= one
                outside |= other
        self._imports.append(ours)
        self._outside.append(outside)

    def _refers(self, node: ast.Name | ast.Attribute) -> bool:
        """Write a name down that stands for a definition of this program, or for one of another package."""
        chain = _chain(node)
        if not chain:
            return False
        head, *rest = chain
        for known in reversed(self._imports):
            if head in known:
                return self._refers_to(known[head], rest)
        for other in reversed(self._outside):
            if head in other:
                self.words.append(".".join(["of", other[head], *rest]))
                return True
        if head in self._module.statements:
            self._name_other((self._module.name, head), rest)
            return True
        return False

    def _refers_to(self, known: tuple[str, str | None], rest: list[str]) -> bool:
        module, name = known
        while True:
            inner = module if name is None else ".".join(filter(None, (module, name)))
            if name is not None and (found := self._graph._find(module, name)) is not None:
                self._name_other(found, rest)
                return True
            if not self._graph.is_module(inner) or not rest:
                self.words.append(".".join(["passed", *rest]))  # of a module that counts for nothing
                return True
            module, name, rest = inner, rest[0], rest[1:]

    def _name_other(self, found: Definition, rest: list[str]) -> None:
        if found == (self._module.name, self._name):
            self.words.append(".".join(["itself", *rest]))
            return
        number = self.others.setdefault(found, len(self.others))
        self.words.append(".".join([f"other {number}", *rest]))


def _parsed(text: str) -> ast.Module:
    for _ in range(3):
        try:
            return ast.parse(text)
        except SystemError:  # CPython miscounts its depth when another thread parses at the same moment
            continue
    return ast.parse(text)


def _chain(node: ast.Name | ast.Attribute) -> list[str]:
    """Return the names of `a.b.c`; nothing for the attribute of anything else, or a name that is set."""
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name) or hasattr(builtins, inner.id):
        return []
    return [inner.id, *reversed(names)]


def _made_by(statement: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a module makes."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [statement.name]
    return sorted(
        {
            inner.id
            for inner in ast.walk(statement)
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        }
    )


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _is_text(statement: ast.AST) -> bool:
    """Tell whether a statement is a bare text, such as a docstring: it does nothing."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )

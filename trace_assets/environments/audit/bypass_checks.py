"""Ways around the list of imports, and inputs beside the seed, as far as the text shows them.

No reading of a text can find every trick: the sandbox is what holds. These checks make the usual ones a named
finding, so that a writer is told what to mend and a reader need not search.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import fmean

from trace_assets.diagnosis.detectors.values import tells_error
from trace_assets.environments.audit.adversarial import ATTACKERS, grep, overact, same_tool
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Attacker, Played, Unsupported, calls_in
from trace_assets.environments.audit.strangers import DEEDS, STYLES, stranger
from trace_assets.stats.intervals import score_interval

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
        __reduce__ __reduce_ex__ __traceback__ __wrapped__ __objclass__ __thisclass__
        f_globals f_locals f_back f_builtins f_code gi_frame gi_code cr_frame cr_code ag_frame ag_code
        tb_frame tb_next tb_lasti get_type_hints ForwardRef
        _getframe _current_frames get_objects get_referrers get_referents settrace setprofile
        getrefcount getallocatedblocks
        Formatter get_field vformat
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
REACHED = frozenset(("codecs", "copyreg", "platform", "sysconfig", "keyword", "opcode", "site", "_thread"))
"""Further modules that allowed ones have imported: too common as words to be looked for anywhere else."""
INSIDES = MODULES - {"os", "io", "socket"}
"""Those of them that are no word for anything else."""
BY_NAME = frozenset(("getattr", "setattr", "delattr", "attrgetter", "methodcaller"))
"""Functions that take an attribute's name as text."""

CLOCKS = frozenset(("now", "utcnow", "today", "localtime", "gmtime", "monotonic", "perf_counter", "time_ns"))
"""Names of what tells the time, whatever they are looked for in."""
CHANCE = frozenset(("SystemRandom", "urandom", "uuid1", "uuid4", "getnode", "token_bytes", "token_hex"))
"""Names of what draws from elsewhere than the seed."""
ORDERED = frozenset(
    re.findall(
        r"\w+",
        """
        list tuple iter next enumerate join choice choices sample str repr fromkeys Counter deque zip chain
        islice reversed
        """,
    )
)
"""Functions whose result depends on the order of what they are given."""
FREE = frozenset(("sorted", "set", "frozenset", "any", "all", "sum", "fsum", "len", "min", "max", "update"))
"""Functions whose result does not, unless by a key of its own."""
FIELD = re.compile(r"\{\w*(?:\.\w+|\[[^\]{}]*\])*?\.(\w+)")
"""A place in a format's text that looks up an attribute."""

Spot = tuple[int, str]


def dynamic_code(subject: Subject) -> Finding:
    """Nothing runs text as code, opens files or reaches around the imports (`__import__`, frames)."""
    tree = ast.parse(subject.environment.source)
    return _finding(sorted(set(_dynamic(tree))), "no dynamic code, no files, no interpreter insides")


def hidden_inputs(subject: Subject) -> Finding:
    """Nothing beside the seed decides what happens: no clock, other chance, `hash`, `id` or order of a set.

    The sandbox holds all of these still, so that playing an episode twice would not show them.
    """
    tree = ast.parse(subject.environment.source)
    return _finding(
        sorted(set(_inputs(tree))), "no clock, no chance beside the seed, no hash(), id() or order of a set"
    )


def _finding(spots: list[Spot], bound: str) -> Finding:
    if spots:
        seen = "; ".join(f"line {line}: {what}" for line, what in spots[:5])
        return Finding("fail", seen, len(spots), None, bound)
    return Finding("pass", "none", 0.0, None, bound)


def _dynamic(tree: ast.Module) -> Iterator[Spot]:
    imported = _modules_in(tree)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    # The texts between the braces of an f-string, whose attributes are code and seen as such.
    pieces = {id(one) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id in DYNAMIC_NAMES:
                yield node.lineno, node.id
            elif node.id in BY_NAME and id(node) not in called:
                yield node.lineno, f"{node.id} handed on"
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, "import *") for a in node.names if a.name == "*")
            odd = (
                a.name
                for a in node.names
                if (_odd(a.name) or a.name in REACHED) and a.name not in CLOCKS | CHANCE
            )
            yield from ((node.lineno, name) for name in odd)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
            fields = (name for name in FIELD.findall(node.value) if _is_private(name) or _forbidden(name))
            yield from ((node.lineno, f"a format with .{name}") for name in fields)
        elif isinstance(node, ast.Attribute):
            root = _root(node.value)
            of_module = isinstance(root, ast.Name) and root.id in imported
            reaches = node.attr in (MODULES | REACHED if of_module else INSIDES)
            if _forbidden(node.attr) or reaches or (of_module and _is_private(node.attr)):
                yield node.lineno, f".{node.attr}"
        elif isinstance(node, ast.MatchClass):
            yield from ((node.lineno, f"case {a}=") for a in node.kwd_attrs if _odd(a))
        elif isinstance(node, ast.Call) and _name(node.func) in BY_NAME:
            yield from _by_name(node)


def _modules_in(tree: ast.Module) -> set[str]:
    """Return the names that stand for something imported, also by another name that it was given."""
    known = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    given = [pair for node in ast.walk(tree) for pair in _given_names(node)]
    while True:
        more = {
            name
            for name, value in given
            if isinstance(root := _root(value), ast.Name) and root.id in known and name not in known
        }
        if not more:
            return known
        known |= more


def _given_names(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with what they are given without a call: `a = b`, `a := b`, a default, a loop."""
    if isinstance(node, ast.Assign):
        yield from ((one.id, node.value) for one in node.targets if isinstance(one, ast.Name))
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
        yield node.target.id, node.iter
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        yield from zip((a.arg for a in positional[::-1]), node.defaults[::-1], strict=False)


def _root(node: ast.expr) -> ast.expr:
    """Return what a chain of attributes begins with, through choices, places in a list and bare lambdas."""
    while True:
        if isinstance(node, ast.Attribute | ast.Subscript | ast.NamedExpr | ast.Starred):
            node = node.value
        elif isinstance(node, ast.IfExp | ast.Lambda):
            node = node.body
        elif isinstance(node, ast.BoolOp):
            node = node.values[0]
        elif isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts:
            node = node.elts[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Lambda):
            node = node.func
        else:
            return node


def _is_private(name: str) -> bool:
    return name.startswith("_")


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
        elif any(_odd(part) for part in text.split(".")):
            yield node.lineno, f"{function} of {text!r}"


def _odd(part: str) -> bool:
    return _forbidden(part) or part in MODULES or part in CLOCKS or part in CHANCE or _is_private(part)


def _forbidden(name: str) -> bool:
    return name in DYNAMIC_ATTRIBUTES or name in DYNAMIC_NAMES - {"open", "help", "input", "compile"}


def _inputs(tree: ast.Module) -> Iterator[Spot]:
    hashing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__"
        for inner in ast.walk(node)
    }
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _is_bound(node)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    imported = _modules_in(tree)
    sets = _sets_in(tree)
    free = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _name(node.func) in FREE and not node.keywords
        for argument in node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS | CHANCE:
            root = _root(node.value)
            if node.attr not in own or (isinstance(root, ast.Name) and root.id in imported):
                yield node.lineno, f".{node.attr}"
        elif isinstance(node, ast.Attribute) and node.attr == "__hash__" and id(node) not in hashing:
            yield node.lineno, ".__hash__"
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, a.name) for a in node.names if a.name in CLOCKS | CHANCE)
        elif isinstance(node, ast.Name) and node.id in ("hash", "id"):
            if id(node) not in hashing and node.id not in own and not _is_bound(node):
                yield node.lineno, f"{node.id}()"
        elif isinstance(node, ast.Call):
            yield from _called(node, own, hashing, sets)
        elif isinstance(node, ast.For) and _is_set(node.iter, sets):
            yield node.lineno, "for over a set"
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            if id(node) not in free and any(_is_set(one.iter, sets) for one in node.generators):
                yield node.lineno, "a list in the order of a set"
        elif isinstance(node, ast.List | ast.Tuple) and id(node) not in free:
            stars = (one.value for one in node.elts if isinstance(one, ast.Starred))
            yield from ((one.lineno, "a list in the order of a set") for one in stars if _is_set(one, sets))


def _called(node: ast.Call, own: set[str], hashing: set[int], sets: set[str]) -> Iterator[Spot]:
    name = _name(node.func)
    method = node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in ("hash", "id") and isinstance(node.func, ast.Name) and id(node) not in hashing:
        if node.func.id in own:
            yield node.lineno, f"{name}()"
    elif name in ORDERED and any(_is_set(argument, sets) for argument in node.args):
        yield node.lineno, f"{name}() of a set"
    elif name in ("min", "max") and node.keywords and any(_is_set(one, sets) for one in node.args):
        yield node.lineno, f"{name}() of a set by a key"
    elif name == "pop" and method is not None and not node.args and _is_set(method, sets):
        yield node.lineno, "pop() of a set"


def _sets_in(tree: ast.Module) -> set[str]:
    """Return the names that stand for a set wherever they are given anything."""
    given: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(tree):
        for name, value in _given_names(node):
            # What a loop gives is one of many, and no set because they come out of one.
            loop = isinstance(node, ast.For | ast.comprehension)
            given.setdefault(name, []).append(None if loop else value)
        if isinstance(node, ast.arg):
            given.setdefault(node.arg, []).append(None)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            given.setdefault(node.target.id, []).append(None)
    return {name for name, values in given.items() if all(one and _is_set(one) for one in values)}


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_set(node: ast.expr, sets: Collection[str] = ()) -> bool:
    if isinstance(node, ast.Name):
        return node.id in sets
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left, sets) or _is_set(node.right, sets)
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and _name(node.func) in ("set", "frozenset") and bool(node.args)
    )


BYPASS_CHECKS = (
    AuditCheck("trace.dynamic_code", "static", dynamic_code, ("trace.imports_allowed",)),
    AuditCheck("trace.hidden_inputs", "static", hidden_inputs, ("trace.imports_allowed",)),
)


# The adversarial panel: every scripted attacker must earn clearly less than the honest oracle.


SAME = "its script is the oracle's own on every seed"
UNSURE, MORE = 0.8, (4, 16)
"""Success up to which it is tried on so many times as many seeds: where a coin is tossed for two kinds,
more than 60 % of 24 are of the same one time in six, of 96 one time in forty, of 384 hardly ever."""


def attack(subject: Subject, attacker: Attacker) -> list[Played]:
    """Play an attacker on the seeds of the panel, without those on which it happens to do what is right.

    One that was told what is right did not happen to do it.

    Raises:
        Unsupported: It cannot be tried here.
    """
    tried = subject.sizes.attack
    played = _attacked(subject, attacker, subject.seeds_of(tried))
    if not played:
        raise Unsupported(SAME)
    for n in (times * subject.sizes.attack for times in MORE):
        if subject.rules.max_attack_success < fmean(one.success for one in played) <= UNSURE:
            played += _attacked(subject, attacker, subject.seeds_of(n)[tried:])
            tried = n
    return played


def _attacked(subject: Subject, attacker: Attacker, seeds: Sequence[int]) -> list[Played]:
    probe, played = subject.probe, []
    for seed in seeds:
        script = attacker(probe, seed)
        if attacker is grep or _deeds(script) != _deeds(probe.oracle(seed)):
            one = probe.play(seed, script)
            if attacker is not overact or _did_more(one, len(calls_in(probe.oracle(seed)))):
                played.append(one)
    return played


def _did_more(one: Played, n: int) -> bool:
    """Whether any call behind the first n was carried out: what is refused changes nothing."""
    told = [m for answer in one.answers for m in answer["messages"] if m["role"] == "tool"]
    return not all(m.get("is_error") or tells_error(str(m.get("content") or "")) for m in told[n:])


def _deeds(script: list[Action]) -> list[object]:
    calls = [[one["name"], one["arguments"]] for one in calls_in(script)]
    return [calls, [action.get("content") for action in script if action.get("content")]]


def judged(subject: Subject, results: dict[str, list[Played]]) -> Finding:
    """Hold the attackers' mean rewards against the oracle's; the worst one is shown."""
    rules = subject.rules
    best = fmean(subject.probe.best(seed).reward for seed in subject.seeds)
    means = {name: fmean(one.reward for one in played) for name, played in results.items()}
    rates = {name: fmean(one.success for one in played) for name, played in results.items()}
    broken = [
        name
        for name in results
        if best - means[name] < rules.min_attack_margin or rates[name] > rules.max_attack_success
    ]
    worst = max(broken or results, key=lambda name: (rates[name], means[name], name))
    top = max(results[worst], key=lambda one: one.reward)
    n = len(results[worst])
    low, high = score_interval(means[worst], n)
    evidence = (
        f"{worst}{': ' if worst else ''}mean reward {means[worst]:.3g}, success {rates[worst]:.0%}, "
        f"oracle {best:.3g}; most on seed {top.seed}: {top.reward:.3g}"
    )
    bound = f"<= oracle - {rules.min_attack_margin}, success <= {rules.max_attack_success:.0%}"
    return Finding("fail" if broken else "pass", evidence, means[worst], n, bound, low=low, high=high)


def _scripted(attacker: Attacker) -> Callable[[Subject], Finding]:
    def run(subject: Subject) -> Finding:
        try:
            return judged(subject, {"": attack(subject, attacker)})
        except Unsupported as reason:
            return Finding("skip", str(reason))

    run.__doc__ = attacker.__doc__
    return run


def always_the_same(subject: Subject) -> Finding:
    """Looks every object up and then always uses the same tool; the tool that earns most counts."""
    results: dict[str, list[Played]] = {}
    for name in (tool["function"]["name"] for tool in subject.probe.tools()):
        try:
            results[f"always {name}"] = attack(subject, same_tool(name))
        except Unsupported:
            continue
    return judged(subject, results) if results else Finding("skip", SAME)


def unknown_agents(subject: Subject) -> Finding:
    """Does and says what no audit has seen before; the kind of deeds and words that earns most counts."""
    results: dict[str, list[Played]] = {}
    for deeds in DEEDS:
        for style in STYLES:
            try:
                results[f"{deeds}, says {style}"] = attack(subject, stranger(deeds, style))
            except Unsupported:
                continue
    return judged(subject, results) if results else Finding("skip", SAME)


_SOUND = ("semantic.floor_gap", "trace.balance")
_NEEDS: dict[str, tuple[str, ...]] = {"grep": ("semantic.no_solution_leakage",)}
PANEL_CHECKS = (
    *(
        AuditCheck(
            f"trace.attacker.{name}", "adversarial", _scripted(attacker), _SOUND + _NEEDS.get(name, ())
        )
        for name, attacker in ATTACKERS.items()
    ),
    AuditCheck("trace.attacker.same_tool", "adversarial", always_the_same, _SOUND),
    AuditCheck(
        "trace.attacker.stranger",
        "adversarial",
        unknown_agents,
        _SOUND,
        after=tuple(f"trace.attacker.{name}" for name in (*ATTACKERS, "same_tool")),
    ),
)

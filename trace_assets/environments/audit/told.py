"""Whether an agent is told what to do by anything but what it is meant to look at."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, takewhile
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves, tells_error
from trace_assets.diagnosis.detectors.verbs import names_deed
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import (
    NO_WRITE,
    SURE,
    Decided,
    decided,
    foretold,
    looked_at_by_all,
    looked_up,
    of_pair,
    pairs_of,
    with_meetings,
)
from trace_assets.environments.audit.dependence import (
    NUMBER,
    Row,
    Told,
    digits,
    lowdigits,
    numbers_in,
    opening_features,
    spellings,
    spread,
    told_by,
)
from trace_assets.environments.audit.listed_values import always_in_place
from trace_assets.environments.audit.scripted_rollouts import Probe, call, calls_in, numbered, properties
from trace_assets.environments.contract.answers import written

ONE_DECISION = "every seed calls for the same decision, or too few for another"
NAMED = 0.3
"""How much more often a request names a deed where it is done than elsewhere, for it to be the wish."""


def opening(subject: Subject) -> Finding:
    """The first messages do not tell what is to be decided: that takes a look.

    A classifier from words, lengths, signs and digits of the first messages to the oracle's decision must
    not do better than chance where what tools show tells it. What tells one wish from another is no leak.
    """
    # Where nothing is found there is nothing to decide by; requests may well be written for that.
    cases = _one_wish([one for one in decided(subject) if "error" not in one.row.values()])
    same = set.intersection(*(set(_lines(one)) for one in cases)) if cases else set()
    rows = {one.seed: opening_features([line for line in _lines(one) if line not in same]) for one in cases}
    texts = _texts(cases)
    pairs = [pair for pair in pairs_of(cases) if _looked_for(of_pair(cases, pair), pair, texts)]
    found = {pair: _told(rows, of_pair(cases, pair), pair) for pair in pairs}
    spelled = dict(
        zip((one.seed for one in cases), spellings([" ".join(_said(one)) for one in cases]), strict=True)
    )
    others = [pair for pair in pairs_of(cases) if pair not in found]
    found |= {pair: _told(spelled, of_pair(cases, pair), pair) for pair in others}
    return _finding(subject, found, "no decision that hangs on a look is to be told apart")


def clause_about(thing: str, things: Collection[str], text: str) -> str:
    """Return the part of a request that is about one thing: several are asked for several things.

    >>> clause_about("B2", {"A1", "B2"}, "I do not like A1, refund it, and please cancel B2.")
    ' please cancel B2.'
    >>> clause_about("A1", {"A1", "B2"}, "I do not like A1, refund it, and please cancel B2.")
    'I do not like A1, refund it, '
    >>> clause_about("A1", {"A1"}, "Refund A1 and tell me."), clause_about("C3", {"A1"}, "Refund A1.")
    ('Refund A1 and tell me.', 'Refund A1.')
    """
    named = sorted((text.find(one), one) for one in things if one and one in text)
    place = next((n for n, (_, one) in enumerate(named) if one == thing), None)
    if place is None:
        return text
    begin = _joint(text, *named[place - 1], named[place][0])[1] if place else 0
    end = _joint(text, *named[place], named[place + 1][0])[0] if place + 1 < len(named) else len(text)
    return text[begin:end]


def _joint(text: str, at: int, thing: str, until: int) -> tuple[int, int]:
    """Return where what is said of one thing ends, and where what is said of the next begins."""
    begin = at + len(thing)
    joints = list(_JOINTS.finditer(text, begin, until)) or list(re.finditer(",", text[:until]))[-1:]
    last = next((one for one in reversed(joints) if one.start() >= begin), None)
    return last.span() if last else (begin, begin)


_JOINTS = re.compile(r"\b(?:and|then|also|plus)\b|[;.!?]")
"""Where a request goes on to the next thing."""


def _one_wish(cases: Sequence[Decided]) -> list[Decided]:
    """Return the cases, those without a change left out where there are several wishes.

    Of several wishes each calls for its own change, and some for none: what tells that is the wish.
    """
    deeds = {one.kind for one in cases if one.kind != NO_WRITE and not hands_over(one.kind)}
    return [one for one in cases if len(deeds) < 2 or one.kind in deeds]


def _looked_for(cases: Sequence[Decided], pair: tuple[str, str], texts: Mapping[int, str]) -> bool:
    """Whether a look tells two decisions apart, and not the wish for one thing or another."""
    deeds = _deeds(pair)
    if len(deeds) == 2 and len({deed.split("_")[0] for deed in deeds}) == 1:
        return False
    if _wished(cases, pair, texts):
        return False
    if len(deeds) == 2:
        return foretold(with_meetings(looked_at_by_all(cases)), [one.kind for one in cases]) >= SURE
    return looked_up(cases) >= SURE


def _wished(cases: Sequence[Decided], pair: tuple[str, str], texts: Mapping[int, str]) -> bool:
    """Whether the requests name which of two changes they are for."""
    speak = {
        (kind, deed): _share([names_deed(texts[one.seed], deed) for one in cases if one.kind == kind])
        for kind in pair
        for deed in _deeds(pair)
    }
    return len(_deeds(pair)) == 2 and all(
        speak[kind, kind] - speak[other, kind] > NAMED for kind, other in (pair, pair[::-1])
    )


def _deeds(pair: tuple[str, str]) -> list[str]:
    return [kind for kind in pair if kind != NO_WRITE and not hands_over(kind)]


def _texts(cases: Sequence[Decided]) -> dict[int, str]:
    """Return what each request says of the thing that is decided on."""
    return {one.seed: clause_about(one.thing, one.things, " ".join(_said(one))) for one in cases}


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0


def _lines(one: Decided) -> list[str]:
    return [line for m in one.first for line in str(m.get("content") or "").split("\n")]


def _said(one: Decided) -> list[str]:
    return [str(m.get("content") or "") for m in one.first if m["role"] == "user"]


def results(subject: Subject) -> Finding:
    """How results are written does not tell what is to be decided: order of fields, signs, digits, lengths.

    Which of two changes is made is told by right where requests name it: then they are about other things,
    with values of their own. The length of a list is a matter of its own: a rule may go by it. It is a leak
    where what else is shown tells as much, and real runs do not decide by it.
    """
    if in_place := always_in_place(subject):
        return in_place
    cases = [one for one in decided(subject) if one.raw]
    rows = {one.seed: _written(one) for one in cases}
    numbers = {one.seed: numbers_in(one) for one in cases}
    texts = _texts(cases)
    pairs = [pair for pair in pairs_of(cases) if not _wished(of_pair(cases, pair), pair, texts)]
    found = {}
    for pair in pairs:
        own = of_pair(cases, pair)
        # Which places there are is what a look shows; how they are written is what is compared.
        common = set.intersection(*(set(rows[one.seed]) for one in own))
        alike = {one.seed: {name: rows[one.seed][name] for name in common} for one in own}
        for place in spread(numbers, own):
            for one in own:
                alike[one.seed] |= lowdigits(place, numbers[one.seed][place])
        found[pair] = _told(alike, own, pair)
    lengths = {pair: told for pair in pairs if (told := _lengths(subject, of_pair(cases, pair), pair))}
    worse = {pair: told for pair, told in lengths.items() if told.p <= subject.rules.max_told_p}
    return _finding(subject, {**found, **worse}, "no decision is to be told from how results are written")


def _written(one: Decided) -> Row:
    row: Row = {}
    for tool, text in one.raw.items():
        value = written(text)
        row[f"{tool}: ends"] = (len(text) - len(text.strip()), "  " in text, "\t" in text)
        if isinstance(value, Mapping | list):
            row[f"{tool}: compact"] = re.search(r'[\]}"\d][,:] ', text) is None
        _order(value, tool, row)
    return row


def _order(value: Any, path: str, row: Row) -> None:
    """Note the order of fields, the blanks around values, and the parity of digits."""
    if isinstance(value, Mapping):
        names = list(value)
        place = {name: n for n, name in enumerate(names)}
        some = sorted(names)[:12]
        row |= {f"{path}: {a} before {b}": place[a] < place[b] for a, b in combinations(some, 2)}
        for name, held in value.items():
            _order(held, f"{path}.{name}", row)
    elif isinstance(value, list):
        shown = [one for one in value if isinstance(one, str)]
        if len(shown) > 1:
            row[f"{path}: sorted"] = shown == sorted(shown)
        if value:
            _order(value[0], f"{path}[0]", row)
    elif isinstance(value, str):
        row[f"{path}: around"] = (value[:1].isspace(), value[-1:].isspace())
    elif isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        # Of a whole number alone: 0 beside 12.5 is what is shown, and no way of writing it.
        row[f"{path}: kind"] = type(value).__name__


def _lengths(subject: Subject, cases: Sequence[Decided], pair: tuple[str, str]) -> Told | None:
    """Return what lengths of lists tell, where the rest of what is shown tells all that they do."""
    shown = looked_at_by_all(cases)
    plain = [{k: v for k, v in row.items() if not k.endswith("#")} for row in shown]
    if len(plain) == 0 or foretold(plain, [one.kind for one in cases]) < SURE:
        return None
    real = {name for one in (subject.purpose.runs if subject.purpose else ()) for name in one.shown}
    rows: dict[int, Row] = {
        # Lists within a list have as many lengths.
        one.seed: {k: repr(v) for k, v in row.items() if k.endswith("#") and k not in real}
        for one, row in zip(cases, shown, strict=True)
    }
    return _told(rows, cases, pair)


def errors(subject: Subject) -> Finding:
    """Answers to what is wrong do not tell what is to be decided.

    Nonsense is refused the same on every seed, and a change that is let happen is answered the same whether
    it is right or not, beside what a look shows anyway.
    """
    cases = decided(subject)
    probe = subject.probe
    made = {c["name"]: c["arguments"] for one in cases for c in calls_in(probe.oracle(one.seed))}
    known = {t["function"]["name"]: t["function"]["parameters"].get("properties", {}) for t in probe.tools()}
    # The same calls on every seed, or what differs would be what was asked.
    calls: list[dict[str, Any]] = [{"name": "no_such_tool", "arguments": {}}]
    for name, arguments in sorted(made.items()):
        first = next(iter(known.get(name, {})), "")
        calls += [
            {"name": name, "arguments": {}},
            {"name": name, "arguments": {**arguments, first: "nothing"}},
        ]
    rows: dict[int, Row] = {}
    for one in cases:
        told = probe.ask(one.seed, calls)
        row: Row = {}
        for place, message in enumerate(told):
            text = str(message.get("content") or "")
            if message.get("is_error") or tells_error(text):
                row |= {f"error {place}: {k}": v for k, v in _error_features(text).items()}
        rows[one.seed] = row
    for tool in sorted({one.kind for one in cases} & set(made)):
        answered = {one.seed: _let_happen(probe, one, tool) for one in cases}
        if all(answered.values()):
            for seed, row in answered.items():
                rows[seed] |= row
    found = {pair: _told(rows, of_pair(cases, pair), pair) for pair in pairs_of(cases)}
    return _finding(subject, found, "no decision is to be told from answers to what is wrong")


def _let_happen(probe: Probe, one: Decided, tool: str) -> Row:
    """Return what a change is answered behind the oracle's looks; nothing where it is refused.

    Only a change that needs no more than what was looked up by: other values are right for some seeds only.
    """
    known = {
        k: v
        for c in calls_in(probe.oracle(one.seed))
        if not probe.writes(c["name"])
        for k, v in c["arguments"].items()
    }
    schema = next(t for t in probe.tools() if t["function"]["name"] == tool)
    if not set(properties(schema)) <= set(known):
        return {}
    given = {name: known[name] for name in properties(schema)}
    looks = list(
        takewhile(
            lambda action: not any(probe.writes(c["name"]) for c in action.get("tool_calls") or ()),
            probe.oracle(one.seed),
        )
    )
    if looks and not looks[-1].get("tool_calls"):
        looks.pop()
    told = probe.play(one.seed, numbered([*looks, call(tool, given)])).answers[-1]["messages"]
    row: Row = {}
    for message in told:
        text = str(message.get("content") or "")
        if message["role"] != "tool" or message.get("is_error") or tells_error(text):
            continue
        value = written(text)
        row[f"{tool} is let happen"] = True
        if isinstance(value, str):
            row |= {f"{tool} says '{word.lower()}'": True for word in re.findall(r"[^\W\d_]+", value)[:60]}
        else:
            # Numbers and names go with what was asked for.
            shown = {path.rpartition(".")[2] for path in one.row}
            fields = {path: held for path, held in leaves(value) if path.rpartition(".")[2] not in shown}
            plain = {path: held for path, held in fields.items() if not re.search(r"\d", str(held))}
            row |= {f"{tool} answers with {path}": True for path in fields}
            row |= {f"{tool} answers {path}": repr(held)[:60] for path, held in plain.items()}
    return row


def _error_features(text: str) -> Row:
    row: Row = {f"says '{word.lower()}'": True for word in re.findall(r"[^\W\d_]+", text)[:60]}
    row |= {"length": len(re.sub(r"\w*\d\w*", "#", text)), "ends": text[-1:], "capital": text[:1].isupper()}
    for place, number in enumerate(NUMBER.findall(text)[:2]):
        row |= digits(f"digit {place}", number)
    return row


def _told(rows: Mapping[int, Row], cases: Sequence[Decided], pair: tuple[str, str]) -> Told | None:
    return told_by([rows[one.seed] for one in cases], [one.kind == pair[0] for one in cases])


def _finding(subject: Subject, found: Mapping[tuple[str, str], Told | None], bound: str) -> Finding:
    known = {pair: told for pair, told in found.items() if told is not None}
    if not known:
        return Finding("skip", ONE_DECISION)
    pair, worst = min(known.items(), key=lambda item: (item[1].p, -item[1].accuracy))
    passed = worst.p > subject.rules.max_told_p
    words = f"'{pair[0]}' or '{pair[1]}' is told right on {worst.accuracy:.0%} of seeds (p = {worst.p:.3g})"
    words += f", as by: {worst.feature}" if not passed else ""
    return Finding(
        "pass" if passed else "fail",
        words,
        worst.accuracy,
        worst.n,
        f"{bound}, p > {subject.rules.max_told_p}",
    )


_SOUND = ("semantic.oracle_max", "semantic.floor_gap")
TOLD_CHECKS = (
    AuditCheck(
        "trace.told.opening",
        "semantic",
        opening,
        _SOUND,
        ("trace.seed_diversity", "semantic.no_solution_leakage", "trace.balance"),
    ),
    AuditCheck(
        "trace.told.results",
        "semantic",
        results,
        _SOUND,
        (
            *("trace.seed_diversity", "semantic.no_solution_leakage"),
            *("trace.fidelity.added_fields", "trace.fidelity.result_shape"),
        ),
    ),
    AuditCheck(
        "trace.told.errors",
        "semantic",
        errors,
        _SOUND,
        ("semantic.no_solution_leakage", "trace.fidelity.error_shape"),
    ),
)

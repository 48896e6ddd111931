"""Whether an environment is about its capability, and pays for having it: held against labelled real runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import speaks_of
from trace_assets.diagnosis.detectors.write_against_rule import BY_DATE, BY_FIELD
from trace_assets.environments.audit.check import AuditCheck, Finding, Purpose, Subject, with_purpose
from trace_assets.environments.audit.decision_tree import (
    MOST_VALUES,
    NO_WRITE,
    beats_chance,
    decided,
    foretold,
    grow,
)
from trace_assets.environments.audit.paid_decisions import MIN_RUNS, pays_like_labels, relevant_cases
from trace_assets.environments.audit.scripted_rollouts import calls_in
from trace_assets.records import CapabilitySpec

NO_LOOK = "the capability is not known to turn on what is looked up"
MIN_USED = 0.2
"""Share of seeds on which the oracle must use what the capability is about."""
TOLD = 0.95
"""Share of seeds on which trees must be right for a decision to be told without what a capability names."""
BY_STATE = frozenset(
    {
        "write_against_state",
        "write_after_refusal",
        "write_against_policy",
        "write_past_date",
        "unanswered_state",
    }
)
"""Detector families whose capability is to decide by what a look shows."""


@with_purpose
def uses_its_tools(subject: Subject, purpose: Purpose) -> Finding:
    """The oracle uses what the capability is about: tools that it names, speaks of, or that its runs used."""
    probe = subject.probe
    seeds = [one.seed for one in decided(subject)]
    scripts = [calls_in(probe.oracle(seed)) for seed in seeds]
    tools = [tool["function"]["name"] for tool in probe.tools()]
    bound = f"used on >= {MIN_USED:.0%} of seeds"
    worst: tuple[float, str] = (1.0, "what it uses is what the capability is about")
    for what, wanted in wanted_of(purpose.spec, tools):
        share = fmean(
            any(one["name"] in wanted or wanted & _argument_names(one["arguments"]) for one in script)
            for script in scripts
        )
        if share < worst[0]:
            worst = share, f"the oracle uses {what} on {share:.0%} of seeds"
        if share < MIN_USED:
            usual = Counter(one["name"] for script in scripts for one in script).most_common(3)
            others = ", ".join(name for name, _ in usual)
            return Finding(
                "fail",
                f"{worst[1]}, and {others} instead: it is for another capability",
                share,
                len(seeds),
                bound,
            )
    strange = _never_used(subject, purpose, {c["name"] for script in scripts for c in script})
    if strange:
        return Finding("fail", strange, 0.0, len(purpose.runs), "its changes are those of the labelled runs")
    return Finding("pass", worst[1], worst[0], len(seeds), bound)


def wanted_of(spec: CapabilitySpec, tools: Sequence[str]) -> list[tuple[str, set[str]]]:
    """Return sets of tools, or arguments, of each of which the oracle must use one, with a name for it."""
    wanted = []
    for key in ("tool", "writes"):
        named = {value for _, value in leaves(spec.detector_args.get(key)) if value in tools}
        if named:
            wanted.append((" or ".join(sorted(named)), named))
    argument = str(spec.detector_args.get("argument") or "").rpartition(".")[2]
    if argument:
        wanted.append((f"the argument '{argument}'", {argument}))
    if spec.detector is None:
        text = f"{spec.name}. {spec.description}"
        spoken_of = {
            name for name in tools if re.search(rf"\b{re.escape(name)}\b", text) or speaks_of(text, name)
        }
        if spoken_of:
            wanted.append((f"{' or '.join(sorted(spoken_of))}, which the capability speaks of", spoken_of))
    return wanted


def _argument_names(value: object) -> set[str]:
    return {part for path, _ in leaves(value) for part in path.split(".")}


def _never_used(subject: Subject, purpose: Purpose, used: set[str]) -> str:
    """Say that runs which needed the capability use none of the changes; empty where they do."""
    changes = {n for n in used if subject.probe.writes(n) and not hands_over(n)}
    needed = {p.trajectory_id for p in purpose.runs if p.label != "NA"}
    lacking = {p.trajectory_id for p in purpose.runs if p.label == "LACKING"}
    with_it = {p.trajectory_id for p in purpose.runs if changes & set(p.calls)}
    if not changes or len(needed) < 2 * MIN_RUNS or len(lacking) < MIN_RUNS or needed & with_it:
        return ""
    return (
        f"none of {len(needed)} labelled runs that needed the capability calls {', '.join(sorted(changes))}"
    )


def _is_by_state(spec: CapabilitySpec) -> bool:
    kind = spec.detector_args.get("kind")
    by_record = spec.detector == "write_against_rule" and kind in {BY_FIELD, *BY_DATE}
    return by_record or spec.detector in BY_STATE


@with_purpose
def hangs_on_looks(subject: Subject, purpose: Purpose) -> Finding:
    """Where the capability is to decide by a look, what a look shows tells the oracle's decision."""
    if not _is_by_state(purpose.spec) and not _runs_decide_by_looks(subject, purpose):
        return (
            _by_what_it_names(subject, purpose) if purpose.spec.detector is None else Finding("skip", NO_LOOK)
        )
    cases = decided(subject)
    kinds = [one.kind for one in cases]
    usual = Counter(kinds).most_common(1)[0][1] / len(kinds)
    bound = "told better than by the usual decision alone"
    if usual == 1:
        return Finding(
            "fail", f"the oracle decides the same on every seed: {kinds[0]}", 0.0, len(kinds), bound
        )
    right = beats_chance([one.row for one in cases], kinds)
    words = f"the usual decision, {Counter(kinds).most_common(1)[0][0]}, is right on {usual:.0%} of seeds"
    if right is None:
        return Finding("fail", f"what is shown tells no more: {words}", usual, len(cases), bound)
    return Finding("pass", f"trees tell {right:.0%} from what is shown; {words}", right, len(cases), bound)


def _by_what_it_names(subject: Subject, purpose: Purpose) -> Finding:
    """Where looks tell whether to act, and the capability names what they show, that has a part in it."""
    cases = decided(subject)
    acts, rows = (
        [one.kind != NO_WRITE and not hands_over(one.kind) for one in cases],
        [one.row for one in cases],
    )
    text = f"{purpose.spec.name}. {purpose.spec.description}"
    keys = {field for one in cases for field, value in one.row.items() if value == one.thing}
    named = {f for f in {f for row in rows for f in row} - keys if names_field(text, f, rows)}
    others = [{f: v for f, v in row.items() if f not in named} for row in rows]
    without = foretold(others, acts)
    if not named or min(acts.count(True), acts.count(False)) < MIN_RUNS or without < TOLD:
        return Finding("skip", NO_LOOK)
    bound, what = "what the capability names has a part in it", ", ".join(sorted(named)[:4])
    own = beats_chance([{f: row[f] for f in named & set(row)} for row in rows], acts)
    words = f"whether to act is told on {without:.0%} of seeds without {what}"
    if own is None:
        tree = grow(others, acts)
        other = tree.test.field if tree.test else "something else"
        words += f", which tells nothing of it, but {other} does: it is for another capability"
    return Finding("pass" if own is not None else "fail", words, without, len(cases), bound)


def names_field(text: str, field: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a text names a field of a result, by its words or by one of the few values that it shows.

    >>> rows = [{"get.user_id": "u1", "get.cabin": "business", "get.delivered_on ~ hours ago": 3}]
    >>> text = "Compare the user's id and the day of delivery."
    >>> [names_field(text, field, rows) for field in rows[0]]
    [True, False, True]
    >>> names_field("Change only business.", "get.cabin", rows)
    True
    """
    said = {word[:5] for word in re.findall(r"[a-z]{4,}", text.lower())}
    parts = [part[:5] for part in re.findall(r"[a-z]{4,}", _last(field).lower())]
    if parts and all(part in said for part in parts):
        return True
    values = {v.lower().replace("_", " ") for row in rows for v in _texts(row.get(field)) if len(v) > 3}
    few = len(values) <= MOST_VALUES
    return few and any(re.search(rf"\b{re.escape(value)}\b", text.lower()) for value in values)


def _last(field: str) -> str:
    return re.split(r"[ #\[]", field.rpartition(".")[2])[0]


def _texts(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def _runs_decide_by_looks(subject: Subject, purpose: Purpose) -> bool:
    """Whether real runs that have the capability change some things and leave others, as a look tells."""
    cases = relevant_cases(subject, purpose)
    good = [one for one in cases if one.pattern.label == "PRESENT"]
    sides = Counter(any(not hands_over(n) for n in one.writes) for one in good)
    if min(sides[True], sides[False]) < MIN_RUNS:
        return False
    rows, kinds = [one.row for one in good], [any(not hands_over(n) for n in one.writes) for one in good]
    return beats_chance(rows, kinds) is not None


_SOUND = ("semantic.floor_gap",)
PURPOSE_CHECKS = (
    AuditCheck("trace.purpose.tools", "semantic", uses_its_tools, _SOUND),
    AuditCheck(
        "trace.purpose.looked_up",
        "semantic",
        hangs_on_looks,
        _SOUND,
        ("trace.purpose.tools", "trace.balance"),
    ),
    AuditCheck(
        "trace.purpose.labelled_runs",
        "semantic",
        pays_like_labels,
        _SOUND,
        ("trace.purpose.tools", "trace.purpose.looked_up", "trace.fidelity.added_fields"),
    ),
)

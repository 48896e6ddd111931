"""What tools' results say, in episodes that the oracle plays and in real ones of the target, side by side.

Real material comes with the contract (`TargetContract.reference`): it was read off discovery trajectories.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from statistics import fmean
from typing import Any

from trace_assets.environments.audit.adversarial import messy
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import answers_of, decided, of_pair, pairs_of
from trace_assets.environments.audit.dependence import told_by
from trace_assets.environments.audit.scripted_rollouts import Action
from trace_assets.environments.contract.answers import answered_calls, parsed
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.json_schema import FORMATS, kind_of
from trace_assets.environments.contract.protocol import SampledEpisode, called_tools
from trace_assets.environments.contract.shapes import ResultShape
from trace_assets.records import Message, Trajectory

NO_CONTRACT = "no target contract was given to compare with"
NO_REFERENCE = "the contract holds no real episodes to compare with"
MIN_REAL = 8
"""Real successful trajectories that a comparison needs at least."""

Compare = Callable[[Subject, TargetContract], Finding]


def with_reference(check: Compare) -> Callable[[Subject], Finding]:
    """Make a comparison a check that is skipped by name where there is nothing to compare with."""

    @wraps(check)
    def run(subject: Subject) -> Finding:
        if subject.contract is None:
            return Finding("skip", NO_CONTRACT)
        if not subject.contract.reference.episodes:
            return Finding("skip", NO_REFERENCE)
        return check(subject, subject.contract)

    return run


def oracle_episodes(subject: Subject) -> list[Trajectory]:
    """Return the oracle's episodes on the audit's seeds."""
    played = [subject.probe.best(seed) for seed in subject.seeds]
    return [_episode(subject, one.seed, one.first, one.actions, one.answers) for one in played]


def messy_episodes(subject: Subject) -> list[Trajectory]:
    """Return episodes in which everything is called wrongly, on a few seeds."""
    found = []
    for seed in subject.seeds[: subject.sizes.compared]:
        script = messy(subject.probe, seed)
        found.append(_episode(subject, seed, [], script, subject.probe.walk(seed, script)))
    return found


def _episode(
    subject: Subject,
    seed: int,
    first: Sequence[dict[str, Any]],
    actions: Sequence[Action],
    answers: Sequence[dict[str, Any]],
) -> Trajectory:
    messages = [message_of(one) for one in first]
    for action, answer in zip(actions, answers, strict=False):
        messages += [message_of(action), *(message_of(one) for one in answer["messages"])]
    return Trajectory(
        trajectory_id=f"oracle/{seed}",
        task_id=str(seed),
        target=subject.environment.target,
        task_batch="audit",
        policy="oracle",
        success=True,
        messages=tuple(messages),
    )


def message_of(value: dict[str, Any]) -> Message:
    """Return a message of the wire as a record; what records do not know is dropped."""
    known = {name: held for name, held in value.items() if name in Message.model_fields and held is not None}
    return Message.model_validate(known)


@dataclass(frozen=True)
class Focus:
    """What the oracle does in an environment.

    Attributes:
        tools: The tools it calls.
        writes: Those of them that change something, all of them where none does.
        episodes: Its episodes in which one of the changes is made: where the right thing is to refuse in
            words there is no telling which real ones did so for the same reason.
    """

    tools: frozenset[str]
    writes: frozenset[str]
    episodes: tuple[Trajectory, ...]

    @property
    def sequences(self) -> list[tuple[str, ...]]:
        """The calls, episode by episode."""
        return [called_tools(one.messages) for one in self.episodes]


def focus_of(subject: Subject, contract: TargetContract) -> Focus:
    """Return which part of the target the environment is about, as its oracle shows."""
    episodes = oracle_episodes(subject)
    tools = frozenset(name for one in episodes for name in called_tools(one.messages))
    mutates = {tool.name: bool(tool.mutates) for tool in contract.tools}
    writes = frozenset(name for name in tools if mutates.get(name)) or tools
    return Focus(tools, writes, tuple(one for one in episodes if writes & set(called_tools(one.messages))))


def real_sequences(contract: TargetContract, focus: Focus) -> list[tuple[str, ...]]:
    """Return the calls of real successful trajectories in which one of the oracle's changes was made.

    Calls of tools that the oracle has no use for are left out.
    """
    return [
        tuple(name for name in one.tools if name in focus.tools)
        for one in contract.reference.sequences
        if set(one.tools) & focus.writes
        for _ in range(one.n)
    ]


def real_episodes(
    contract: TargetContract, focus: Focus, *, failed_too: bool = False
) -> list[SampledEpisode]:
    """Return sampled episodes in which one of the oracle's changes was made.

    Args:
        contract: With its reference.
        focus: What the oracle does.
        failed_too: Also those that did not succeed: what users and tools said in them is as real.
    """
    judged = any(one.success is not None for one in contract.reference.episodes)
    return [
        one
        for one in contract.reference.episodes
        if (one.success is True or failed_too or not judged)
        and {name for turn in one.turns if turn.role == "assistant" for name in turn.tools} & focus.writes
    ]


def too_few(n: int, focus: Focus, what: str = "real successes") -> Finding:
    """Return the skip for too little real material."""
    names = ", ".join(sorted(focus.writes)) or "any tool"
    return Finding("skip", f"only {n} {what} use {names}, {MIN_REAL} are needed", n=n)


MIN_ANSWERS = 5
"""Answers of the real tool that must have been seen before its shape is held against an environment."""
MAX_ITEMS = 20
FEW_TEXTS = 3
"""A tool that was only ever seen to answer one of so many texts answers nothing else."""


@with_reference
def result_shape(subject: Subject, contract: TargetContract) -> Finding:
    """Results are built like those of the target's tools: fields, types, formats, states, at every depth.

    A state that the policy or a tool's description names may be shown, whether it was seen or not.
    """
    seen: dict[str, list[float]] = defaultdict(list)
    worst: Counter[str] = Counter()
    unknown = set[str]()
    named = named_in(contract)
    for episode in oracle_episodes(subject):
        for call, answer, is_error in answered_calls(episode):
            shape = contract.result(call.name)
            if is_error:
                continue
            if shape is None or shape.n < MIN_ANSWERS:
                unknown.add(call.name)
                continue
            distance, faults = answer_distance(answer, shape, named)
            seen[call.name].append(distance)
            worst.update(f"{call.name}: {fault}" for fault in faults)
    bound = f"<= {subject.rules.max_result_distance}"
    left = f"; too few real answers of {', '.join(sorted(unknown))}" if unknown else ""
    if not seen:
        return Finding("skip", f"no result to compare{left}")
    by_tool = {name: fmean(values) for name, values in seen.items()}
    value, n = fmean(by_tool.values()), sum(map(len, seen.values()))
    evidence = f"{len(seen)} tools, the same at every place"
    if worst:
        evidence = "; ".join(f"{fault} ({times} times)" for fault, times in worst.most_common(3))
    passed = value <= subject.rules.max_result_distance
    return Finding("pass" if passed else "fail", evidence + left, value, n, bound)


Named = Callable[[str], bool]
MOST_STATES, SEEN_EACH = 12, 5
"""A place with so few values, seen so often each, holds a state; others hold names, which are anybody's."""


def named_in(contract: TargetContract) -> Named:
    """Return what tells whether a target's policy, or the description of a tool, names a value."""
    said = " ".join([contract.policy, *(f"{t.description} {t.parameters}" for t in contract.tools)])
    text = f" {' '.join(re.findall(r'[a-z0-9]+', said.lower()))} "
    return lambda value: f" {' '.join(re.findall(r'[a-z0-9]+', value.lower()))} " in text


def answer_distance(
    answer: str, shape: ResultShape, named: Named = lambda value: False
) -> tuple[float, list[str]]:
    """Return the share of places in an answer that are not as in the target's answers, and what is wrong."""
    value = parsed(answer)
    faults: list[str] = []
    if isinstance(value, str) and shape.json_schema.get("type") == "string":
        texts = shape.json_schema.get("enum", ())
        if 0 < len(texts) <= FEW_TEXTS and value not in texts and not named(value):
            return 1.0, [f"says {value[:40]!r}, the target {texts[0][:40]!r}"]
    wrong, places = compare(value, shape.json_schema, "", faults, shape.n, named)
    return wrong / places, faults


def compare(
    value: Any,
    schema: Mapping[str, Any],
    path: str,
    faults: list[str],
    seen: int = 0,
    named: Named = lambda value: False,
) -> tuple[int, int]:
    """Count the places of a value that a schema does not know, and all places.

    Types, required fields, formats and states count; fields that are added are `added_in`'s.

    Args:
        value: A JSON value.
        schema: As `json_schema.infer_schema` makes them.
        path: Where the value stands.
        faults: Gets one sentence a wrong place.
        seen: Answers behind the schema.
        named: Whether the target names a value elsewhere.

    >>> compare({"id": 1, "new": 2}, {"type": "object", "properties": {"id": {"type": "string"}},
    ...     "required": ["id"]}, "", [])
    (1, 1)
    """
    if not schema:
        return 0, 1
    kind, allowed = kind_of(value), schema.get("type", [])
    kinds = {allowed} if isinstance(allowed, str) else set(allowed)
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        faults.append(f"{path or 'result'} is {kind} instead of {'/'.join(sorted(kinds))}")
        return 1, 1
    if kind == "object":
        return _compare_object(value, schema, path, faults, seen, named)
    if kind == "array":
        items = schema.get("items", {})
        counts = [compare(one, items, f"{path}[]", faults, seen, named) for one in value[:MAX_ITEMS]]
        return sum(w for w, _ in counts), max(1, sum(n for _, n in counts))
    if kind == "string" and not _formatted(value, schema) and not _is_named(value, named):
        faults.append(f"{path or 'result'} is not built like the target's")
        return 1, 1
    if kind == "string" and path and _is_no_state(value, schema, seen) and not named(value):
        faults.append(f"{path} is {value[:40]!r}, which neither the target's results nor its policy know")
        return 1, 1
    return 0, 1


def _is_named(value: str, named: Named) -> bool:
    return not any(c.isdigit() for c in value) and named(value)


def _is_no_state(value: str, schema: Mapping[str, Any], seen: int) -> bool:
    """Whether a place holds one of a few states, and this is none of them."""
    states = [one for one in schema.get("enum", ()) if one is not None]
    plain = states and not any(c.isdigit() for one in states for c in str(one))
    return (
        bool(plain) and len(states) <= MOST_STATES and seen >= SEEN_EACH * len(states) and value not in states
    )


def _compare_object(
    value: dict[str, Any],
    schema: Mapping[str, Any],
    path: str,
    faults: list[str],
    seen: int,
    named: Named,
) -> tuple[int, int]:
    known = schema.get("properties")
    wrong = places = 0
    if known is None:
        held_to = schema.get("additionalProperties", {})
        counts = [
            compare(one, held_to, f"{path}.*", faults, seen, named)
            for one in list(value.values())[:MAX_ITEMS]
        ]
        return sum(w for w, _ in counts), max(1, sum(n for _, n in counts))
    for name in schema.get("required", ()):
        if name not in value:
            faults.append(f"lacks {path}.{name}".replace(" .", " "))
            wrong, places = wrong + 1, places + 1
    for name, held in value.items():
        if name in known:
            more, of = compare(held, known[name], f"{path}.{name}".lstrip("."), faults, seen, named)
            wrong, places = wrong + more, places + of
    return wrong, max(1, places)


def _formatted(value: str, schema: Mapping[str, Any]) -> bool:
    form = FORMATS.get(schema.get("format", ""))
    if form is not None and not form.fullmatch(value):
        return False
    pattern = schema.get("pattern")
    return pattern is None or re.fullmatch(pattern, value) is not None


def added_in(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of a value that a schema does not know, with what they hold.

    >>> schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    >>> list(added_in({"id": "a", "may_go": True}, schema))
    [('may_go', True)]
    """
    if isinstance(value, dict):
        known = schema.get("properties")
        held_to = schema.get("additionalProperties")
        for name, held in value.items():
            here = f"{path}.{name}".lstrip(".")
            if known is not None and name not in known:
                yield here, held
            else:
                yield from added_in(held, (known or {}).get(name, held_to or {}), here)
    elif isinstance(value, list):
        for one in value[:MAX_ITEMS]:
            yield from added_in(one, schema.get("items", {}), f"{path}[]")


def added_fields(subject: Subject) -> Finding:
    """Results have no field that the target's results do not have: what is added is the writer's own word."""
    contract = subject.contract
    if contract is None:
        return Finding("skip", NO_CONTRACT)
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    n, unknown = 0, set[str]()
    cases = decided(subject)
    shapes = {one.tool: one for one in contract.results if one.n >= MIN_ANSWERS}
    for case in cases:
        for name, answer in answers_of(subject, case.seed):
            if name not in shapes:
                unknown.add(name)
                continue
            n += 1
            for path, held in added_in(parsed(answer), shapes[name].json_schema):
                found[f"{name}: {path}"].setdefault(case.seed, held)
    if not n:
        return Finding("skip", f"too few real answers of {', '.join(sorted(unknown)) or 'any tool'}")
    bound = "no field that real results do not have"
    if not found:
        return Finding("pass", f"{n} results have the target's fields", 0.0, n, bound)
    place, held = max(found.items(), key=lambda item: (len(item[1]), item[0]))
    words = f"adds {', '.join(sorted(found)[:4])}"
    for pair in pairs_of(cases):
        own = of_pair(cases, pair)
        told = told_by(
            [{"it": repr(held.get(one.seed))} for one in own], [one.kind == pair[0] for one in own]
        )
        if told is not None and told.p <= subject.rules.max_told_p:
            words += f"; {place} tells '{pair[0]}' from '{pair[1]}' on {told.accuracy:.0%} of seeds"
    return Finding("fail", words, len(found), n, bound)


RESULT_CHECKS = (
    AuditCheck("trace.fidelity.added_fields", "fidelity", added_fields, ("semantic.oracle_max",)),
    AuditCheck(
        "trace.fidelity.result_shape",
        "fidelity",
        result_shape,
        ("semantic.oracle_max",),
    ),
)

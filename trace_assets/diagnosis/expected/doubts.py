"""Doubts about a task's ground truth, the rules on values nobody could know, and passes that say little.

A pass says little where nothing had to be done, the policy was broken, or another state hid a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trace_assets.diagnosis.detectors import Corpus, Detector
from trace_assets.diagnosis.detectors.identity import looks_like_id, names_a_thing, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import last_name, plain_name
from trace_assets.diagnosis.detectors.write_against_policy import WriteAgainstPolicy
from trace_assets.diagnosis.detectors.write_past_date import WritePastDate
from trace_assets.diagnosis.expected.diffs import differences, in_words
from trace_assets.diagnosis.expected.facts import Facts, Thing, is_number, names_number
from trace_assets.records import ActionDiff, ExpectedAction, LuckyPass, SuspectTask, Trajectory
from trace_assets.records.triage import Grade, Luck

POLICY: tuple[Detector, ...] = (WriteAgainstPolicy(), WritePastDate())
"""Families whose rule is the policy's or a date's, never a norm that is learned from what passes."""
MOST_TOLD = 3
"""Differences that one row tells."""


class Doubt(NamedTuple):
    """What one rule says against a task.

    Attributes:
        grade: `wrong` or `suspected`.
        rule: The rule's name.
        detail: One sentence for a person.
        places: Which expected writes it concerns, counted among the expected writes; empty: all.
        arguments: Which of their arguments; empty: the whole call.
        reading: The tool and the policy's words that were held against it; empty where it rests on none.
    """

    grade: Grade
    rule: str
    detail: str
    places: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()


Doubter = Callable[[Facts, str], Iterator[Doubt]]
"""Looks at one task (by id) beside all facts."""


def record_of(facts: Facts, task_id: str, action: ExpectedAction) -> Thing | None:
    """Return the record of the object that a call acts on: the first argument that names one."""
    for _, value in leaves(action.arguments):
        if looks_like_id(value):
            record = facts.record(task_id, str(value))
            if record is not None:
                return record
    return None


MIN_RUNS = 3
"""Runs of a task, by at least two policies, which made the call and all gave another value."""


def told_nowhere(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call has an identifier that stands nowhere, of a kind that no look shows.

    A name that a look would have shown (a flight, a variant) may only not have been looked for. So the
    argument must be one that no record of any run has a field for, and several runs must have made the call
    and failed for it.
    """
    for place, action, name, value, given in _missed_values(facts, task_id):
        if not isinstance(value, str) or not looks_like_id(value) or facts.is_known(task_id, value):
            continue
        if any(last_name(field) == plain_name(name) for field in facts.values):
            continue
        detail = (
            f"{action.name} is to be called with {spoken(name)} {value!r}, which stands nowhere; "
            f"{len(given)} runs made the call, and none could know it"
        )
        yield Doubt("wrong", "told_nowhere", detail, (place,), (name,))


def agreed_otherwise(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """All runs give one number that was told or shown; the one that is expected stands nowhere."""
    for place, action, name, value, given in _missed_values(facts, task_id):
        if not is_number(value) or len({normal(one) for one in given}) > 1:
            continue
        texts = facts.texts(task_id)
        agreed = given[0]
        if names_number(texts, value) or not is_number(agreed) or not names_number(texts, agreed):
            continue
        detail = (
            f"{action.name} is to be called with {spoken(name)} {value:g}, which stands nowhere; all "
            f"{len(given)} runs gave {agreed:g}, as they were told or shown"
        )
        yield Doubt("wrong", "agreed_otherwise", detail, (place,), (name,))


_TO_BE_HAD = frozenset({"available", "is_available", "availability", "in_stock", "is_in_stock", "stock"})
"""Fields that say whether something can be had."""
_NOT = frozenset(
    {"false", "no", "none", "0", "0.0", "unavailable", "out of stock", "sold out", "not available"}
)


def not_to_be_had(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call takes something that every look shows as not available, and no record holds it.

    What somebody has already (a line of an order) may be sold out since, and be returned all the same.
    """
    if any(one.success for one in facts.of_task[task_id]):
        return
    for place, action in facts.expected_writes(task_id):
        for path, value in leaves(action.arguments):
            if not names_a_thing(value):
                continue
            wanted = normal(value)
            shown = [
                thing
                for thing in facts.things(task_id)
                if any(isinstance(own, str | int) and normal(own) == wanted for own in thing.values())
            ]
            states = [_to_be_had(thing) for thing in shown]
            if states and all(state is False for state in states):
                name = path.partition(".")[0]
                detail = (
                    f"{action.name} is to take {spoken(name)} {value}: every look shows it as not available"
                )
                yield Doubt("wrong", "not_to_be_had", detail, (place,), (name,))


def _to_be_had(thing: Mapping[str, Any]) -> bool | None:
    """Return whether a record says that it can be had; None when it does not say."""
    said = [value for name, value in thing.items() if name.lower() in _TO_BE_HAD]
    return None if len(said) != 1 else str(said[0]).lower() not in _NOT


def _missed_values(facts: Facts, task_id: str) -> Iterator[tuple[int, ExpectedAction, str, Any, list[Any]]]:
    """Yield (place, call, argument, value, what runs gave) where enough runs made the call, all otherwise."""
    if any(one.success for one in facts.of_task[task_id]):
        return
    for place, action in facts.expected_writes(task_id):
        for name, value in action.arguments.items():
            given: list[Any] = []
            policies = set[str]()
            for one in facts.of_task[task_id]:
                made = facts.transcript(one).own_calls(action.name, ok=True)
                if made:
                    given.append(made[-1].arguments.get(name))
                    policies.add(one.policy)
            if len(given) < MIN_RUNS or len(policies) < 2:
                continue
            if all(one is not None and normal(one) != normal(value) for one in given):
                yield place, action, name, value, given


def lucky_passes(
    facts: Facts,
    corpus: Corpus,
    suspects: Sequence[SuspectTask] = (),
) -> list[LuckyPass]:
    """Return what makes passed runs of one target poor witnesses, one row a run and kind.

    Args:
        facts: Tasks beside runs; those that did not pass have no rows.
        corpus: All runs as detectors see them, with the policy.
        suspects: What speaks against tasks of the target.
    """
    broken = _broken(facts, corpus)
    demanded = {
        row.task_id: row for row in suspects if row.grade == "wrong" and row.rule in BREAKING and row.places
    }
    rows = []
    for one in facts.runs:
        if not one.success:
            continue
        found: list[tuple[Luck, str, tuple[int, ...], str]] = []
        if _idle(facts, one):
            found.append(("no_write_needed", "", (), "its task asks for no change, and none was made"))
        diffs = _differences(facts, one)
        if diffs:
            more = f"; and {len(diffs) - MOST_TOLD} more" if len(diffs) > MOST_TOLD else ""
            words = "; ".join(in_words(row) for row in diffs[:MOST_TOLD]) + more
            at = tuple(sorted({row.message for row in diffs if row.message is not None}))
            found.append(("another_state", "", at, words))
        if one.trajectory_id in broken:
            rule, at, words = broken[one.trajectory_id]
            found.append(("against_policy", rule, at, words))
        elif one.task_id in demanded:
            row = demanded[one.task_id]
            found.append(("against_policy", row.rule, (), f"its task demands it: {row.detail}"))
        rows += [
            LuckyPass(
                trajectory_id=one.trajectory_id,
                target=one.target,
                task_id=one.task_id,
                policy=one.policy,
                kind=kind,
                rule=rule,
                evidence=at,
                detail=words,
            )
            for kind, rule, at, words in found
        ]
    return rows


BREAKING = frozenset(
    {"protected_field", "past_object", "missing_prerequisite", "refused_demand"}
    | {"banned_object", "beyond_limit", "no_condition_holds", "clauses_broken"}
)
"""Doubts about a task that say: whoever passes it has broken the policy."""


def _idle(facts: Facts, one: Trajectory) -> bool:
    """Tell whether a run's task needs no change, handing over aside, and the agent made none."""
    task = facts.tasks.get(one.task_id)
    if task is None or not task.has_expected:
        return False
    if any(not hands_over(action.name) for _, action in facts.expected_writes(one.task_id)):
        return False
    return not any(
        step.tool in facts.writes and not step.failed and not step.by_user and not hands_over(step.tool)
        for step in facts.transcript(one).steps
    )


def _differences(facts: Facts, one: Trajectory) -> list[ActionDiff]:
    """Return how the agent's changes differ from those expected; nothing where these are not known."""
    task = facts.tasks.get(one.task_id)
    if task is None or not task.has_expected:
        return []
    rows = differences(one, facts.transcript(one), task.expected_actions, facts.writes)
    return [row for row in rows if _of_agent(facts, one, row)]


def _of_agent(facts: Facts, one: Trajectory, row: ActionDiff) -> bool:
    """Tell whether a difference is the agent's doing: not its user's, and no handing over."""
    if hands_over(row.tool) or (row.kind == "missed" and row.refused):
        return False
    steps = facts.transcript(one).steps
    return row.message is None or not any(step.index == row.message and step.by_user for step in steps)


def _broken(facts: Facts, corpus: Corpus) -> Mapping[str, tuple[str, tuple[int, ...], str]]:
    """Return by passed run the rule that it broke, where, and in words."""
    proposed = [(family, proposal) for family in POLICY for proposal in family.propose(corpus)]
    found: dict[str, tuple[str, tuple[int, ...], str]] = {}
    for one in facts.runs:
        for family, proposal in proposed if one.success else ():
            finding = family.label(facts.transcript(one), proposal.args)
            if finding.label == "LACKING":
                words = f"{proposal.name}: {finding.rationale}"
                found.setdefault(one.trajectory_id, (family.name, finding.evidence, words))
    return found

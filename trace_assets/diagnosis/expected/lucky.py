"""Passes that say little: nothing had to be done, the policy was broken, or another state hid a mistake.

A pass counts against a lack in the contrast (ER+). It is a poor witness where the run would have passed
without the capability, or passed in spite of the lack. What is expected and the policy show some of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.diagnosis.detectors import Corpus, Detector
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.write_against_policy import WriteAgainstPolicy
from trace_assets.diagnosis.detectors.write_past_date import WritePastDate
from trace_assets.diagnosis.expected.diffs import differences, in_words
from trace_assets.diagnosis.expected.facts import Facts
from trace_assets.records import ActionDiff, LuckyPass, SuspectTask, Trajectory
from trace_assets.records.triage import Luck

POLICY: tuple[Detector, ...] = (WriteAgainstPolicy(), WritePastDate())
"""Families whose rule is the policy's or a date's, never a norm that is learned from what passes."""
MOST_TOLD = 3
"""Differences that one row tells."""


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

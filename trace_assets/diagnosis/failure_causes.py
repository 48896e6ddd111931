"""Why did each run fail: one row a failure, from what triage, labels and contrast say together.

`Explainer` is the seam: whoever explains failures takes what `explain` takes and gives what it gives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from trace_assets.diagnosis.decisive import RULES as DECISIVE_RULES
from trace_assets.diagnosis.decisive import Decisive
from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.diagnosis.detectors.protocol import speaks_of_all
from trace_assets.diagnosis.expected.diffs import in_words
from trace_assets.diagnosis.single_lacks import as_label
from trace_assets.diagnosis.thresholds import HARDLY_MORE, restates_outcome, speaks_against
from trace_assets.diagnosis.triage import SECOND_LOOK
from trace_assets.records import (
    ActionDiff,
    Capability,
    Consensus,
    Contrast,
    FailureCause,
    Label,
    LackCause,
    Proposal,
    SelectedCapability,
    SingleLack,
    Task,
    ToldTask,
    Trajectory,
    Triage,
)

MOST_TOLD = 3
"""Differences from what is expected that the words of one failure name."""


@dataclass(frozen=True)
class Diagnosed:
    """What is known of the trajectories of one target when their failures are to be explained.

    Attributes:
        trajectories: All of them, passed ones too.
        triage: To whom each failure is put down.
        capabilities: Candidates.
        labels: Of every trajectory with every candidate.
        contrasts: One row a candidate.
        selected: The decision on every candidate.
        tasks: By id, where the target says what is expected.
        repaired: By trajectory and capability, whether the run passes once that is repaired and the rest is
            replayed; what was not tried is left out.
        judged: By trajectory and capability, whether a model says that the lack decided the end.
        proposals: What passes over failures named, each with the failures that showed it.
        singles: What single failures lack that no candidate is.
    """

    trajectories: Sequence[Trajectory]
    triage: Sequence[Triage]
    capabilities: Sequence[Capability] = ()
    labels: Sequence[Label] = ()
    contrasts: Sequence[Contrast] = ()
    selected: Sequence[SelectedCapability] = ()
    tasks: Mapping[str, Task | ToldTask] = field(default_factory=dict)
    repaired: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    judged: Mapping[tuple[str, str], LackCause] = field(default_factory=dict)
    proposals: Sequence[Proposal] = ()
    singles: Sequence[SingleLack] = ()


def explain(diagnosed: Diagnosed, rules: Collection[str] = DECISIVE_RULES) -> list[FailureCause]:
    """Explain each failure by its triage and, where it is the agent's, by what it lacks.

    Of several lacks one whose repair made the run pass comes first, then one of which a model says that it
    decided the end; what is lacking in nearly every failure and in no success comes after what says more
    (`restates_outcome`). Then one that was proposed with this very failure as its witness, one that fits how
    the run differs from what is expected, then what the model shows by an earlier message (`_first`), then
    the one that more of the failures and fewer of the passed runs show; a value that nobody had said follows
    from the look that was not taken before the same call. A lack of which the model says that
    it did not decide the end explains nothing. Where a model proposed cases, these come before other lacks
    that decided the end as much, and what arises in fewer runs before what arises in more. Whoever labels
    knows less than whoever proposed (not how runs ended, nor what was expected): where no label explains a
    failure, it is the candidate that was proposed with this very failure as its witness, and where there is
    none either, or runs that lack it fail hardly more often, what it lacks in too few runs to be a candidate:
    then no capability is named. What rules find lacking where runs rather pass explains nothing. Where the
    lack is said twice, and the run lacks what stands for it too, that is named. Which message decided it is
    found apart from that, see `Decisive`, by these of its rules.
    """
    decisive = Decisive(diagnosed.trajectories, diagnosed.tasks, rules)
    runs = {one.trajectory_id: one for one in diagnosed.trajectories}
    rank, breadth = _ranks(diagnosed), _breadths(diagnosed)
    relevant = {
        row.capability_id: row.n_failed_relevant + row.n_passed_relevant for row in diagnosed.contrasts
    }
    kept = {row.capability_id for row in diagnosed.selected if row.kept}
    same_as = {row.capability_id: row.same_as for row in diagnosed.selected if row.same_as}
    by_id = {one.capability_id: one for one in diagnosed.capabilities}
    parents = {one.parent for one in diagnosed.capabilities}
    says_little = {
        row.capability_id
        for row in diagnosed.contrasts
        if row.capability_id in by_id and by_id[row.capability_id].detector is None and restates_outcome(row)
    }
    witnesses: dict[str | None, set[str]] = defaultdict(set)
    for proposal in diagnosed.proposals:
        witnesses[proposal.merged_into].update(proposal.trajectories)
    singles: dict[str, list[SingleLack]] = defaultdict(list)
    for single in diagnosed.singles:
        singles[single.trajectory_id].append(single)
    lacks: dict[str, list[Label]] = defaultdict(list)
    of_rules = [
        row
        for row in diagnosed.contrasts
        if row.capability_id in by_id and by_id[row.capability_id].detector is not None
    ]
    idle = {row.capability_id for row in of_rules if speaks_against(row)}
    weak = {row.capability_id for row in of_rules if speaks_against(row, HARDLY_MORE)}
    for label in diagnosed.labels:
        if label.label != "LACKING" or label.capability_id not in by_id or _harmless(label, diagnosed):
            continue
        if label.capability_id not in idle or _is_proven(label, diagnosed):
            lacks[label.trajectory_id].append(label)
    causes = []
    for row in diagnosed.triage:
        if row.outcome == "passed":
            continue
        one = runs[row.trajectory_id]
        diffs = decisive.differences(one)
        own = sorted(
            lacks[row.trajectory_id],
            key=lambda label: (
                diagnosed.repaired.get((label.trajectory_id, label.capability_id)) is not True,
                not _is_main(label, diagnosed),
                _judged(label, diagnosed) != "yes",
                label.capability_id in says_little,
                row.trajectory_id not in witnesses[label.capability_id],
                # A habit is not named where a case of a model's fits, whatever detector found the habit.
                not _is_case(by_id[label.capability_id]) and bool(breadth),
                not fits(by_id[label.capability_id], label, diffs),
                # The child says it more exactly than its parent.
                speaks_of_all(by_id[label.capability_id].detector_args) or label.capability_id in parents,
                breadth.get(label.capability_id, 0),
                *_first(label, diagnosed, relevant),
                _follows(label, lacks[row.trajectory_id], by_id),
                rank[label.capability_id],
                label.capability_id,
            ),
        )
        witnessed = (
            _witnessed(row.trajectory_id, diagnosed, by_id, rank) if row.fault == "agent" and not own else []
        )
        alone = None
        hardly = all(one.capability_id in weak and not _is_proven(one, diagnosed) for one in own)
        if row.fault == "agent" and hardly and not witnessed:
            alone = _alone(singles[row.trajectory_id], diffs)
            own = [] if alone is not None else own
        at = decisive.message(
            one,
            [alone] if alone is not None else [(label, by_id[label.capability_id]) for label in own],
            _of_user(row, one),
            _shown(row, own, diagnosed),
        )
        if row.fault != "agent" or not own:
            cause = _of_triage(row, at, diffs)
            if alone is not None:
                found = {"words": words_of(*alone), "source": "rule", "rule": alone[1].detector or ""}
                cause = cause.model_copy(update=found)
            cause = _of_proposal(cause, by_id[witnessed[0]]) if witnessed else cause
            causes.append(_with_suspicion(cause, row))
            continue
        standing = [one for one in own if one.capability_id == same_as.get(own[0].capability_id)]
        label = standing[0] if standing else own[0]
        capability = by_id[label.capability_id]
        sure = label.capability_id in kept or _judged(label, diagnosed) == "yes"
        cause = FailureCause(
            trajectory_id=row.trajectory_id,
            target=row.target,
            task_id=row.task_id,
            party="agent",
            decisive_message=at,
            capability=label.capability_id,
            words=words_of(label, capability),
            confidence="medium" if sure else "low",
            source="model" if label.labeller.startswith("model:") else "rule",
            rule=capability.detector or label.labeller,
        )
        causes.append(_with_suspicion(cause, row))
    return [_with_repair(cause, diagnosed) for cause in causes]


def words_of(label: Label, capability: Capability) -> str:
    """Return in words that a run lacks a capability."""
    return f"{capability.name}: {label.rationale}" if label.rationale else capability.name


def _alone(singles: Sequence[SingleLack], diffs: Sequence[ActionDiff]) -> tuple[Label, Capability] | None:
    """Return what a run lacks that is no candidate, first what fits how it differs from what is expected."""
    found = [(one.number, *as_label(one)) for one in singles]
    best = min(found, key=lambda one: (not fits(one[2], one[1], diffs), one[0]), default=None)
    return None if best is None else best[1:]


def _said(label: Label, diagnosed: Diagnosed) -> LackCause | None:
    """Return what a model says of a lack; None where it was not asked."""
    return diagnosed.judged.get((label.trajectory_id, label.capability_id))


def _judged(label: Label, diagnosed: Diagnosed) -> str | None:
    """Return whether a model says that a lack decided the end; None where it was not asked."""
    said = _said(label, diagnosed)
    return said.decisive if said is not None else None


def _is_main(label: Label, diagnosed: Diagnosed) -> bool:
    """Say whether a model that was shown all lacks of a run names this one as what explains its failure."""
    said = _said(label, diagnosed)
    return said is not None and said.main


def _first(label: Label, diagnosed: Diagnosed, relevant: Mapping[str, int]) -> tuple[float, int]:
    """Return the first message with which a model shows that a lack decided the end, and how broad it is.

    Each of several lacks may have sunk a run: what comes first did, and what comes later did so no more. Of
    those that begin with the same message the one that fewest runs need says it most exactly. Where no model
    shows a message nothing is returned that tells lacks apart.
    """
    said = _said(label, diagnosed)
    if said is None or not said.evidence:
        return inf, 0
    return min(said.evidence), relevant.get(label.capability_id, 0)


def _follows(label: Label, others: Sequence[Label], by_id: Mapping[str, Capability]) -> bool:
    """Tell whether a wrong value follows from a call that another lack misses before the same one."""

    def mistake(one: Label) -> str | None:
        return _MISTAKES.get(by_id[one.capability_id].detector or "")

    return mistake(label) == "wrong_value" and any(
        mistake(one) == "missing_call" and set(one.evidence) & set(label.evidence) for one in others
    )


def _harmless(label: Label, diagnosed: Diagnosed) -> bool:
    """Say whether a model finds that a lack did not decide the end, and no repair shows the contrary."""
    repaired = diagnosed.repaired.get((label.trajectory_id, label.capability_id))
    return _judged(label, diagnosed) == "no" and repaired is not True


def _is_proven(label: Label, diagnosed: Diagnosed) -> bool:
    """Say whether a repair or a model shows of this very run that a lack decided its end."""
    repaired = diagnosed.repaired.get((label.trajectory_id, label.capability_id))
    return repaired is True or _judged(label, diagnosed) == "yes"


def settled(labels: Iterable[Label], consensus: Iterable[Consensus]) -> list[Label]:
    """Return the labels that say what several passes or labellers agree on; all where one labelled alone."""
    agreed = {(row.capability_id, row.trajectory_id): row.label for row in consensus}
    return [
        one for one in labels if agreed.get((one.capability_id, one.trajectory_id), one.label) == one.label
    ]


def _ranks(diagnosed: Diagnosed) -> Mapping[str, float]:
    """Return by capability what sorts the likelier explanation first: share of passed runs less coverage."""
    found = {one.capability_id: 0.0 for one in diagnosed.capabilities}
    for row in diagnosed.contrasts:
        found[row.capability_id] = row.n_passed_lacking / max(1, row.n_passed) - (row.coverage or 0.0)
    return found


def _is_case(capability: Capability) -> bool:
    """Say whether a model proposed a capability as a case, with what it rests on."""
    return capability.detector is None and bool(capability.detector_args)


def _breadths(diagnosed: Diagnosed) -> Mapping[str, int]:
    """Return of each candidate in how many runs its situation arises, where a model proposed cases.

    Of several that decided one end the rarest says it most exactly: what arises in nearly every run
    ("confirm before a change") goes along with most mistakes. Without cases nothing is returned.
    """
    if not any(_is_case(one) for one in diagnosed.capabilities):
        return {}
    return {row.capability_id: row.n_failed_relevant + row.n_passed_relevant for row in diagnosed.contrasts}


def fits(capability: Capability, label: Label, diffs: Iterable[ActionDiff]) -> bool:
    """Tell whether a lack is one that a difference between expected and done would come from.

    A call that should not have been made is one that was not expected; a call that was needed is one that is
    missing; a wrong value is one that was altered.

    Args:
        capability: What is lacking. A model's names no kind of mistake, and fits nothing.
        label: Where the lack shows.
        diffs: How the run differs from what is expected of it.
    """
    mistake = _MISTAKES.get(capability.detector or "")
    named = frozenset(_texts(capability.detector_args))
    for row in diffs:
        if row.tool not in named:
            continue
        if mistake == "forbidden_call" and row.kind == "surplus" and row.message in label.evidence:
            return True
        if mistake == "wrong_value" and (
            row.kind == "surplus" or (row.kind == "altered" and not named.isdisjoint(row.changed))
        ):
            return True
        if mistake in _NEEDED and row.kind == "missed":
            return True
    return False


_MISTAKES = {family.name: family.mistake for family in FAMILIES}
_NEEDED = frozenset({"missing_call", "early_end", "unverified_result"})


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _shown(row: Triage, lacks: Sequence[Label], diagnosed: Diagnosed) -> Sequence[int]:
    """Return the messages with which a model shows why a run failed: by what it lacked, or by triage."""
    if row.fault == "agent" and lacks:
        said = _said(lacks[0], diagnosed)
        if said is not None and said.decisive == "yes" and said.evidence:
            return said.evidence
    return row.evidence if row.rule == SECOND_LOOK else ()


def _of_user(row: Triage, one: Trajectory) -> int | None:
    """Return the user's message that decided a run, where the failure is put down to its simulated user.

    It is the one that ended the run, or the first that shows the fault. Where only silence shows it, it is
    the user's last, its last chance to speak. A model that looked again names all that it read, so of what it
    says only the end counts: else it is the agent's call that came of the user's words, as readers have it.
    """
    said = [at for at, message in enumerate(one.messages) if message.role == "user"]
    if row.fault != "user_simulator" or not said:
        return None
    shown, last = [at for at in said if at in row.evidence], len(one.messages) - 1
    if row.rule == SECOND_LOOK:
        return last if last in shown else None
    return shown[0] if shown and shown[-1] < last else said[-1]


def _of_triage(row: Triage, at: int, diffs: Sequence[ActionDiff]) -> FailureCause:
    """Return what triage says; of the agent's, where no model says more, what was done otherwise."""
    party = row.fault or "agent"
    by_model = row.rule == SECOND_LOOK
    words = row.detail
    if party == "agent" and diffs and not by_model:
        words = "; ".join(in_words(diff) for diff in diffs[:MOST_TOLD])
        words += f"; and {len(diffs) - MOST_TOLD} more" if len(diffs) > MOST_TOLD else ""
    return FailureCause(
        trajectory_id=row.trajectory_id,
        target=row.target,
        task_id=row.task_id,
        party=party,
        decisive_message=at,
        words=words,
        confidence="low" if party == "agent" else "medium" if by_model else "high",
        source="model" if by_model else "rule",
        rule=row.rule,
    )


def _witnessed(
    run: str, diagnosed: Diagnosed, by_id: Mapping[str, Capability], rank: Mapping[str, float]
) -> list[str]:
    """Return the candidates that were proposed with a failure as their witness, those of most passes first.

    Candidates of which a model says that they did not decide this end are left out, and so are parents of
    others that are named.
    """
    counts = Counter(
        row.merged_into for row in diagnosed.proposals if run in row.trajectories and row.merged_into in by_id
    )
    named = {
        name: count
        for name, count in counts.items()
        if name is not None and ((said := diagnosed.judged.get((run, name))) is None or said.decisive != "no")
    }
    parents = {by_id[name].parent for name in named}
    return sorted(named.keys() - parents, key=lambda name: (-named[name], rank[name], name))


def _of_proposal(cause: FailureCause, capability: Capability) -> FailureCause:
    """Return a cause that names the candidate which was proposed because of this very failure."""
    words = f"{capability.name}: {cause.words}" if cause.source == "model" else capability.name
    named = {"capability": capability.capability_id, "words": words, "source": "model"}
    return cause.model_copy(update={**named, "rule": capability.analyst})


def _with_suspicion(cause: FailureCause, row: Triage) -> FailureCause:
    """Say beside a cause who else is suspected."""
    return cause.model_copy(update={"suspected": row.suspected, "suspicion": row.suspicion})


def _with_repair(cause: FailureCause, diagnosed: Diagnosed) -> FailureCause:
    """Say whether the run passes once the lack is repaired, where that was tried."""
    repaired = diagnosed.repaired.get((cause.trajectory_id, cause.capability or ""))
    if repaired is None:
        return cause
    return cause.model_copy(update={"repaired": repaired, "confidence": "high" if repaired else "low"})

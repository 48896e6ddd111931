"""Selection: which capabilities are worth an environment and an adapter, and why the others are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set

from trace_assets.diagnosis.chance import Null
from trace_assets.diagnosis.cover import Cover
from trace_assets.diagnosis.duplicates import duplicates, said_twice
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.leak import unread_words
from trace_assets.diagnosis.promises import (
    chance_words,
    narrower_ones,
    possibly_decided,
    promise,
    quoted,
    seen_once,
    what_decides,
    with_narrower,
)
from trace_assets.diagnosis.repair.shares import decisive_words, indecisive, is_proven, placebo_words
from trace_assets.diagnosis.thresholds import (
    is_evident,
    is_promising,
    more_tasks,
    more_trials,
    restates_outcome,
    shortcoming,
    stands_alone,
)
from trace_assets.records import (
    Capability,
    Contrast,
    Decision,
    DecisiveShare,
    Label,
    LackCause,
    SelectedCapability,
    Triage,
)
from trace_assets.settings import Selection


def select(
    contrasts: Sequence[Contrast],
    capabilities: Sequence[Capability],
    labels: Sequence[Label],
    triage: Sequence[Triage],
    section: Selection,
    decisive: Sequence[DecisiveShare] = (),
    *,
    nulls: Mapping[str, Callable[[float], Null]] = {},
    causes: Sequence[LackCause] = (),
    unread: Set[str] = frozenset(),
) -> list[SelectedCapability]:
    """Decide on every candidate, target by target.

    First each candidate alone must pass the thresholds, see `shortcoming`, and the clearest of them must be
    clearer than what shuffled outcomes show, see `chance_null`. What repairs have shown to decide needs no
    test besides, see `is_proven`. Then candidates are taken by
    greedy marginal coverage per expected cost (`expected_cost`): each time the one that is lacking in most of
    the failures that none taken so far explains, for what teaching it costs. Two guards keep consequences
    from being taken for causes:

    - a candidate waits when its coverage or gap goes away once the lacking trajectories of others are set
      aside. The others are those that explain failures beyond its own, and those whose evidence comes
      before its own in most failures that lack both: of two that go together, the earlier is the cause;
    - after a candidate is taken, the others must still show the gap outside of what it explains.

    What is lacking together with others in nearly all failures adds few: it is taken all the same where it
    decides among runs that lack none of the others, see `Cover`.

    Where it is known of a lack that it did not decide the end of a failed run, it explains nothing of that
    run. Of candidates that explain equally many failures the one that fewer successes lack goes first.

    Of what a model proposed, what is lacking in nearly every failure and in no success says how runs ended,
    see `restates_outcome`: it is kept only where nothing else is, as the one lack of an agent would be. And
    what a broader one covers follows from its narrower ones, each of which one environment can teach: the
    broader one waits until these are taken.

    Of candidates that say one thing twice one stands for the others, which are not decided on by themselves
    (`duplicates`).

    What `selection.overrides` names is kept at the end, whatever speaks against it, and marked as such.

    Args:
        contrasts: One row a candidate.
        capabilities: The candidates' names.
        labels: Labels behind the contrasts.
        triage: Outcomes of all trajectories.
        section: Thresholds.
        decisive: What repairing the candidates does, where it was measured.
        nulls: What shuffled outcomes come to, by target, up to the p-value that it is called with; asked for
            only where something would be kept. A target without one is not held against it.
        causes: Which lacks decided the end, where somebody said.
        unread: What passes the thresholds by labels that a person should read first, see `unread_labels`.

    Returns:
        One row a candidate, the kept ones first by the order in which they were taken, rejected ones by
        coverage; ranks count from 1 within a target.
    """
    names = {row.capability_id: row.name for row in capabilities}
    detectors = {row.capability_id: row.detector or "" for row in capabilities}
    parents = {row.capability_id: row.parent for row in capabilities if row.detector is None}
    shares = {row.capability_id: row for row in decisive}
    groups: dict[str, list[Contrast]] = defaultdict(list)
    for row in sorted(contrasts, key=lambda row: (row.target, row.capability_id)):
        groups[row.target].append(row)
    decided: list[SelectedCapability] = []
    for target, own in groups.items():
        matrix = LabelMatrix.build(labels, triage, target, causes)
        same = duplicates(matrix, [row for row in capabilities if row.target == target])
        decided += select_matrix(
            *(own, matrix, section, names, detectors, shares),
            null=nulls.get(target),
            parents=parents,
            same_as=same,
            unread=unread,
        )
    return decided


def select_matrix(
    own: Sequence[Contrast],
    matrix: LabelMatrix,
    section: Selection,
    names: Mapping[str, str] = {},
    detectors: Mapping[str, str] = {},
    decisive: Mapping[str, DecisiveShare] = {},
    *,
    null: Callable[[float], Null] | None = None,
    parents: Mapping[str, str | None] = {},
    unread: Set[str] = frozenset(),
    same_as: Mapping[str, str] = {},
) -> list[SelectedCapability]:
    """Decide on the candidates of one target; see `select`.

    Args:
        own: One row a candidate.
        matrix: Labels beside outcomes that the rows were estimated from.
        section: Thresholds.
        names: Capability id to name; the id where none is given.
        detectors: Capability id to detector family, for prices.
        decisive: Capability id to what repairing it does, where that was measured.
        null: What shuffled outcomes come to, up to the p-value that it is called with; None keeps what passes
            the thresholds.
        parents: Capability id of what a model proposed to the broader one that it is a case of.
        unread: What passes the thresholds by labels that a person should read first, see `unread_labels`.
        same_as: Capability id of what is said twice to the one that stands for it, see `duplicates`.
    """
    twice = {row.capability_id for row in own} & same_as.keys()
    alone = [row for row in own if row.capability_id not in twice]
    costs = {
        row.capability_id: expected_cost(row, section, detectors.get(row.capability_id, "")) for row in own
    }
    chances: dict[str, float] = {}
    proven = {name for name, share in decisive.items() if is_proven(share, section)}
    standing = [row for row in alone if stands_alone(row, section)]
    by_chance: Null | None = None
    hopeful = any(is_evident(row) and is_promising(row, section) for row in alone)
    if (standing or hopeful) and null is not None and section.max_chance < 1:
        p_values = {row.capability_id: row.p_value for row in standing if row.p_value is not None}
        by_chance = null(max(p_values.values(), default=0.0))
        chances = {capability: by_chance.share(value) for capability, value in p_values.items()}
    rejected = {
        row.capability_id: reason
        for row in alone
        if (
            reason := shortcoming(
                row, section, chances.get(row.capability_id), proven=row.capability_id in proven
            )
        )
    }
    no_cause = {
        row.capability_id: reason
        for row in own
        if (reason := indecisive(decisive.get(row.capability_id), section))
    }
    for name, reason in no_cause.items():
        rejected[name] = f"{rejected[name]}; {reason}" if name in rejected else reason
    rejected |= {name: said_twice(matrix, name, same_as[name], names) for name in twice}
    waiting = unread - rejected.keys() - proven
    rejected |= {row.capability_id: unread_words(row) for row in own if row.capability_id in waiting}
    passing = [row for row in own if row.capability_id not in rejected]
    lucky = [row for row in passing if row.capability_id not in proven]
    if chances and len(lucky) == len(passing) and (reason := luck(lucky, chances, section)):
        rejected |= {row.capability_id: reason for row in passing}
        passing = []
    outcome = {row.capability_id for row in passing if row.capability_id in parents and restates_outcome(row)}
    taken = Cover(passing, matrix, names, costs, section, proven, parents, outcome - proven).take()
    for name in proven & set(taken.order):
        if shortcoming(contrast := next(row for row in own if row.capability_id == name), section):
            kept, marginal, words = taken.verdicts[name]
            shown = f"{decisive_words(decisive[name])}, placebo {placebo_words(decisive[name])}"
            words += f"; kept with {contrast.n_passed_relevant} relevant successes"
            words += f", for repairing it alone lets failed runs pass: {shown}"
            taken.verdicts[name] = (kept, marginal, words)
    for row in own:
        if row.capability_id in rejected:
            taken.verdicts[row.capability_id] = (False, None, rejected[row.capability_id])
    rest = sorted(
        (row for row in own if row.capability_id not in taken.order),
        key=lambda row: (-(row.coverage or 0.0), row.capability_id),
    )
    targets = {row.capability_id: row.target for row in own}
    decided = []
    asked = {row.capability_id: overriding(row.capability_id, names, section) for row in rest}
    rest.sort(key=lambda row: not asked[row.capability_id])
    order = [*taken.order, *(row.capability_id for row in rest)]
    rows = {row.capability_id: row for row in own}
    promises = {
        name: found
        for name in rejected.keys() - no_cause.keys() - twice
        if (found := promise(rows[name], matrix, section, by_chance)) is not None
    }
    narrower = narrower_ones(own, matrix, section, taken.order, promises)
    for rank, capability in enumerate(order, start=1):
        kept, marginal, reason = taken.verdicts[capability]
        override = asked.get(capability, "")
        chance = chances.get(capability)
        verdict: Decision = "kept" if kept else "override" if override else "rejected"
        more = trials = None
        cases = [one for one in taken.order if parents.get(one) == capability]
        if kept:
            reason = with_narrower(reason, narrower.get(capability, ()), names)
        elif override:
            reason = f"kept by override, not found ({override}): {reason}"
        elif capability in twice:
            verdict = "said twice"
        elif cases:
            verdict = "cases kept"
            said = "its case {} is" if len(cases) == 1 else "its cases {} are"
            reason = f"{said.format(quoted(cases, names))} kept; {reason}"
        elif capability in waiting:
            verdict, reason = "promising", f"promising: {reason}"
        elif capability in promises:
            found, row = promises[capability], rows[capability]
            verdict = found.verdict
            if verdict == "seen once":
                reason = f"seen once: {seen_once(matrix, row)}; so far {reason}"
            elif found.by_one is not None:
                reason = f"promising: {found.by_one}; over all policies {reason}"
            else:
                more, trials = more_tasks(row, section, chance), more_trials(row, section, chance)
                words = what_decides(row, section, more, trials)
                if verdict == "undecided":
                    words = f"{chance_words(row, found)}; {words}"
                reason = f"{verdict}: {words}; {possibly_decided(matrix, row)}so far {reason}"
                chance = chance if found.chance is None else found.chance
        decided.append(
            SelectedCapability(
                capability_id=capability,
                target=targets[capability],
                name=names.get(capability, capability),
                kept=kept or bool(override),
                rank=rank,
                reason=reason,
                verdict=verdict,
                same_as=same_as[capability] if verdict == "said twice" else "",
                overridden_by=override,
                chance=chance,
                more_tasks=more,
                more_trials=trials,
                marginal_coverage=marginal,
                expected_cost=costs[capability],
            )
        )
    return decided


def overriding(capability: str, names: Mapping[str, str], section: Selection) -> str:
    """Return why a person has a capability kept, named by id or by name; empty where nobody does."""
    told = {capability, names.get(capability, capability)}
    return next((reason for name, reason in section.overrides.items() if name in told), "")


def luck(passing: Sequence[Contrast], chances: Mapping[str, float], section: Selection) -> str:
    """Return why nothing is kept although some pass: shuffled outcomes show as much too often; else empty."""
    least = min((chances[row.capability_id] for row in passing), default=0.0)
    if least <= section.max_chance:
        return ""
    return (
        f"with outcomes shuffled something at least as clear is found in {100 * least:.1f} % of studies, "
        f"{100 * section.max_chance:g} % at most are asked for"
    )


def expected_cost(row: Contrast, section: Selection, detector: str = "") -> float:
    """Return what teaching a capability is expected to cost, in units of one training.

    The price of a training, from `selection.prices` by capability or detector, 1 unless given. With
    `selection.cost = "signal"` it is divided by the share of groups that carry a gradient, 1 - p^K - (1-p)^K
    for groups of K rollouts that each succeed with p: groups that all fail or all pass teach nothing (see
    GRPO's advantage), so a capability that is never exercised takes more rollouts. p is the share of relevant
    trajectories that exercise it, which is what the agent will do in its environment at first; it is kept
    within 1 / (2 n) of 0 and 1.

    >>> from trace_assets.settings import Selection
    >>> row = Contrast.model_construct(capability_id="c", n_failed_relevant=50, n_passed_relevant=50,
    ...                                n_failed_lacking=45, n_passed_lacking=0)
    >>> expected_cost(row, Selection()), round(expected_cost(row, Selection(cost="signal")), 2)
    (1.0, 1.01)
    """
    price = section.prices.get(row.capability_id, section.prices.get(detector, 1.0))
    if section.cost == "equal":
        return price
    relevant = row.n_failed_relevant + row.n_passed_relevant
    if relevant == 0:
        return price
    lacking = row.n_failed_lacking + row.n_passed_lacking
    p = min(max(1 - lacking / relevant, 0.5 / relevant), 1 - 0.5 / relevant)
    k = section.cost_group_size
    return price / float(1 - p**k - (1 - p) ** k)

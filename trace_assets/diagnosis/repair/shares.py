"""How often repairing a capability alone lets a failed run pass: the decisive share, beside its placebo's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from trace_assets.diagnosis.label_matrix import LACKING, LabelMatrix
from trace_assets.records import DecisiveShare, Repair
from trace_assets.settings import Selection
from trace_assets.stats.intervals import Estimate, ratio, resample

RESAMPLES, SEED = 1000, 0
"""Of the bootstrap over tasks behind each interval, at 95 %."""
OF_OTHERS = (
    "not measured: its runs are of another target than the live one, and nothing here can play them again"
)
NOT_YET = "not measured: no failed run was replayed yet; `trace sync` replays those that were played here"
NOBODY = "not measured: no failed run lacks it"


def decisive_shares(
    matrix: LabelMatrix, repairs: Iterable[Repair], target: str, *, live: bool
) -> list[DecisiveShare]:
    """Return the decisive share of every candidate of one target.

    Only runs count that are the agent's failures and lack the capability by the labels as they are now: what
    was replayed for another label is left aside. Runs that could not be repaired or replayed enter no share.

    Args:
        matrix: Labels beside outcomes.
        repairs: Of any targets.
        target: Whose candidates these are.
        live: Whether the target is the live one.
    """
    rows = {(row.capability_id, row.trajectory_id): row for row in repairs if row.target == target}
    names = np.array(matrix.trajectories, dtype=object)
    shares = []
    for place, capability in enumerate(matrix.capabilities):
        lacking = names[(matrix.codes[place] == LACKING) & matrix.failed]
        own = [row for name in lacking if (row := rows.get((capability, str(name)))) is not None]
        shares.append(_share(capability, target, own, len(lacking), live))
    return shares


def _share(capability: str, target: str, own: Sequence[Repair], n_lacking: int, live: bool) -> DecisiveShare:
    tried = [row for row in own if row.reward_after is not None]
    controls = [row for row in tried if row.placebo_passed is not None]
    share = _rate(tried, lambda row: row.status == "decisive")
    placebo = _rate(controls, lambda row: bool(row.placebo_passed))
    why = ""
    if not tried:
        why = _why_not(own, n_lacking, live)
    return DecisiveShare(
        capability_id=capability,
        target=target,
        share=share.value,
        share_low=share.low,
        share_high=share.high,
        n_replayed=len(tried),
        n_decisive=sum(row.status == "decisive" for row in tried),
        n_tasks=len({row.task_id for row in tried}),
        placebo=placebo.value,
        placebo_low=placebo.low,
        placebo_high=placebo.high,
        n_placebo=len(controls),
        n_lacking=n_lacking,
        n_not_repairable=sum(row.status == "not repairable" for row in own),
        n_not_replayable=sum(row.status == "not replayable" for row in own),
        lower_bound=any(row.partial and row.status == "not decisive" for row in tried),
        not_measured=why,
    )


def _why_not(own: Sequence[Repair], n_lacking: int, live: bool) -> str:
    if n_lacking == 0:
        return NOBODY
    if not own:
        return NOT_YET if live else OF_OTHERS
    (reason, n), *_ = Counter(f"{row.status}: {row.detail}" for row in own).most_common(1)
    return f"not measured: {n} of {len(own)} failed runs are {reason}"


def _rate(rows: Sequence[Repair], counts: Callable[[Repair], bool]) -> Estimate:
    """Return a share over runs, with an interval from resampled tasks."""
    tasks: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        tasks[row.task_id][0] += counts(row)
        tasks[row.task_id][1] += 1
    table = np.array([tasks[name] for name in sorted(tasks)], dtype=np.float64).reshape(-1, 2)
    sums = resample(table, RESAMPLES, SEED)
    return ratio(table[:, 0], table[:, 1], sums[:, 0], sums[:, 1]).estimate()


def excess(share: DecisiveShare) -> float | None:
    """Return by how much a repair does more than its placebo; None where that is not measured.

    >>> share = DecisiveShare.model_construct(share=0.9, placebo=0.2)
    >>> round(excess(share), 3)
    0.7
    """
    return None if share.share is None else share.share - (share.placebo or 0.0)


def indecisive(share: DecisiveShare | None, section: Selection) -> str:
    """Return why a candidate is no cause of failures by what repairing it does; empty where it may be one.

    It is only said of a candidate that was repaired in `selection.min_relevant` runs or more, and whose
    repairs are whole: after a partial one, a run that fails all the same says little.
    """
    more = excess(share) if share is not None else None
    if share is None or more is None or share.lower_bound or share.n_replayed < section.min_relevant:
        return ""
    if more >= section.min_decisive:
        return ""
    return f"repairing it does not let failed runs pass: decisive share {decisive_words(share)}, " + (
        f"placebo {placebo_words(share)}, and {section.min_decisive:.2f} more than the placebo's is asked for"
    )


def is_proven(share: DecisiveShare | None, section: Selection) -> bool:
    """Whether an experiment shows that a candidate decides failures: repaired alone they pass, else not.

    Interval against interval: what repairs let pass begins above where their placebos' end, by at least
    `selection.min_decisive` between the shares themselves, on `selection.min_relevant` runs of either kind.
    """
    if share is None or share.share_low is None or share.placebo_high is None:
        return False
    enough = min(share.n_replayed, share.n_placebo) >= section.min_relevant
    return enough and share.share_low > share.placebo_high and (excess(share) or 0) >= section.min_decisive


def decisive_words(share: DecisiveShare | None) -> str:
    """Write a decisive share with its interval and n, or why there is none.

    >>> share = DecisiveShare.model_construct(share=0.9, share_low=0.8, share_high=0.95, n_replayed=40,
    ...                                       n_decisive=36, lower_bound=False, not_measured="")
    >>> decisive_words(share), decisive_words(None)
    ('0.90 [0.80, 0.95] of 40', 'not measured')
    """
    if share is None or share.share is None:
        return share.not_measured if share is not None and share.not_measured else "not measured"
    least = "at least " if share.lower_bound else ""
    return f"{least}{_interval(share.share, share.share_low, share.share_high)} of {share.n_replayed}"


def placebo_words(share: DecisiveShare | None) -> str:
    """Write the placebo's share with its interval and n; `not measured` where there was none."""
    if share is None or share.placebo is None:
        return "not measured"
    return f"{_interval(share.placebo, share.placebo_low, share.placebo_high)} of {share.n_placebo}"


def _interval(value: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"{value:.2f} [no interval: one task]"
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"

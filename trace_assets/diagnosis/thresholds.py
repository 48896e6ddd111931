"""Thresholds: does a candidate stand, or in one policy's runs alone, and how much more would decide?"""

from __future__ import annotations

from math import ceil, exp
from statistics import NormalDist
from typing import NamedTuple

from trace_assets.diagnosis.contrast import TESTABLE
from trace_assets.diagnosis.label_matrix import LACKING, PRESENT, LabelMatrix
from trace_assets.records import Contrast
from trace_assets.settings import Selection
from trace_assets.stats.tests import at_least

FEW = 5
"""Relevant runs on one side that are enough where chance shows nothing as clear: with fewer, one wrong label
moves the gap by a quarter or more."""


def fewest(section: Selection) -> int:
    """Return how many relevant runs a side must have at least, however clear they are.

    >>> fewest(Selection()), fewest(Selection(min_relevant=3))
    (5, 3)
    """
    return min(FEW, section.min_relevant)


def shortcoming(
    row: Contrast, section: Selection, chance: float | None = None, *, proven: bool = False
) -> str:
    """Return why a candidate fails on its own, all reasons with their figures; empty when it passes.

    Where tasks need several lacking skills at once hardly any run that needed one of them passes, however
    many are played. Then `FEW` relevant runs on one side are enough, if what they show is found by chance
    hardly ever: not one of a hundred studies with shuffled outcomes has anything as clear.

    Args:
        row: Its figures.
        section: Thresholds.
        chance: In which share of studies with shuffled outcomes anything as clear is found, where known.
            Where that is rare enough q may be above its limit: then not one of a hundred such studies would
            show anything like it, whatever was looked at.
        proven: Whether an experiment shows that it decides (`is_proven`): then neither successes that needed
            it nor a test of the gap are asked for, which would tell the same from afar. A gap that fewer
            than `FEW` of them show does not count against it either.
    """
    rare = proven or (chance is not None and chance <= section.max_chance)
    apart = proven and row.n_passed_relevant < fewest(section)
    if row.coverage is None or (row.gap is None and not apart):
        return (
            f"gap undefined: relevant to {row.n_failed_relevant} of {row.n_failed} failures and "
            f"{row.n_passed_relevant} of {row.n_passed} successes"
        )
    reasons = []
    for one, many, n in (
        ("failure", "failures", row.n_failed_relevant),
        ("success", "successes", row.n_passed_relevant),
    ):
        if n < (fewest(section) if rare else section.min_relevant) and not (proven and one == "success"):
            reasons.append(f"only {n} relevant {one if n == 1 else many}, {section.min_relevant} are needed")
    wide = 0.0 if row.gap is None else row.gap
    gap = interval_words(wide, row.gap_low, row.gap_high)
    if apart:
        pass
    elif wide < section.min_gap:
        reasons.append(f"gap {gap} is below {section.min_gap:.2f}")
    elif row.gap_low is None or row.gap_low < section.min_gap_low:
        reasons.append(f"the lower bound of the gap {gap} is below {section.min_gap_low:.2f}")
    if len(row.policies) > 1 and wide >= section.min_gap and not apart:
        within = interval_words(row.policy_gap or 0.0, row.policy_gap_low, row.policy_gap_high)
        if (row.policy_gap or 0.0) < section.min_gap:
            reasons.append(
                f"within policies the gap {within} is below {section.min_gap:.2f}: it is rather one policy "
                "against another"
            )
    coverage = interval_words(row.coverage, row.coverage_low, row.coverage_high)
    if row.coverage < section.min_coverage:
        reasons.append(f"coverage {coverage} is below {section.min_coverage:.2f}")
    elif row.coverage_low is None or row.coverage_low < section.min_coverage_low:
        reasons.append(f"the lower bound of the coverage {coverage} is below {section.min_coverage_low:.2f}")
    if rare:
        pass
    elif row.q_value is None:
        reasons.append(f"not tested: fewer than {TESTABLE} relevant on one side")
    elif row.q_value > section.max_q:
        reasons.append(
            f"q value {row.q_value:.3f} is above {section.max_q:.2f} (p {row.p_value:.3f}, "
            f"{row.n_considered or 1} considered)"
        )
    if row.alpha is not None and row.alpha < section.min_alpha and not section.override_agreement:
        alpha = interval_words(row.alpha, row.alpha_low, row.alpha_high)
        reasons.append(f"labels agree to alpha {alpha} only, {section.min_alpha:.2f} is needed")
    if wide >= section.min_gap and not apart and _difficulty(row, section):
        varying = interval_words(row.varying_gap or 0.0, row.varying_gap_low, row.varying_gap_high)
        reasons.append(
            f"in the {row.n_varying_tasks} tasks with runs that lack it and runs that do not, the former do "
            f"not fail more often (gap {varying}): hard tasks are behind the gap, not the lack"
        )
    return "; ".join(reasons)


EVERY = 0.9
"""Share of all failures from which a lack that no success shows tells that runs failed, and not why."""


def restates_outcome(row: Contrast) -> bool:
    """Tell whether a habit is lacking in nearly every failure and in no success, though most needed it.

    "Go on until the user's aim is reached" is lacking just where it was not reached. Such a habit covers the
    failures of every cause, so that none of these would be taken beside it, and teaches none of them. What
    only some tasks need is no such habit, however clear it is there.

    >>> row = Contrast.model_construct(er_passed=0.0, n_failed=17, n_failed_lacking=17, n_passed=20,
    ...                                n_passed_relevant=19)
    >>> restates_outcome(row), restates_outcome(row.model_copy(update={"n_passed_relevant": 6}))
    (True, False)
    """
    most = 2 * row.n_passed_relevant >= row.n_passed and row.n_passed_relevant >= FEW
    return row.er_passed == 0 and most and row.n_failed_lacking >= max(FEW, EVERY * row.n_failed)


def stands_alone(row: Contrast, section: Selection) -> bool:
    """Tell whether a candidate passes all thresholds but those on chance: q, or the share by chance."""
    return row.p_value is not None and not shortcoming(row, section, chance=0.0)


def is_promising(row: Contrast, section: Selection) -> bool:
    """Tell whether a candidate that fails on its own may do so for too little data alone.

    Gap and coverage are what is asked for, labels agree, and runs of the same tasks do not speak against it.
    """
    if row.gap is None or row.coverage is None:
        return False
    agreed = row.alpha is None or row.alpha >= section.min_alpha or section.override_agreement
    wide = row.gap >= section.min_gap and row.coverage >= section.min_coverage
    return wide and agreed and not _difficulty(row, section) and not _policies(row, section)


EVIDENCE = 3.0
"""How many times likelier what was seen must be under the gap that fits it best than under none, before it is
called promising: below it chance is nearly as good an explanation."""


def is_evident(row: Contrast) -> bool:
    """Tell whether the gap of a candidate is evidence for a lack, were it the only candidate.

    exp(z^2 / 2) is the largest likelihood ratio that a test of so many standard deviations allows (Edwards,
    Lindman and Savage 1963, "Bayesian statistical inference for psychological research", Psychological Review
    70:193). `EVIDENCE` is reached from a p-value of 0.069 on.

    >>> [is_evident(Contrast.model_construct(p_value=p)) for p in (None, 0.5, 0.07, 0.069)]
    [False, False, False, True]
    """
    if row.p_value is None or row.p_value >= 0.5:
        return False
    z = -NormalDist().inv_cdf(max(row.p_value, _SMALLEST_P))
    return exp(min(z * z / 2, 700.0)) >= EVIDENCE


def more_tasks(row: Contrast, section: Selection, chance: float | None = None) -> int | None:
    """Return about how many more tasks would let a promising candidate be kept, if its figures stay.

    Half-widths of intervals, and the z value of the test, go with the root of the number of tasks. None
    where there is no interval to go by, where fewer than `fewest` runs of a side need it, or where nothing is
    gained.

    Args:
        row: Its figures.
        section: Thresholds.
        chance: In which share of studies with shuffled outcomes something as clear is found, where known.

    >>> from trace_assets.settings import Selection
    >>> row = Contrast.model_construct(gap=0.4, gap_low=-0.1, coverage=0.3, coverage_low=0.2, q_value=0.2,
    ...                                p_value=0.1, n_failed_relevant=20, n_passed_relevant=8, n_tasks=40)
    >>> more_tasks(row, Selection())
    35
    """
    factor = _missing(row, section, chance)
    if factor is None:
        return None
    more = ceil(row.n_tasks * (max(factor) - 1) - 1e-9)
    return more if more > 0 else None


_SMALLEST_P = 1e-300
RHO = 0.5
"""Correlation of the trials of one task where each was tried once, so that nothing shows it: half of what
one sees is taken for the task's doing."""


def more_trials(row: Contrast, section: Selection, chance: float | None = None) -> int | None:
    """Return about how many more trials of each of the same tasks would let a promising candidate be kept.

    Trials of one task resemble one another: m of them are worth m / (1 + (m - 1) rho) tasks' first ones
    (Kish 1965, "Survey Sampling", the design effect), so that beyond 1 / rho nothing helps. rho is
    read off the interval of the gap, which resamples tasks, beside what independent runs would have; with one
    trial a task it cannot be, and is taken to be `RHO`.

    Args:
        row: Its figures.
        section: Thresholds.
        chance: See `more_tasks`.

    Returns:
        Trials a task beyond those there are; None where no number of them would do, or nobody can say.

    >>> from trace_assets.settings import Selection
    >>> common = {"gap": 0.4, "coverage": 0.3, "coverage_low": 0.2, "q_value": 0.01, "p_value": 0.001,
    ...           "n_failed_relevant": 20, "n_passed_relevant": 20, "n_tasks": 40, "n_failed": 20,
    ...           "n_passed": 20, "n_failed_lacking": 12, "n_passed_lacking": 4}
    >>> more_trials(Contrast.model_construct(**common, gap_low=-0.1, gap_high=0.9), Selection())
    3
    >>> more_trials(Contrast.model_construct(**common, gap_low=-0.7, gap_high=1.0), Selection()) is None
    True
    """
    factors = _missing(row, section, chance)
    if factors is None or not row.n_tasks:
        return None
    counted, width = factors
    trials = max((row.n_failed + row.n_passed) / row.n_tasks, 1.0)
    rho = _alike(row, trials)
    wanted = trials * counted
    if width > 1:
        left = (1 + (trials - 1) * rho) / (trials * width)
        if left <= rho:
            return None
        wanted = max(wanted, (1 - rho) / (left - rho))
    more = ceil(wanted - trials - 1e-9)
    return more if more > 0 else None


def _missing(row: Contrast, section: Selection, chance: float | None) -> tuple[float, float] | None:
    """Return by which factors runs and information fall short; None where nobody can say.

    The first is of relevant runs, the second of what intervals and the test rest on.
    """
    relevant = (row.n_failed_relevant, row.n_passed_relevant)
    counted = max(section.min_relevant / max(n, 1) for n in relevant)
    if min(relevant) < fewest(section):  # how often a run like these needs it is not read off two or three
        return None
    if row.gap_low is None or row.coverage_low is None or row.gap is None or row.coverage is None:
        return None
    width = 1.0
    for value, low, least in (
        (row.gap, row.gap_low, section.min_gap_low),
        (row.coverage, row.coverage_low, section.min_coverage_low),
    ):
        if low < least:
            if value <= least:
                return None
            width = max(width, ((value - low) / (value - least)) ** 2)
    # By how much q (or the share by chance) is too large, p is too: what it is corrected for stays.
    found, most = (row.q_value, section.max_q) if chance is None else (chance, section.max_chance)
    if row.p_value is not None and found is not None and found > most:
        # Of the lower tail: one less a very small p is 1, which has no quantile.
        z, needed = (
            -NormalDist().inv_cdf(min(max(p, _SMALLEST_P), 0.999) / 2)
            for p in (row.p_value, row.p_value * most / found)
        )
        width = max(width, (needed / z) ** 2)
    return counted, width


def _alike(row: Contrast, trials: float) -> float:
    """Return how alike the trials of one task are, between 0 and 1."""
    sides = ((row.n_failed_lacking, row.n_failed_relevant), (row.n_passed_lacking, row.n_passed_relevant))
    alone = sum(lacking * (n - lacking) / n**3 for lacking, n in sides if n)
    if trials < MIN_TRIALS or not alone or row.gap_low is None or row.gap_high is None:
        return RHO
    seen = ((row.gap_high - row.gap_low) / (2 * NormalDist().inv_cdf(0.975))) ** 2
    return min(max((seen / alone - 1) / (trials - 1), 0.0), 1.0)


MIN_TRIALS = 1.5
"""Trials a task, on average, from which intervals show how alike they are."""


def _policies(row: Contrast, section: Selection) -> bool:
    """Whether policies compared with themselves show no such gap, on enough runs to tell."""
    enough = min(row.n_failed_relevant, row.n_passed_relevant) >= section.min_relevant
    return enough and len(row.policies) > 1 and (row.policy_gap or 0.0) < section.min_gap


def _difficulty(row: Contrast, section: Selection) -> bool:
    """Whether runs of the same tasks say that the lack costs nothing, on enough tasks to tell."""
    return (
        row.n_varying_tasks >= section.min_varying_tasks
        and row.varying_gap_high is not None
        and row.varying_gap_high < section.min_gap
    )


def interval_words(value: float, low: float | None, high: float | None) -> str:
    """Write a figure with its interval.

    >>> interval_words(0.5, 0.25, 0.75), interval_words(1.0, None, None)
    ('0.50 [0.25, 0.75]', '1.00 [no interval: one task]')
    """
    if low is None or high is None:
        return f"{value:.2f} [no interval: one task]"
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


CHANCE = 0.05
"""Chance that a policy's lacks fall on its failures so, over all policies, below which it is worth a look."""
FEWEST = 3
"""Failures of the policy that must lack it."""


class Alone(NamedTuple):
    """The figures of one policy's own runs."""

    policy: str
    gap: float
    coverage: float
    chance: float
    lacking: int
    failed: int

    def __str__(self) -> str:
        return (
            f"in the runs of '{self.policy}' alone the gap is {self.gap:.2f} and it is lacking in "
            f"{self.lacking} of {self.failed} failures (chance {self.chance:.3g}): diagnose it by itself"
        )


def alone(matrix: LabelMatrix, capability: str, section: Selection) -> Alone | None:
    """Return the policy whose own runs show the gap and the coverage that are asked for, the clearest one.

    Args:
        matrix: Labels beside outcomes, of several policies.
        capability: Which row.
        section: Thresholds.
    """
    if matrix.policy is None:
        return None
    codes = matrix.codes[matrix.capabilities.index(capability)]
    found: list[Alone] = []
    for number, policy in enumerate(matrix.policies):
        own = matrix.policy == number
        failed, passed = own & matrix.failed, own & ~matrix.failed
        bad, good = (int((codes[side] == LACKING).sum()) for side in (failed, passed))
        n_bad = bad + int((codes[failed] == PRESENT).sum())
        n_good = good + int((codes[passed] == PRESENT).sum())
        if bad < FEWEST or min(n_bad, n_good) < TESTABLE:
            continue
        gap, coverage = bad / n_bad - good / n_good, bad / int(failed.sum())
        chance = min(1.0, len(matrix.policies) * at_least(bad, n_bad, good, n_good))
        if gap >= section.min_gap and coverage >= section.min_coverage and chance <= CHANCE:
            found.append(Alone(policy, gap, coverage, chance, bad, int(failed.sum())))
    return min(found, key=lambda one: (one.chance, one.policy), default=None)


LESS_OFTEN = 0.5
"""Of the share of failures among the runs that show a capability, the share of those that lack it at which
lacking it explains no failure."""


HARDLY_MORE = 1.25
"""The same share from which what a run lacks nearly alone explains it rather."""


def speaks_against(row: Contrast, share: float = LESS_OFTEN) -> bool:
    """Tell whether runs that lack a capability fail so seldom that lacking it explains none.

    >>> from types import SimpleNamespace as Row
    >>> few = {"n_failed_lacking": 1, "n_passed_lacking": 4, "n_failed_relevant": 13, "n_passed_relevant": 17}
    >>> speaks_against(Row(**few)), speaks_against(Row(**few | {"n_failed_lacking": 4}))
    (True, False)
    """
    lacking = row.n_failed_lacking + row.n_passed_lacking
    failed = row.n_failed_relevant - row.n_failed_lacking
    shown = failed + row.n_passed_relevant - row.n_passed_lacking
    if not row.n_passed_lacking or not shown:
        return False
    return row.n_failed_lacking / lacking <= share * failed / shown

"""What a tournament shows: arms, comparisons, costs and whether predictions held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import polars as pl

from trace_assets.tournament.arms import ARMS
from trace_assets.tournament.plan import Comparison, Plan, Prediction, Registered, read_plan, registered
from trace_assets.tournament.results import (
    COSTS,
    RESULTS,
    Cost,
    TaskResult,
    in_words,
    mean_spending,
    read_rows,
    read_spending,
    stand_ins,
    with_stand_ins,
)
from trace_assets.tournament.run import Entry, is_finished, read_entries, world_home
from trace_assets.tournament.worlds import Across, Verdict, across, holm, tie_p_value, verdict, worlds_for

EQUAL = 0.02
"""Budgets that differ by a smaller share count as equal."""
TAUGHT = "adapter"
"""The asset that trains one adapter a capability; its training rollouts are to be equal to the rival's."""
DIRECT = "mixed_adapter"


@dataclass(frozen=True)
class ArmScore:
    """One arm over the worlds that it was played in.

    Attributes:
        arm: Its name.
        rate: Mean over worlds of its pass rate, with a t interval over worlds.
        worlds: In how many it was played.
        tasks: Judged tasks over all of them.
        not_played: Worlds in which it does not apply, such as a router without a choice: no rate of 0.
    """

    arm: str
    rate: Across
    worlds: int
    tasks: int
    not_played: int


@dataclass(frozen=True)
class Shown:
    """What is shown of one comparison.

    Attributes:
        comparison: What against what.
        found: The difference over worlds.
        by_world: World to its own difference.
        adjusted_p: After Holm over the primary ones; None for a secondary one.
        tie_p: Of the two one-sided tests, after Holm where primary; None with fewer than two worlds.
        verdict: Of a primary comparison; None for a secondary one, and before all worlds are played.
        more_worlds: How many worlds would show the difference that was found, where it is undecided.
    """

    comparison: Comparison
    found: Across
    by_world: dict[int, float]
    adjusted_p: float | None
    tie_p: float | None
    verdict: Verdict | None
    more_worlds: int | None


@dataclass(frozen=True)
class Score:
    """All of it.

    Attributes:
        plan: What was registered.
        register: When, and what was changed since.
        finished: Worlds that are there.
        arms: Best first, ours among them.
        primary: As in the plan.
        secondary: Likewise.
        costs: One row an asset and kind: mean over worlds.
        spending: One row an arm and kind: mean over worlds; see `mean_spending`.
        unequal: What breaks the rule of equal training rollouts, in words by world.
        defined: Arms that were not played in a world because they are another one there, in words.
        other_plans: Worlds whose results were made under an earlier plan.
        entries: What became of the plan's own arms; those still to be played are not among them.
        confidence: Level of the intervals of comparisons; with a look on the way that of the last one.
        stopped: Whether the plan's look ended the study before its last world.
    """

    plan: Plan
    register: Sequence[Registered]
    finished: tuple[int, ...]
    arms: Sequence[ArmScore]
    primary: Sequence[Shown]
    secondary: Sequence[Shown]
    costs: pl.DataFrame
    spending: pl.DataFrame
    unequal: Sequence[str]
    defined: Sequence[str]
    other_plans: Sequence[int]
    entries: Sequence[Entry]
    confidence: float = 0.95
    stopped: bool = False

    @property
    def is_due(self) -> bool:
        """Whether all worlds are played, or a look has ended the study: before that no figure is shown."""
        return self.stopped or {world.number for world in self.plan.worlds} <= set(self.finished)

    @property
    def waiting(self) -> dict[str, int]:
        """The plan's own arms that are still to be played, each with in how many worlds; none is shown."""
        return waiting(self.plan, self.entries, self.finished)

    def held(self, prediction: Prediction) -> bool | None:
        """Say whether a prediction held; None where its comparison has no verdict."""
        found = next((one for one in self.primary if one.comparison.name == prediction.comparison), None)
        if found is None or found.verdict in (None, "undecided"):
            return None
        return found.verdict == prediction.says


def score(folder: Path) -> Score:
    """Score what is finished.

    Raises:
        InputError: There is no registered plan, or a file of results was altered.
    """
    plan = read_plan(folder)
    wanted = {world.number for world in plan.worlds}
    rows = read_rows(folder, RESULTS, TaskResult).filter(pl.col("world").is_in(list(wanted)))
    costs = read_rows(folder, COSTS, Cost).filter(pl.col("world").is_in(list(wanted)))
    finished = tuple(sorted(number for number in wanted if is_finished(folder, number)))
    entries = read_entries(folder, plan)
    unfinished = set(waiting(plan, entries, finished)) | (set(ARMS) - set(plan.arms))
    rows = rows.filter(pl.col("world").is_in(list(finished)) & ~pl.col("arm").is_in(list(unfinished)))
    compared = {arm for one in (*plan.primary, *plan.looked_at) for arm in (one.arm, one.rival)}
    trained = costs.filter((pl.col("asset") == TAUGHT) & (pl.col("kind") == "rollouts"))["world"].to_list()
    standing = stand_ins(set(rows.select("world", "arm").iter_rows()), compared - set(ARMS), trained)
    rows = with_stand_ins(rows, standing)
    stopped = has_decided(plan, rows, finished)
    if stopped:
        finished = tuple(sorted(wanted))[: plan.look]
        rows = rows.filter(pl.col("world").is_in(list(finished)))
    confidence = level_of_intervals(plan, len(finished))
    standing = {place: arm for place, arm in standing.items() if place[0] in finished}
    played = sorted(set(rows.select("world", "arm").iter_rows()))
    homes = {number: world_home(folder, number) / "home" for number in finished}
    due = stopped or wanted <= set(finished)
    differences = {one.name: by_world(rows, one) for one in (*plan.primary, *plan.looked_at)}
    found = {name: across(list(values.values()), confidence) for name, values in differences.items()}
    adjusted = holm(p_values(plan, rows, len(finished)))
    ties = {name: tie_p_value(list(values.values()), plan.margin) for name, values in differences.items()}
    adjusted_ties = holm({one.name: ties[one.name] for one in plan.primary})

    spending = with_stand_ins(read_spending(folder, homes, played), standing).unique(
        ["world", "arm", "kind"], keep="last", maintain_order=True
    )

    def shown(one: Comparison, *, primary: bool) -> Shown:
        name = one.name
        said: Verdict | None = None
        if primary and due:
            said = verdict(found[name], adjusted[name], adjusted_ties[name], plan.margin, plan.alpha)
        return Shown(
            comparison=one,
            found=found[name],
            by_world=differences[name],
            adjusted_p=adjusted.get(name),
            tie_p=adjusted_ties.get(name, ties[name]),
            verdict=said,
            more_worlds=_more(found[name], plan) if said == "undecided" else None,
        )

    return Score(
        plan=plan,
        register=registered(folder),
        finished=finished,
        arms=arm_scores(rows, finished),
        primary=[shown(one, primary=True) for one in plan.primary],
        secondary=[shown(one, primary=False) for one in plan.looked_at],
        costs=_mean_costs(costs),
        spending=mean_spending(spending, played),
        unequal=unequal_budgets(costs, spending, plan.primary[0].arm),
        defined=in_words(standing),
        other_plans=sorted(set(rows.filter(pl.col("plan") != plan.loop_fingerprint)["world"].to_list())),
        entries=entries,
        confidence=confidence,
        stopped=stopped,
    )


def p_values(plan: Plan, rows: pl.DataFrame, played: int) -> dict[str, float | None]:
    """Return the p-value of each primary comparison; with a look on the way, one that counts both looks.

    Args:
        plan: In force.
        rows: Columns of `TaskResult`, of the worlds that are looked at.
        played: How many worlds these are.
    """
    found: dict[str, float | None] = {}
    for one in plan.primary:
        values = by_world(rows, one)
        p = across(list(values.values())).p
        if plan.look is not None:
            share = plan.look / len(plan.worlds)
            early = across([value for world, value in values.items() if world <= plan.look]).p
            both = [sequential_p(early, share, share)]
            both += [sequential_p(p, 1.0, share)] if played > plan.look else []
            p = min((value for value in both if value is not None), default=None)
        found[one.name] = p
    return found


def has_decided(plan: Plan, rows: pl.DataFrame, finished: Collection[int]) -> bool:
    """Whether the look on the way ends the study: every primary comparison shows a difference there.

    Args:
        plan: In force.
        rows: Columns of `TaskResult`.
        finished: Worlds that are there; the look is not taken again once more of them are than it needs.
    """
    if plan.look is None or set(finished) != set(range(1, plan.look + 1)):
        return False
    adjusted = holm(p_values(plan, rows, plan.look))
    return all(p is not None and p < plan.alpha for p in adjusted.values())


def level_of_intervals(plan: Plan, played: int) -> float:
    """Return the level at which intervals of comparisons are told: 95 %, over both looks where there are two.

    Args:
        plan: In force.
        played: Worlds that are looked at.
    """
    if plan.look is None or played < plan.look:
        return 0.95
    share = plan.look / len(plan.worlds)
    return 1.0 - level_at(0.05, share if played == plan.look else 1.0, share)


def waiting(plan: Plan, entries: Sequence[Entry], finished: Collection[int]) -> dict[str, int]:
    """Return the plan's own arms that are still to be played, each with in how many finished worlds."""
    played = Counter(entry.arm for entry in entries if entry.world in finished)
    left = {arm: len(finished) - played[arm] for arm in plan.arms}
    return {arm: worlds for arm, worlds in left.items() if worlds}


def by_world(rows: pl.DataFrame, one: Comparison) -> dict[int, float]:
    """Return the paired difference of two arms in each world that has both.

    Every task weighs the same; tasks without a judged trial under either arm are left out of both.

    Args:
        rows: Columns of `TaskResult`.
        one: The two arms.
    """
    judged = _judged(rows)
    keys = ["world", "task_id"]
    ours = judged.filter(pl.col("arm") == one.arm).select(*keys, ours="rate")
    theirs = judged.filter(pl.col("arm") == one.rival).select(*keys, theirs="rate")
    both = ours.join(theirs, on=keys).group_by("world").agg(d=(pl.col("ours") - pl.col("theirs")).mean())
    return {row["world"]: row["d"] for row in both.sort("world").iter_rows(named=True)}


def arm_scores(rows: pl.DataFrame, finished: Sequence[int]) -> list[ArmScore]:
    """Return every arm that was played, the best first."""
    worlds = _judged(rows).group_by("arm", "world").agg(rate=pl.col("rate").mean(), tasks=pl.len())
    scores = []
    for (name,), own in worlds.sort("arm", "world").group_by(["arm"], maintain_order=True):
        scores.append(
            ArmScore(
                arm=str(name),
                rate=across(own["rate"].to_list()),
                worlds=own.height,
                tasks=int(own["tasks"].sum()),
                not_played=len(finished) - own.height,
            )
        )
    return sorted(scores, key=lambda one: -(one.rate.mean or 0.0))


def _judged(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the tasks with a judged trial, and the share of these that passed."""
    return rows.filter(pl.col("judged") > 0).with_columns(rate=pl.col("passed") / pl.col("judged"))


def unequal_budgets(costs: pl.DataFrame, spending: pl.DataFrame, ours: str) -> list[str]:
    """Say in which worlds the adapters of our arm and direct GRPO used unequal training rollouts.

    Args:
        costs: Columns of `Cost`: what the adapters took, where an arm's spending is not known.
        spending: Columns of `Spent`.
        ours: Our arm; what joins its adapters counts.
    """
    rollouts = costs.filter(pl.col("kind") == "rollouts")
    training = spending.filter((pl.col("kind") == "training") & (pl.col("arm") == ours))
    known = dict(training.select("world", "marginal").drop_nulls().iter_rows())
    words = []
    for (world,), own in rollouts.sort("world").group_by(["world"], maintain_order=True):
        spent = {row["asset"]: row["quantity"] for row in own.iter_rows(named=True)}
        adapters, theirs = known.get(world, spent.get(TAUGHT, 0.0)), spent.get(DIRECT, 0.0)
        if theirs and abs(adapters - theirs) > EQUAL * max(adapters, theirs):
            why = "" if adapters else " (nothing was taught; what the settings give one skill)"
            words.append(f"world {world}: adapters {adapters:,.0f} rollouts, direct GRPO {theirs:,.0f}{why}")
    return words


def _mean_costs(costs: pl.DataFrame) -> pl.DataFrame:
    """Return what each asset takes in a world, on average over worlds; one that was not made there took 0."""
    worlds = max(1, costs["world"].n_unique())
    return (
        costs.group_by("asset", "kind", "unit")
        .agg(quantity=pl.col("quantity").sum() / worlds, cost_usd=pl.col("cost_usd").sum() / worlds)
        .sort("kind", "quantity", descending=[False, True])
    )


def _more(found: Across, plan: Plan) -> int | None:
    if found.mean is None or not found.sd:
        return None
    needed = worlds_for(abs(found.mean), found.sd, plan.alpha / len(plan.primary))
    return None if needed is None else max(0, needed - found.n)


# One look before the last world, at O'Brien and Fleming's boundaries (Biometrics 35, 1979): with z_k the
# statistic when a share t_k of the worlds is played, a look shows a difference where |z_k| sqrt(t_k) >= c,
# with one c for both looks such that either is so by chance as often as the level says. An early look has to
# be far clearer than the last one.


def sequential_p(p: float | None, share: float, look: float) -> float | None:
    """Return a p-value that counts both looks: the chance that either would be as clear as this one.

    Args:
        p: Two-sided, of what is played so far; by the t distribution, taken as that of a normal statistic.
        share: Of the worlds that are played: `look`, or 1 at the end.
        look: At which share the look before the last is taken, in (0, 1).

    >>> round(sequential_p(0.0052, 0.5, 0.5), 3), round(sequential_p(0.048, 1.0, 0.5), 3)
    (0.05, 0.05)
    >>> sequential_p(None, 1.0, 0.5) is None
    True
    """
    from scipy.special import ndtri
    from scipy.stats import multivariate_normal

    if p is None:
        return None
    if p <= 0:
        return 0.0
    bound = -float(ndtri(p / 2)) * sqrt(share)
    first, last, together = bound / sqrt(look), bound, sqrt(look)
    box = multivariate_normal([0.0, 0.0], [[1.0, together], [together, 1.0]])
    inside = box.cdf([first, last], lower_limit=[-first, -last])
    return min(1.0, max(p, 1.0 - float(inside)))


def level_at(alpha: float, share: float, look: float) -> float:
    """Return at which level of its own a look is taken, so that both together have the level `alpha`.

    Args:
        alpha: Of both, in (0, 1).
        share: Of the worlds that are played.
        look: At which share the look before the last is taken.

    >>> round(level_at(0.05, 0.5, 0.5), 4), round(level_at(0.05, 1.0, 0.5), 4)
    (0.0052, 0.048)
    """
    from scipy.optimize import brentq

    return float(brentq(lambda p: (sequential_p(p, share, look) or 0.0) - alpha, 1e-200, alpha))

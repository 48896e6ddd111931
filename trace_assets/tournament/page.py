"""The tournament's page, and what it says of each claim of the method's paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from trace_assets.tournament.budgets import Curve
from trace_assets.tournament.plan import Plan
from trace_assets.tournament.results import NOT_RECORDED, cell
from trace_assets.tournament.score import Score, Shown, level_at
from trace_assets.tournament.worlds import Across, power

KINDS = ("rollouts", "cpu", "wall")
"""Spending that the page shows; the rest is in the table of costs."""


def sentence(one: Shown, plan: Plan) -> str:
    """Return one of four fixed sentences, chosen by the verdict alone."""
    ours, rival, found = one.comparison.arm, one.comparison.rival, interval(one.found)
    points = f"{abs(100 * (one.found.mean or 0.0)):.1f} points"
    margin = f"{100 * plan.margin:g} points"
    if one.verdict == "better":
        return f"`{ours}` was better than `{rival}` by {points}: {found}."
    if one.verdict == "worse":
        return f"`{ours}` was worse than `{rival}` by {points}: {found}."
    if one.verdict == "tied":
        return f"`{ours}` and `{rival}` tie: the difference lies within {margin}: {found}."
    more = f"; {one.more_worlds} worlds more would show what was found (power 0.8)" if one.more_worlds else ""
    return f"This study cannot tell `{ours}` from `{rival}`: {found}{more}."


def interval(found: Across) -> str:
    """Write a difference in points with its interval and n.

    >>> interval(Across(0.031, 0.012, 0.05, 6, 0.018, 0.01))
    '+3.1 [+1.2, +5.0] of 6 worlds'
    >>> interval(Across(0.031, None, None, 1, None, None))
    '+3.1 [no interval: one world]'
    """
    if found.mean is None:
        return "not played"
    if found.low is None or found.high is None:
        return f"{100 * found.mean:+.1f} [no interval: one world]"
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}] of {found.n} worlds"


def page(scored: Score) -> str:
    """Return the page as Markdown; no test figure before all worlds of the plan are played."""
    return "\n".join(_lines(scored)) + "\n"


def _lines(scored: Score) -> Iterator[str]:
    plan = scored.plan
    yield "# Tournament"
    yield ""
    if not scored.is_due:
        yield f"{len(scored.finished)} of {len(plan.worlds)} worlds are played. No figure of a test task is"
        yield "shown before all of them are: a look that was not planned would be another study."
    else:
        for one in scored.primary:
            yield f"- {sentence(one, plan)}"
        yield ""
        if scored.stopped:
            yield f"The look after {plan.look} of {len(plan.worlds)} worlds ended the study."
            yield ""
        yield from _arms(scored)
        yield from _own_arms(scored)
        yield ""
        yield from _comparisons(scored)
        yield ""
        yield from _predictions(scored)
        yield ""
        yield from _claims(scored)
    yield ""
    yield from _ledger(scored)
    yield ""
    yield from _spending(scored)
    yield ""
    yield from _registration(scored)


def _arms(scored: Score) -> Iterator[str]:
    yield "| arm | pass rate over worlds [95 %] | worlds | judged tasks | not played |"
    yield "|---|---|--:|--:|--:|"
    for one in scored.arms:
        yield f"| `{one.arm}` | {_rate(one.rate)} | {one.worlds} | {one.tasks:,} | {one.not_played} |"


def _rate(rate: Across) -> str:
    words = f"{100 * (rate.mean or 0):.1f}"
    if rate.low is not None and rate.high is not None:
        words += f" [{100 * max(0.0, rate.low):.1f}, {100 * min(1.0, rate.high):.1f}]"
    return words


def _own_arms(scored: Score) -> Iterator[str]:
    """Say how the plan's own arms were made, which have no rate, and why: that is no rate of 0."""
    for one in scored.entries:
        if one.note and one.arm not in scored.waiting:
            yield ""
            yield f"`{one.arm}` in world {one.world}: {one.note}."
    for arm, left in scored.waiting.items():
        yield ""
        yield f"`{arm}` is still to be played in {left} of {len(scored.finished)} worlds: no figure yet."
    reasons: dict[tuple[str, str], list[int]] = {}
    for one in scored.entries:
        if one.why:
            reasons.setdefault((one.arm, one.why), []).append(one.world)
    for (arm, why), worlds in reasons.items():
        where = ", ".join(map(str, worlds))
        yield ""
        yield f"`{arm}` does not apply in {'world' if len(worlds) == 1 else 'worlds'} {where}: {why}."


def _comparisons(scored: Score) -> Iterator[str]:
    level = f"{100 * scored.confidence:.3g} %"
    yield (
        f"| comparison | difference in points [{level}] | p (Holm) | p of a tie (Holm) | verdict | by world |"
    )
    yield "|---|---|--:|--:|---|---|"
    for one in (*scored.primary, *scored.secondary):
        worlds = ", ".join(f"{100 * value:+.1f}" for _, value in sorted(one.by_world.items()))
        said = one.verdict or "secondary: none"
        yield (
            f"| `{one.comparison.name}` | {interval(one.found)} | {_p(one.adjusted_p)} | {_p(one.tie_p)} | "
            f"{said} | {worlds} |"
        )


def _predictions(scored: Score) -> Iterator[str]:
    if not scored.plan.predictions:
        return
    yield "| predicted before | because | held |"
    yield "|---|---|---|"
    for one in scored.plan.predictions:
        held = {True: "yes", False: "no", None: "not decided"}[scored.held(one)]
        yield f"| `{one.comparison}` is {one.says} | {one.because} | {held} |"


def _claims(scored: Score) -> Iterator[str]:
    ours = scored.plan.primary[0].arm
    yield f"What the paper ({PAPER}) claims of one adapter a capability and a router, here `{ours}`:"
    yield ""
    yield "| claim | stands | by |"
    yield "|---|---|---|"
    for one in standings(scored):
        by = f"`{one.shown.comparison.name}` {interval(one.shown.found)}" if one.shown else ""
        said = "; ".join(part for part in (by, one.because) if part)
        yield f"| {one.claim.says} | {one.standing} | {said} |"


def _ledger(scored: Score) -> Iterator[str]:
    rows = scored.spending
    shown = rows.filter((pl.col("marginal") > 0) | (pl.col("all_in") > 0))
    kinds = shown.select("place", "kind", "unit").unique().sort("place", "kind")
    if kinds.is_empty():
        yield f"What an arm took: {NOT_RECORDED}."
        return
    yield "What an arm took in a world (mean), alone / all-in. All-in counts also what several arms share:"
    yield "rollouts of discovery, diagnosis, environments and their audits. Tasks and base model are in"
    yield "neither figure."
    yield ""
    heads = [
        f"{row['kind']} ({row['unit']})" if row["unit"] not in ("episodes", row["kind"]) else row["kind"]
        for row in kinds.iter_rows(named=True)
    ]
    yield f"| spent by | {' | '.join(heads)} | worlds |"
    yield f"|---|{'--:|' * (len(heads) + 1)}"
    by_arm: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        by_arm.setdefault(row["arm"], {})[row["kind"]] = row
    for arm, found in by_arm.items():
        cells = " | ".join(cell(found[kind]) for kind in kinds["kind"])
        yield f"| `{arm}` | {cells} | {max(row['worlds'] for row in found.values())} |"
    unknown = rows.filter(pl.col("marginal").is_null() & ~pl.col("kind").is_in(kinds["kind"].to_list()))
    if not unknown.is_empty():
        names = ", ".join(unknown.sort("place", "kind")["kind"].unique(maintain_order=True))
        yield ""
        yield f"{NOT_RECORDED.capitalize()} of any arm that took some: {names}."
    yield ""
    yield "Verdicts of the target: those rollouts that it judged, and no environment. Pilots are counted"
    yield "with their looks, but without the search for tasks that need the capability; of looks and audits,"
    yield "episodes that broke are not counted. A step that several arms need is booked whole to each."


def _spending(scored: Score) -> Iterator[str]:
    yield f"What a world took, by asset (mean of {len(scored.finished)}):"
    yield ""
    yield "| asset | kind | quantity | unit |"
    yield "|---|---|--:|---|"
    shown = scored.costs.filter(pl.col("kind").is_in(list(KINDS)) & (pl.col("quantity") >= 0.5))
    for row in shown.iter_rows(named=True):
        yield f"| `{row['asset']}` | {row['kind']} | {row['quantity']:,.0f} | {row['unit']} |"
    for words in scored.unequal:
        yield ""
        yield f"**Training rollouts were not equal** in {words}."
    if scored.defined:
        yield ""
        yield f"By definition, without episodes of its own: {'; '.join(scored.defined)}."
        yield "Too few adapters were taught there to choose among, or none, or sets were refused. Such worlds"
        yield "count like any other."


def _registration(scored: Score) -> Iterator[str]:
    plan = scored.plan
    first, *amendments = scored.register
    yield f"Registered {first.at} as `{first.fingerprint[:16]}`, before the first test task was opened."
    for one in amendments:
        yield f"Amended {one.at} as `{one.fingerprint[:16]}`, {one.worlds_seen} worlds seen: {one.why}."
    if scored.other_plans:
        names = ", ".join(map(str, scored.other_plans))
        yield f"Worlds {names} were played under an earlier plan."
    yield f"Seeds of the worlds: {', '.join(str(one.base_seed) for one in plan.worlds)}."
    yield from forecast(plan)


def over_budgets(found: Sequence[Curve]) -> str:
    """Return the same worlds at several budgets as Markdown."""
    return "\n".join(_over_budgets(found)) + "\n"


def _over_budgets(found: Sequence[Curve]) -> Iterator[str]:
    for place, one in enumerate(found):
        ours, rival = one.comparison.arm, one.comparison.rival
        yield from ("",) if place else ()
        yield f"| training rollouts | `{ours}` [95 %] | `{rival}` [95 %] | `{one.comparison.name}`, points |"
        yield "|--:|---|---|---|"
        for point in one.budgets:
            rates = " | ".join(_rate(point.rates[arm]) for arm in (ours, rival))
            yield f"| {point.rollouts:,.0f} | {rates} | {interval(point.difference)} |"
        yield ""
        yield (
            f"Mean difference over log rollouts {interval(one.area)}; from the smallest budget to the "
            f"largest `{ours}` gains {interval(one.gain)} more than `{rival}`. Secondary: no verdict."
        )


def forecast(plan: Plan) -> Iterator[str]:
    """Say what so many worlds can show, by the plan alone."""
    n, level = len(plan.worlds), plan.alpha / len(plan.primary)
    chances = ", ".join(
        f"{points} points {power(n, points / 100, plan.sd, level):.2f}" for points in (10, 5, 3, 2)
    )
    yield (
        f"Power of {n} worlds at a spread of {100 * plan.sd:.1f} points between them, after Holm over "
        f"{len(plan.primary)}: {chances}."
    )
    if plan.look is not None:
        first = level_at(plan.alpha, plan.look / n, plan.look / n)
        yield (
            f"One look on the way, after {plan.look} worlds, at a level of {first:.2g} before Holm (O'Brien "
            "and Fleming); p-values and intervals count it."
        )


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


Standing = Literal["supported", "contradicted", "undecided", "not tested"]
PAPER = "arXiv 2604.05336"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        says: It, with ours in mind: one adapter a capability, and a router.
        rival: The arm that it is about, or how the names of such arms begin; empty where no comparison of
            two arms could show it.
        untested: Why nothing is said of it where no plan can name the comparison.
    """

    says: str
    rival: str
    untested: str = ""


@dataclass(frozen=True)
class Stands:
    """A claim as it stands after a study.

    Attributes:
        claim: Which.
        standing: One of the four.
        shown: The comparison behind it; None where there is none.
        because: What is to be known of it; empty where the comparison says it all.
    """

    claim: Claim
    standing: Standing
    shown: Shown | None
    because: str = ""


CLAIMS = (
    Claim("better than the base model", "base"),
    Claim("better than GRPO on the target's own tasks", "mixed_grpo"),
    Claim("better than one adapter for all capabilities", "joint"),
    Claim("better than merged adapters", "merged:"),
    Claim("better than prompt optimisation (GEPA)", "gepa_"),
    Claim("better than generic environments", "generic_"),
    Claim("gains more than GRPO on the target from more rollouts", "", "a study has one budget"),
    Claim("gains from more capabilities", "", "a study teaches all that it keeps"),
)
"""As the paper makes them; those about merged adapters, GEPA and generic
environments hold where they do for each such arm."""

OF_VERDICT: dict[str, Standing] = {
    "better": "supported",
    "worse": "contradicted",
    "tied": "contradicted",
    "undecided": "undecided",
}


def standings(scored: Score) -> list[Stands]:
    """Say of each claim how it stands: by the primary comparisons, for only these have a verdict."""
    return [_stands(claim, scored) for claim in CLAIMS]


def _stands(claim: Claim, scored: Score) -> Stands:
    if not claim.rival:
        return Stands(claim, "not tested", None, claim.untested)
    ours = scored.plan.primary[0].arm
    primary = [one for one in scored.primary if _is_about(claim, one, ours)]
    if primary:
        # Of several the one that speaks most against it.
        order = ("worse", "tied", "undecided", "better")
        worst = min(primary, key=lambda one: order.index(one.verdict or "undecided"))
        if worst.found.mean is None:
            return Stands(claim, "not tested", None, f"`{worst.comparison.name}` was played in no world")
        return Stands(claim, OF_VERDICT[worst.verdict or "undecided"], worst)
    looked = next((one for one in scored.secondary if _is_about(claim, one, ours)), None)
    if looked is not None and looked.found.mean is not None:
        return Stands(claim, "not tested", looked, "a secondary comparison, without a verdict")
    return Stands(claim, "not tested", None, "the plan does not compare it")


def _is_about(claim: Claim, one: Shown, ours: str) -> bool:
    rival = one.comparison.rival
    of_many = claim.rival.endswith((":", "_"))
    named = rival.startswith(claim.rival) if of_many else rival == claim.rival
    return named and one.comparison.arm == ours

"""What adapters do together: whose gradients oppose, what each adds to a sum, which way is released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.records import (
    NO_ADAPTER,
    CompositionChoice,
    Interference,
    InterferencePart,
    SetEffect,
    SetRule,
)
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import AssetReport, Row
from trace_assets.report.plots import Dot, interval_dots, pictured
from trace_assets.routing.router import members_of


def choice_report(rows: Sequence[CompositionChoice]) -> AssetReport:
    """Show the pass rate of every way on validation tasks, and by how much the chosen one is ahead."""
    dots = [
        Dot(
            label=formatting.arm_name(row.arm),
            value=row.pass_rate,
            low=row.pass_rate_low,
            high=row.pass_rate_high,
            text=formatting.percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
            note=formatting.count(row.n_tasks, "task"),
            tone="strong" if row.chosen else "other" if row.refused else "",
        )
        for row in rows
    ]
    plot = interval_dots(dots, title="Pass rate on validation tasks")
    words = "Validation tasks; 95 % intervals over tasks. What is released is drawn strong."
    return AssetReport(pictured("what is released", plot, words), {"choice": choice_table(rows)})


def choice_table(rows: Sequence[CompositionChoice]) -> list[Row]:
    """Return one line a way, for people."""
    return [
        {
            "way": formatting.arm_name(row.arm),
            "decision": "released" if row.chosen else f"refused: {row.refused}" if row.refused else "",
            "pass rate": formatting.percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
            "behind, points": formatting.points(row.behind, row.behind_low, row.behind_high),
            "tasks": row.n_tasks,
        }
        for row in rows
    ]


def effects_report(
    rows: Sequence[SetEffect], rules: Sequence[SetRule], names: Mapping[str, str]
) -> AssetReport:
    """Show by how much each sum passes more than without a member, on validation tasks.

    Args:
        rows: One a set and member, and one for each whole set.
        rules: The rules that were tried.
        names: Capability id to name.
    """
    if not rows:
        return AssetReport({}, {})
    dots = [
        Dot(
            label=_member(row, names),
            value=row.delta,
            low=row.delta_low,
            high=row.delta_high,
            text=f"{formatting.points(row.delta, row.delta_low, row.delta_high)}, n = {row.n_tasks}",
            note=set_words(row.choice, names),
            tone="strong" if row.verdict == "helps" else "other" if row.verdict == "harms" else "",
        )
        for row in rows
    ]
    plot = interval_dots(dots, title="What it adds to the sum", reference=0.0, low=-1.0, high=1.0)
    words = (
        "Pass-rate points on the validation tasks that the router sends to the sum, with the member minus "
        "without it, paired. Together they hold at 95 %: "
        f"each has a level of {100 * rows[0].confidence:.2f} %."
    )
    pages = pictured("sums of adapters", plot, words)
    return AssetReport(pages, {"sums": effects_table(rows, names), "rules": rules_table(rules)})


def effects_table(rows: Sequence[SetEffect], names: Mapping[str, str]) -> list[Row]:
    """Return one line a set and member, for people; those that no task was sent to say nothing.

    >>> effects_table([], {})
    []
    """
    return [
        {
            "sum": set_words(row.choice, names),
            "adapter": _member(row, names),
            "adds, points": formatting.points(row.delta, row.delta_low, row.delta_high),
            "tasks": row.n_tasks,
            "verdict": row.verdict,
            "alone": ("may act" if row.alone else "may not act") if row.adapter else "",
            "the sum": "may act" if row.served else "refused",
        }
        for row in rows
        if row.n_tasks
    ]


def rules_table(rules: Sequence[SetRule]) -> list[Row]:
    """Return one line a rule by which tasks may be sent to sums, for people."""
    return [
        {
            "cost": f"{row.cost:g}",
            "scale": f"{row.scale:g}",
            "decision": "chosen" if row.chosen else "",
            "pass rate": formatting.percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
            "ahead, points": formatting.points(row.ahead, row.ahead_low, row.ahead_high),
            "sent to sums": f"{row.several} of {row.n_tasks}",
        }
        for row in rules
    ]


def set_words(choice: str, names: Mapping[str, str]) -> str:
    """Return a set in words.

    >>> set_words("a+b", {"a": "Look first"})
    'Look first + b'
    """
    return " + ".join(names.get(one, one) for one in members_of(choice)) or NO_ADAPTER


def _member(row: SetEffect, names: Mapping[str, str]) -> str:
    return names.get(row.adapter, row.adapter) if row.adapter else "the whole sum, against the base model"


MOST = 24
"""Comparisons in the plot: those between two capabilities first, then the most opposed conditions."""


def interference_report(
    pairs: Sequence[Interference], parts: Sequence[InterferencePart], names: Mapping[str, str]
) -> AssetReport:
    """Show the cosine of every two capabilities and conditions, and how reliable each direction is.

    Args:
        pairs: Comparisons and verdicts.
        parts: The directions.
        names: Capability id to name.
    """
    known = [row for row in pairs if row.cosine is not None]
    shown = sorted(known, key=lambda row: (bool(row.condition), row.cosine or 0.0))[:MOST]
    dots = [
        Dot(
            label=_label(row, names),
            value=row.cosine,
            low=row.cosine_low,
            high=row.cosine_high,
            text=_cosine(row),
            note=f"reliability {row.reliability:.2f}",
            tone="other" if row.verdict == "opposed" else "strong" if not row.condition else "",
        )
        for row in shown
    ]
    title = "Cosine of policy gradients at the base policy"
    plot = interval_dots(dots, title=title, reference=0.0, low=-1.0, high=1.0)
    words = (
        "1: a step for one is a step for the other; 0: they act apart and can be added up; -1: a step for "
        "one undoes the other. 95 % bootstrap intervals over groups; "
        f"{len(shown)} of {len(known)} comparisons."
    )
    pages = pictured("who pulls which way", plot, words)
    table: list[Row] = [
        {
            "one": _side(row.capability_id, row.condition, names),
            "other": _side(row.other_id, row.other_condition, names),
            "cosine": _cosine(row),
            "without noise": formatting.share(row.corrected),
            "reliability": formatting.share(row.reliability),
            "verdict": row.verdict,
        }
        for row in sorted(pairs, key=lambda row: bool(row.condition))
    ]
    rests: list[Row] = [
        {
            "capability": names.get(row.capability_id, row.capability_id),
            "its solution calls": row.condition,
            "base pass rate": formatting.percent(row.pass_rate),
            "groups": row.n_groups,
            "with a gradient": row.live_groups,
            "rollouts": row.n_rollouts,
            "split half": formatting.share(row.split_half),
            "reliability": formatting.share(row.reliability),
        }
        for row in parts
    ]
    return AssetReport(pages, {"interference": table, "directions": rests})


def _side(capability: str, condition: str, names: Mapping[str, str]) -> str:
    name = names.get(capability, capability)
    return f"{name}: {condition}" if condition else name


def _label(row: Interference, names: Mapping[str, str]) -> str:
    one = _side(row.capability_id, row.condition, names)
    return f"{one} and {_side(row.other_id, row.other_condition, names)}"


def _cosine(row: Interference) -> str:
    return formatting.share(row.cosine, row.cosine_low, row.cosine_high)

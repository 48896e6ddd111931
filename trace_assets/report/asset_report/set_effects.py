"""What each adapter adds to a sum, where the router sends tasks to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.records import NO_ADAPTER, SetEffect, SetRule
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import Exhibit, Row
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.plots import Dot, interval_dots
from trace_assets.routing.sets import members_of


def effects_exhibit(rows: Sequence[SetEffect], rules: Sequence[SetRule], names: Mapping[str, str]) -> Exhibit:
    """Show by how much each sum passes more than without a member, on validation tasks.

    Args:
        rows: One a set and member, and one for each whole set.
        rules: The rules that were tried.
        names: Capability id to name.
    """
    if not rows:
        return Exhibit({}, {})
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
        if row.delta is not None and row.delta_low is not None and row.delta_high is not None
    ]
    pages = {}
    if dots:
        plot = interval_dots(dots, title="What it adds to the sum", reference=0.0, low=-1.0, high=1.0)
        pages["sums of adapters"] = (
            f"{svg_markdown(plot, 'effects')}\n\nPass-rate points on the validation tasks that the router "
            "sends to the sum, with the member minus without it, paired. Together they hold at 95 %: "
            f"each has a level of {100 * rows[0].confidence:.2f} %."
        )
    return Exhibit(pages, {"sums": effects_table(rows, names), "rules": rules_table(rules)})


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

"""Which way to put the adapters together validation chose, beside the others."""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.records import CompositionChoice
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import Exhibit, Row
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.plots import Dot, interval_dots


def choice_exhibit(rows: Sequence[CompositionChoice]) -> Exhibit:
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
        if row.pass_rate is not None and row.pass_rate_low is not None and row.pass_rate_high is not None
    ]
    pages = {}
    if dots:
        plot = interval_dots(dots, title="Pass rate on validation tasks")
        pages["what is released"] = (
            f"{svg_markdown(plot, 'choice')}\n\nValidation tasks; 95 % intervals over tasks. What is "
            "released is drawn strong."
        )
    return Exhibit(pages, {"choice": choice_table(rows)})


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

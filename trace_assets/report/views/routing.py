"""The section on routing: who was sent where, how often rightly, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from trace_assets.records import NO_ADAPTER, Evaluation
from trace_assets.report import figures
from trace_assets.report.data import ReportData
from trace_assets.report.plots import confusion as draw
from trace_assets.routing.scorecard import confusion


def routing_view(data: ReportData) -> dict[str, Any]:
    """Return one confusion plot a router, scores and regrets."""
    truth = oracle_choices(data.evaluations)
    plots = []
    for router in sorted({route.router for route in data.routes}):
        counts = confusion([route for route in data.routes if route.router == router], truth)
        n = sum(sum(line.values()) for line in counts.values())
        if not n:
            continue
        right = sum(counts[choice].get(choice, 0) for choice in counts)
        plots.append(
            {
                "svg": Markup(confusion_plot(counts, data.names, router)),
                "caption": f"Router {router}: rows are the oracle's choices, columns the router's in the "
                f"same order. {right:,} of {figures.count(n, 'task')} agree.",
            }
        )
    return {
        "confusions": plots,
        "scores": data.router_scores,
        "regrets": data.regrets,
    }


def oracle_choices(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Return what the oracle chose for each test task, read off the arm that followed it."""
    return {row.task_id: row.adapter or NO_ADAPTER for row in evaluations if row.arm == "oracle_routed"}


def confusion_plot(counts: Mapping[str, Mapping[str, int]], names: Mapping[str, str], router: str) -> str:
    """Return a confusion matrix as an SVG."""
    choices = list(counts)
    shown = [names.get(choice, "no adapter" if choice == NO_ADAPTER else choice) for choice in choices]
    matrix = [[counts[row].get(column, 0) for column in choices] for row in choices]
    return draw(shown, shown, matrix, title=f"Choices of the router {router} against the oracle's")

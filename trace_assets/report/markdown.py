"""The report's plots as Markdown images, for places that show Markdown, such as Dagster metadata."""

from __future__ import annotations

from collections import defaultdict

from trace_assets.records import TrainingPoint
from trace_assets.report import formatting
from trace_assets.report.data import ReportData
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.headline import headline
from trace_assets.report.views.deficits import gap_plot
from trace_assets.report.views.environments import adapters_plot, curve_plot
from trace_assets.report.views.result import arms_plot, basis


def plot_pages(data: ReportData) -> dict[str, str]:
    """Return Markdown by title: the plots of those stages that have run, each with what it rests on."""
    pages: dict[str, str] = {"result": headline(data)}
    for target in sorted({row.target for row in data.contrasts}):
        n = max(row.n_tasks for row in data.contrasts if row.target == target)
        plot = svg_markdown(gap_plot(data, target), "gap and coverage")
        pages[f"gap and coverage in {target}"] = (
            f"{plot}\n\n95 % intervals over {formatting.count(n, 'task')}."
        )
    if data.summary:
        largest = max(data.overall.values(), key=lambda row: row.n_trials)
        pages["pass rates"] = (
            f"{svg_markdown(arms_plot(data), 'pass rates')}\n\n95 % intervals, {basis(largest)}."
        )
    if data.adapters:
        n = min(row.validation_n for row in data.adapters)
        plot = svg_markdown(adapters_plot(data.adapters, data.names), "adapters")
        pages["adapters"] = f"{plot}\n\nHeld-out seeds, at least {formatting.count(n, 'episode')} a figure."
    curves: dict[str, list[TrainingPoint]] = defaultdict(list)
    for point in data.curves:
        curves[point.name].append(point)
    for name, points in sorted(curves.items()):
        plot = svg_markdown(curve_plot(points, data.names.get(name, name)), "learning curve")
        pages[f"learning curve {name}"] = f"{plot}\n\n{max(p.n for p in points)} rollouts an iteration."
    return pages

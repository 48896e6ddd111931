"""The section on environments, adapters and learning curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from trace_assets.records import Adapter, Environment, EnvironmentCheck, Pilot, TrainingPoint
from trace_assets.report import figures
from trace_assets.report.data import ReportData
from trace_assets.report.plots import Dot, Sampled, curve, interval_dots
from trace_assets.report.views.audit import interval_text
from trace_assets.statistics.wilson import wilson

_HARM = {"harmless": "good", "unclear": "warn", "harmful": "bad"}


def teaching_view(data: ReportData) -> dict[str, Any]:
    """Return environments with their audits, adapters with their rates, and curves."""
    harm = {row.adapter: row for row in data.harm}
    return {
        "environments": [_environment(data, row) for row in data.environments],
        "adapters": [
            {
                "a": row,
                "name": _name(data, row.name),
                "harm": harm.get(row.name),
                "tone": _HARM[harm[row.name].verdict] if row.name in harm else "",
            }
            for row in data.adapters
        ],
        "worth": [_worth(data, row) for row in data.pilots],
        "plot": Markup(adapters_plot(data.adapters, data.names)),
        "curves": [
            {
                "svg": Markup(curve_plot(points, _name(data, name))),
                "caption": f"Line: success of {max(point.n for point in points)} training rollouts an "
                "iteration, with 95 % interval as if they were independent. Points: held-out seeds.",
            }
            for name, points in _curves(data.curves).items()
        ],
    }


def curve_plot(points: Sequence[TrainingPoint], name: str) -> str:
    """Return one adapter's learning curve as an SVG."""
    samples, markers = [], []
    for point in sorted(points, key=lambda point: point.iteration):
        if point.n:
            low, high = wilson(round(point.success_rate * point.n), point.n)
            samples.append(Sampled(point.iteration, point.success_rate, low, high))
        if point.validation_rate is not None and point.validation_n:
            low, high = wilson(round(point.validation_rate * point.validation_n), point.validation_n)
            markers.append(Sampled(point.iteration, point.validation_rate, low, high))
    return curve(
        samples, title=f"Learning curve of {name}", x_label="iteration", markers=markers, heading=name
    )


def adapters_plot(adapters: Sequence[Adapter], names: dict[str, str]) -> str:
    """Return success before and after training of each adapter as an SVG."""
    dots = []
    for row in adapters:
        name = names.get(row.name, figures.arm_name("mixed_grpo") if row.kind == "mixed" else row.name)
        for when, value, low, high in (
            ("before", row.validation_before, row.validation_before_low, row.validation_before_high),
            ("after", row.validation_after, row.validation_after_low, row.validation_after_high),
        ):
            dots.append(
                Dot(
                    label=name if when == "before" else "after training",
                    value=value,
                    low=low,
                    high=high,
                    text=figures.percent(value, low, high),
                    note=figures.count(row.validation_n, "episode"),
                    tone="strong" if when == "after" else "",
                )
            )
    return interval_dots(dots, title="Success on held-out seeds before and after training")


def _name(data: ReportData, adapter: str) -> str:
    return data.names.get(adapter, figures.arm_name("mixed_grpo") if adapter == "mixed" else adapter)


def _curves(points: Sequence[TrainingPoint]) -> dict[str, list[TrainingPoint]]:
    grouped: dict[str, list[TrainingPoint]] = defaultdict(list)
    for point in points:
        grouped[point.name].append(point)
    return dict(sorted(grouped.items(), key=lambda item: (item[0] == "mixed", item[0])))


_PILOTS = {"transfers": "good", "undecided": "warn", "stopped": "bad", "not made": "dim"}


def _worth(data: ReportData, row: Pilot) -> dict[str, Any]:
    """Return what a pilot came to, and what was foretold of the run beside what was seen."""
    learnt = next((one for one in data.learnability if one.capability_id == row.capability_id), None)
    return {
        "p": row,
        "l": learnt,
        "name": data.names.get(row.capability_id, row.capability_id),
        "tone": _PILOTS[row.outcome],
    }


def _environment(data: ReportData, row: Environment) -> dict[str, Any]:
    checks = [check for check in data.checks if check.environment_id == row.environment_id]
    failed = [check for check in checks if check.status == "fail"]
    rejected = any(check.severity == "error" for check in failed)
    skipped = sum(check.status == "skip" for check in checks)
    return {
        "name": data.names.get(row.capability_id, row.capability_id),
        "writer": row.writer,
        "n_versions": row.n_versions,
        "short": row.environment_id[:10],
        "verdict": "not audited" if not checks else "rejected" if rejected else "accepted",
        "tone": "dim" if not checks else "bad" if rejected else "good",
        "counts": f"{len(checks) - len(failed) - skipped} passed, {len(failed)} failed, {skipped} skipped",
        "band": _share(checks, "trace.pass_band", "rollout"),
        "floor": _share(checks, "semantic.floor_gap", "seed"),
        "dead": _share(checks, "trace.dead_groups", "group"),
        "anchor": f"audit-{row.environment_id}" if checks else "",
        "findings": [check for check in checks if check.status != "pass"],
    }


def _share(checks: Sequence[EnvironmentCheck], check_id: str, noun: str) -> Markup:
    found = next((check for check in checks if check.check_id == check_id and check.value is not None), None)
    if found is None or found.value is None:
        return Markup(figures.NONE)
    n = figures.count(found.n, noun) if found.n else ""
    return Markup("{}<small>{}</small><small>{}</small>").format(
        f"{100 * found.value:.1f} %", n, interval_text(found)
    )

"""What environments, their audits and adapters show: findings, learning curves, harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.records import Adapter, EnvironmentCheck, NoHarm, TrainingPoint
from trace_assets.report import figures
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.exhibits.exhibit import Exhibit, Row
from trace_assets.report.plots import Dot, interval_dots
from trace_assets.report.views.teaching import adapters_plot, curve_plot

MOST_EVIDENCE = 160
"""Characters of a finding's evidence in the table; all of it is in `environment_checks`."""


def audit_exhibit(checks: Sequence[EnvironmentCheck]) -> Exhibit:
    """Show every finding of an audit, failed ones first."""
    order = {"fail": 0, "skip": 1, "pass": 2}
    rows: list[Row] = [
        {
            "check": check.check_id,
            "status": check.status if check.status == "pass" else f"{check.status} ({check.severity})",
            "value": figures.NONE if check.value is None else f"{check.value:.3g}",
            "n": check.n if check.n is not None else figures.NONE,
            "finding": f"{check.seen[:MOST_EVIDENCE]} (wanted: {check.bound})",
        }
        for check in sorted(checks, key=lambda check: (order[check.status], check.check_id))
    ]
    return Exhibit(tables={"audit": rows})


def adapter_exhibit(adapter: Adapter, curve: Sequence[TrainingPoint], name: str) -> Exhibit:
    """Show how an adapter learned, and its rate on held-out seeds before and after."""
    pages: dict[str, str] = {}
    if curve:
        plot = svg_markdown(curve_plot(curve, name), "learning curve")
        pages["learning curve"] = (
            f"{plot}\n\nLine: success of {max(point.n for point in curve)} training rollouts an iteration; "
            "points: held-out seeds; checkpoint kept: "
            f"iteration {adapter.best_iteration}. 95 % intervals as if rollouts were independent."
        )
    plot = svg_markdown(adapters_plot([adapter], {adapter.name: name}), "before and after training")
    n = figures.count(adapter.validation_n, "episode")
    pages["before and after"] = f"{plot}\n\nHeld-out seeds, {n} on each side; 95 % intervals."
    return Exhibit(pages)


def harm_exhibit(rows: Sequence[NoHarm], excluded: Sequence[str], names: Mapping[str, str]) -> Exhibit:
    """Show what each adapter does to its own skills and to the others, on validation tasks.

    Args:
        rows: One an adapter.
        excluded: Adapters that a router may not choose.
        names: Capability id to name.
    """
    dots = [
        Dot(
            label=names.get(row.adapter, row.adapter) if side == "own" else "on other skills",
            value=delta,
            low=low,
            high=high,
            text=f"{figures.points(delta, low, high)}, n = {n}",
            tone="strong" if side == "own" else "other" if row.verdict == "harmful" else "",
        )
        for row in rows
        for side, delta, low, high, n in (
            ("own", row.own_delta, row.own_delta_low, row.own_delta_high, row.own_n),
            ("other", row.other_delta, row.other_delta_low, row.other_delta_high, row.other_n),
        )
        if delta is not None and low is not None and high is not None
    ]
    table: list[Row] = [
        {
            "adapter": names.get(row.adapter, row.adapter),
            "own skills": ", ".join(row.own_skills) or figures.NONE,
            "own, points": f"{figures.points(row.own_delta, row.own_delta_low, row.own_delta_high)} "
            f"(n = {row.own_n})",
            "others, points": f"{figures.points(row.other_delta, row.other_delta_low, row.other_delta_high)} "
            f"(n = {row.other_n})",
            "verdict": row.verdict,
            "router": "may not choose it" if row.adapter in excluded else "may choose it",
        }
        for row in rows
    ]
    pages = {}
    if dots:
        plot = interval_dots(
            dots, title="Adapter minus base on own and other skills", reference=0.0, low=-1.0, high=1.0
        )
        pages["own and other skills"] = (
            f"{svg_markdown(plot, 'harm')}\n\nPass-rate points, adapter minus base, paired; n counts "
            "validation tasks; 95 % intervals over tasks."
        )
    return Exhibit(pages, {"harm": table})

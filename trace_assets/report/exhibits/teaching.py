"""What environments, their audits and adapters show: findings, learning curves, harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.records import Adapter, EnvironmentCheck, NoHarm, TrainingPoint
from trace_assets.report import figures
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.exhibits.exhibit import Exhibit, Row
from trace_assets.report.plots import Dot, interval_dots
from trace_assets.report.views.audit import ATTACKER, interval_text, kill_rate, value_text
from trace_assets.report.views.teaching import adapters_plot, curve_plot

MOST_EVIDENCE = 160
"""Characters of a finding's evidence in the table; all of it is in `environment_checks`."""
MOST_ATTACKERS = 10


def audit_exhibit(checks: Sequence[EnvironmentCheck]) -> Exhibit:
    """Show every finding of an audit, failed ones first, and what each attacker earned."""
    order = {"fail": 0, "skip": 1, "pass": 2}
    rows: list[Row] = [
        {
            "check": check.check_id,
            "level": check.level,
            "status": check.status if check.status == "pass" else f"{check.status} ({check.severity})",
            "value": f"{value_text(check)} {interval_text(check)}".strip(),
            "n": check.n if check.n is not None else figures.NONE,
            "finding": f"{check.seen[:MOST_EVIDENCE]} (wanted: {check.bound})",
        }
        for check in sorted(checks, key=lambda check: (order[check.status], check.check_id))
    ]
    return Exhibit(attackers_page(checks), {"audit": rows})


def attackers_page(checks: Sequence[EnvironmentCheck]) -> dict[str, str]:
    """Return the attackers' mean rewards as a plot, those that earned most first; none where none played."""
    played = [
        check
        for check in checks
        if check.check_id.startswith(ATTACKER) and None not in (check.value, check.low, check.high)
    ]
    dots = [
        Dot(
            label=check.check_id.removeprefix(ATTACKER),
            value=check.value or 0.0,
            low=check.low or 0.0,
            high=check.high or 0.0,
            text=f"{value_text(check)} {interval_text(check)}",
            note=figures.count(check.n or 0, "seed"),
            tone="other" if check.status == "fail" else "",
        )
        for check in sorted(played, key=lambda check: (-(check.value or 0.0), check.check_id))[
            :MOST_ATTACKERS
        ]
    ]
    if not dots:
        return {}
    plot = svg_markdown(interval_dots(dots, title="Mean reward of the strongest attackers"), "attackers")
    said = f"Harmful mutants that lost reward: {kill_rate(checks)}."
    return {
        "attackers": f"{plot}\n\nMean reward of the {len(dots)} strongest attackers; 95 % intervals. {said}"
    }


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

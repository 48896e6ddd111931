"""What environments, their audits and adapters show: findings, learning curves, harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.records import (
    Adapter,
    ArmSummary,
    Capability,
    EnvironmentCheck,
    NoHarm,
    Route,
    RouterRegret,
    RouterScore,
    TrainingPoint,
)
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import AssetReport, Row
from trace_assets.report.data import ReportData
from trace_assets.report.plots import Dot, Sampled, interval_dots, pictured, reliability
from trace_assets.report.views.environments import (
    ATTACKER,
    adapters_plot,
    curve_plot,
    interval_text,
    kill_rate,
    value_text,
)
from trace_assets.report.views.result import arms_plot, basis, confusion_plot, place
from trace_assets.routing.scores import confusion
from trace_assets.stats.intervals import wilson
from trace_assets.stats.ranking import reliability_bins

MOST_EVIDENCE = 160
"""Characters of a finding's evidence in the table; all of it is in `environment_checks`."""
MOST_ATTACKERS = 10


def audit_report(checks: Sequence[EnvironmentCheck]) -> AssetReport:
    """Show every finding of an audit, failed ones first, and what each attacker earned."""
    order = {"fail": 0, "skip": 1, "pass": 2}
    rows: list[Row] = [
        {
            "check": check.check_id,
            "level": check.level,
            "status": check.status if check.status == "pass" else f"{check.status} ({check.severity})",
            "value": f"{value_text(check)} {interval_text(check)}".strip(),
            "n": check.n if check.n is not None else formatting.NONE,
            "finding": f"{check.seen[:MOST_EVIDENCE]} (wanted: {check.bound})",
        }
        for check in sorted(checks, key=lambda check: (order[check.status], check.check_id))
    ]
    return AssetReport(attackers_page(checks), {"audit": rows})


def attackers_page(checks: Sequence[EnvironmentCheck]) -> dict[str, str]:
    """Return the attackers' mean rewards as a plot, those that earned most first; none where none played."""
    played = [check for check in checks if check.check_id.startswith(ATTACKER) and check.value is not None]
    strongest = sorted(played, key=lambda check: (-(check.value or 0.0), check.check_id))[:MOST_ATTACKERS]
    dots = [
        Dot(
            label=check.check_id.removeprefix(ATTACKER),
            value=check.value,
            low=check.low,
            high=check.high,
            text=f"{value_text(check)} {interval_text(check)}",
            note=formatting.count(check.n or 0, "seed"),
            tone="other" if check.status == "fail" else "",
        )
        for check in strongest
    ]
    plot = interval_dots(dots, title="Mean reward of the strongest attackers")
    said = f"Harmful mutants that lost reward: {kill_rate(checks)}."
    words = f"Mean reward of the {len(dots)} strongest attackers; 95 % intervals. {said}"
    return pictured("attackers", plot, words)


def adapter_report(adapter: Adapter, curve: Sequence[TrainingPoint], name: str) -> AssetReport:
    """Show how an adapter learned, and its rate on held-out seeds before and after."""
    pages: dict[str, str] = {}
    if curve:
        words = (
            f"Line: success of {max(point.n for point in curve)} training rollouts an iteration; "
            "points: held-out seeds; checkpoint kept: "
            f"iteration {adapter.best_iteration}. 95 % intervals as if rollouts were independent."
        )
        pages = pictured("learning curve", curve_plot(curve, name), words)
    n = formatting.count(adapter.validation_n, "episode")
    plot = adapters_plot([adapter], {adapter.name: name})
    words = f"Held-out seeds, {n} on each side; 95 % intervals."
    return AssetReport(pages | pictured("before and after", plot, words))


def harm_report(rows: Sequence[NoHarm], excluded: Sequence[str], names: Mapping[str, str]) -> AssetReport:
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
            text=f"{formatting.points(delta, low, high)}, n = {n}",
            tone="strong" if side == "own" else "other" if row.verdict == "harmful" else "",
        )
        for row in rows
        for side, delta, low, high, n in (
            ("own", row.own_delta, row.own_delta_low, row.own_delta_high, row.own_n),
            ("other", row.other_delta, row.other_delta_low, row.other_delta_high, row.other_n),
        )
    ]
    table: list[Row] = [
        {
            "adapter": names.get(row.adapter, row.adapter),
            "own skills": ", ".join(row.own_skills) or formatting.NONE,
            "own, points": f"{formatting.points(row.own_delta, row.own_delta_low, row.own_delta_high)} "
            f"(n = {row.own_n})",
            "others, points": formatting.points(row.other_delta, row.other_delta_low, row.other_delta_high)
            + f" (n = {row.other_n})",
            "verdict": row.verdict,
            "router": "may not choose it" if row.adapter in excluded else "may choose it",
        }
        for row in rows
    ]
    title = "Adapter minus base on own and other skills"
    plot = interval_dots(dots, title=title, reference=0.0, low=-1.0, high=1.0)
    words = (
        "Pass-rate points, adapter minus base, paired; n counts validation tasks; 95 % intervals over tasks."
    )
    return AssetReport(pictured("own and other skills", plot, words), {"harm": table})


# What routing and evaluation show: confusion, reliability, and the pass rates of all arms.


def routing_report(
    asked: Mapping[str, tuple[Sequence[Route], Mapping[str, str]]],
    scores: Sequence[RouterScore],
    names: Mapping[str, str],
) -> AssetReport:
    """Show where each router sent tasks, and whether it is as sure as it is right.

    Args:
        asked: What was asked, such as `classifier on test tasks`, to its routes and the right choices.
        scores: Scores of the routers.
        names: Capability id to name.
    """
    pages: dict[str, str] = {}
    for title, (routes, truth) in asked.items():
        known = [route for route in routes if route.task_id in truth]
        if not known:
            continue
        counts = confusion(known, truth)
        right = sum(counts[choice].get(choice, 0) for choice in counts)
        words = (
            "Rows: what the task calls for; columns: what was chosen, in the same order. "
            f"{right:,} of {formatting.count(len(known), 'task')} agree."
        )
        pages |= pictured(f"confusion of the {title}", confusion_plot(counts, names, title), words)
        bins = reliability_bins(
            [float(route.probabilities[route.choice]) for route in known],
            [route.choice == truth[route.task_id] for route in known],
        )
        drawn = [
            (Sampled(one.confidence, one.right / one.n, *wilson(one.right, one.n)), one.n) for one in bins
        ]
        words = (
            f"{formatting.count(len(known), 'task')} in {len(bins)} of ten bins of equal width; on "
            "the dashed line a router is as sure as it is right. 95 % intervals."
        )
        plot = reliability(drawn, title=f"Reliability of the {title}")
        pages |= pictured(f"reliability of the {title}", plot, words)
    table: list[Row] = [
        {
            "router": row.router,
            "on": row.split,
            "accuracy": formatting.percent(row.accuracy, row.accuracy_low, row.accuracy_high),
            "always the commonest": formatting.percent(row.majority_share),
            "calibration error": formatting.share(row.calibration_error),
            "tasks": row.n,
        }
        for row in scores
    ]
    return AssetReport(pages, {"scores": table})


def evaluation_report(
    summary: Sequence[ArmSummary], regrets: Sequence[RouterRegret], capabilities: Sequence[Capability]
) -> AssetReport:
    """Show the pass rate of every arm, by skill too, and what the routers gain or lose."""
    data = ReportData(summary=summary, capabilities=capabilities)
    if not data.overall:
        return AssetReport()
    arms = sorted(data.overall.values(), key=lambda row: place(row.arm))
    largest = max(data.overall.values(), key=lambda row: row.n_trials)
    words = f"95 % intervals over tasks; {basis(largest)} an arm."
    return AssetReport(
        pictured("pass rates of all arms", arms_plot(data), words),
        {
            "pass rates": [arm_row(row, data.names) for row in arms],
            "pass rates by skill": _by_skill(summary, [row.arm for row in arms], data.names),
            "regret": [
                {
                    "router": row.router,
                    "against": row.reference.replace("_", " "),
                    "router passes": formatting.percent(row.router_rate),
                    "the other passes": formatting.percent(row.reference_rate),
                    "lost by the router, points": formatting.points(
                        row.regret, row.regret_low, row.regret_high
                    ),
                    "tasks": row.n_tasks,
                }
                for row in regrets
            ],
        },
    )


def _by_skill(summary: Sequence[ArmSummary], arms: Sequence[str], names: dict[str, str]) -> list[Row]:
    """Return a row an arm and a column a skill, with the skill's number of tasks in its heading."""
    rows = {(row.arm, row.skill): row for row in summary if row.skill != "all"}
    tasks: dict[str, int] = {}
    for row in rows.values():
        tasks[row.skill] = max(row.n_tasks, tasks.get(row.skill, 0))
    table: list[Row] = []
    for arm in arms:
        line: Row = {"arm": formatting.arm_name(arm, names)}
        for skill, n in sorted(tasks.items()):
            cell = rows.get((arm, skill))
            line[f"{skill} ({formatting.count(n, 'task')})"] = (
                formatting.percent(cell.pass_rate, cell.pass_rate_low, cell.pass_rate_high)
                if cell
                else formatting.NONE
            )
        table.append(line)
    return table


RATES = ("arm", "pass rate", "against base, points", "McNemar p", "pass^k")


def arm_row(row: ArmSummary, names: dict[str, str]) -> Row:
    """Return what is shown of an arm: its rates, and what they rest on."""
    return {
        "arm": formatting.arm_name(row.arm, names),
        "pass rate": formatting.percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
        "against base, points": formatting.points(row.delta, row.delta_low, row.delta_high),
        "McNemar p": formatting.p_value(row.mcnemar_p),
        "pass^k": formatting.percent(row.pass_hat_k),
        "tasks": row.n_tasks,
        "trials": row.n_trials,
        "faults": row.n_faults,
    }

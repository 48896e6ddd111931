"""What routing and evaluation show: confusion, reliability, and the pass rates of all arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.records import ArmSummary, Capability, Route, RouterRegret, RouterScore
from trace_assets.report import figures
from trace_assets.report.data import ReportData
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.exhibits.exhibit import Exhibit, Row
from trace_assets.report.plots import Sampled, reliability
from trace_assets.report.views.result import arms_plot, basis, place
from trace_assets.report.views.routing import confusion_plot
from trace_assets.routing.scorecard import confusion
from trace_assets.statistics.calibration import reliability_bins
from trace_assets.statistics.wilson import wilson


def routing_exhibit(
    asked: Mapping[str, tuple[Sequence[Route], Mapping[str, str]]],
    scores: Sequence[RouterScore],
    names: Mapping[str, str],
) -> Exhibit:
    """Show where each router sent tasks, and whether it is as sure as it is right.

    Args:
        asked: What was asked, such as `classifier on test tasks`, to its routes and the right choices.
        scores: Scores of the routers.
        names: Capability id to name.
    """
    pages = {}
    for title, (routes, truth) in asked.items():
        known = [route for route in routes if route.task_id in truth]
        if not known:
            continue
        counts = confusion(known, truth)
        right = sum(counts[choice].get(choice, 0) for choice in counts)
        plot = svg_markdown(confusion_plot(counts, names, title), "confusion")
        pages[f"confusion of the {title}"] = (
            f"{plot}\n\nRows: what the task calls for; columns: what was chosen, in the same order. "
            f"{right:,} of {figures.count(len(known), 'task')} agree."
        )
        bins = reliability_bins(
            [float(route.probabilities[route.choice]) for route in known],
            [route.choice == truth[route.task_id] for route in known],
        )
        drawn = [
            (Sampled(one.confidence, one.right / one.n, *wilson(one.right, one.n)), one.n) for one in bins
        ]
        plot = svg_markdown(reliability(drawn, title=f"Reliability of the {title}"), "reliability")
        pages[f"reliability of the {title}"] = (
            f"{plot}\n\n{figures.count(len(known), 'task')} in {len(bins)} of ten bins of equal width; on "
            "the dashed line a router is as sure as it is right. 95 % intervals."
        )
    table: list[Row] = [
        {
            "router": row.router,
            "on": row.split,
            "accuracy": figures.percent(row.accuracy, row.accuracy_low, row.accuracy_high),
            "always the commonest": figures.percent(row.majority_share),
            "calibration error": figures.share(row.calibration_error),
            "tasks": row.n,
        }
        for row in scores
    ]
    return Exhibit(pages, {"scores": table})


def evaluation_exhibit(
    summary: Sequence[ArmSummary], regrets: Sequence[RouterRegret], capabilities: Sequence[Capability]
) -> Exhibit:
    """Show the pass rate of every arm, by skill too, and what the routers gain or lose."""
    data = ReportData(summary=summary, capabilities=capabilities)
    if not data.overall:
        return Exhibit()
    arms = sorted(data.overall.values(), key=lambda row: place(row.arm))
    largest = max(data.overall.values(), key=lambda row: row.n_trials)
    plot = svg_markdown(arms_plot(data), "pass rates")
    return Exhibit(
        {"pass rates of all arms": f"{plot}\n\n95 % intervals over tasks; {basis(largest)} an arm."},
        {
            "pass rates": [_arm(row, data.names) for row in arms],
            "pass rates by skill": _by_skill(summary, [row.arm for row in arms], data.names),
            "regret": [
                {
                    "router": row.router,
                    "against": row.reference.replace("_", " "),
                    "router passes": figures.percent(row.router_rate),
                    "the other passes": figures.percent(row.reference_rate),
                    "lost by the router, points": figures.points(row.regret, row.regret_low, row.regret_high),
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
        line: Row = {"arm": figures.arm_name(arm, names)}
        for skill, n in sorted(tasks.items()):
            cell = rows.get((arm, skill))
            line[f"{skill} ({figures.count(n, 'task')})"] = (
                figures.percent(cell.pass_rate, cell.pass_rate_low, cell.pass_rate_high)
                if cell
                else figures.NONE
            )
        table.append(line)
    return table


def _arm(row: ArmSummary, names: dict[str, str]) -> Row:
    return {
        "arm": figures.arm_name(row.arm, names),
        "pass rate": figures.percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
        "against base, points": figures.points(row.delta, row.delta_low, row.delta_high),
        "McNemar p": figures.p_value(row.mcnemar_p),
        "pass^k": figures.percent(row.pass_hat_k),
        "tasks": row.n_tasks,
        "trials": row.n_trials,
        "faults": row.n_faults,
    }

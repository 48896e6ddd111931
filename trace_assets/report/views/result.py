"""The section with the result: arms, skills, and how far they may be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from trace_assets.diagnosis.triage import fault_shares
from trace_assets.evaluation.choice import sentence as choice_sentence
from trace_assets.evaluation.set_effects import sentence as effects_sentence
from trace_assets.formats.problem import Problem, counted_kinds
from trace_assets.records import NO_ADAPTER, ArmSummary, Evaluation
from trace_assets.report import formatting
from trace_assets.report.data import ReportData
from trace_assets.report.plots import Dot, interval_dots
from trace_assets.report.plots import confusion as draw
from trace_assets.report.views.evidence import capability_anchor
from trace_assets.routing.scores import confusion


def result_view(data: ReportData) -> dict[str, Any] | None:
    """Return arms, plot, skills and notes; None when nothing was evaluated."""
    arms = sorted(data.overall.values(), key=lambda row: place(row.arm))
    if not arms:
        return None
    base = data.overall.get("base")
    columns = [row.arm for row in arms]
    by_skill: dict[str, dict[str, ArmSummary]] = {}
    for row in data.summary:
        if row.skill != "all":
            by_skill.setdefault(row.skill, {})[row.arm] = row
    largest = max(arms, key=lambda row: row.n_trials)
    return {
        "arms": arms,
        "basis": basis(largest),
        "columns": columns,
        "plot": Markup(arms_plot(data)),
        "notes": _notes(data, base),
        "skills": [
            {
                "name": skill,
                "n_tasks": max(row.n_tasks for row in rows.values()),
                "n_trials": max(row.n_trials for row in rows.values()),
                "cells": [rows.get(arm) for arm in columns],
            }
            for skill, rows in sorted(by_skill.items())
        ],
    }


def rounds_view(data: ReportData) -> list[dict[str, Any]]:
    """Return one row a round, with what its agent passes on test tasks where it was played there."""
    return [{"row": row, "test": data.overall.get(f"round:{row.round}")} for row in data.rounds]


def arms_plot(data: ReportData) -> str:
    """Return the pass rates of all arms as an SVG."""
    base = data.overall.get("base")
    dots = [
        Dot(
            label=formatting.arm_name(row.arm, data.names),
            value=row.pass_rate,
            low=row.pass_rate_low,
            high=row.pass_rate_high,
            text=formatting.percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
            note=basis(row),
            tone="strong" if row.arm == "routed" else "",
        )
        for row in sorted(data.overall.values(), key=lambda row: place(row.arm))
    ]
    return interval_dots(dots, title="Pass rate of each arm", reference=base.pass_rate if base else None)


def basis(row: ArmSummary) -> str:
    """Return what a figure rests on, such as `400 tasks, 1,600 trials`."""
    return f"{formatting.count(row.n_tasks, 'task')}, {formatting.count(row.n_trials, 'trial')}"


def place(arm: str) -> tuple[int, str]:
    """Return where an arm stands among the others: base first, then what the study is about."""
    order = ["base", "routed", "oracle_routed", "composed", "oracle_composed", "sum"]
    order += ["together", "joint", "sequential", "consolidated", "mixed_grpo"]
    return (order.index(arm) if arm in order else len(order), arm)


def _notes(data: ReportData, base: ArmSummary | None) -> list[str]:
    notes = []
    routed, mixed = data.overall.get("routed"), data.overall.get("mixed_grpo")
    if base is None:
        notes.append("There is no base arm, so no difference can be shown.")
    if routed and mixed and routed.pass_rate is not None and mixed.pass_rate is not None:
        notes.append(
            f"{_budgets(data)}: GRPO on the target itself reaches "
            f"{formatting.percent(mixed.pass_rate, mixed.pass_rate_low, mixed.pass_rate_high)}, "
            "routed adapters "
            f"{formatting.percent(routed.pass_rate, routed.pass_rate_low, routed.pass_rate_high)} on "
            f"{basis(routed)}. It is shown whether or not it loses."
        )
    if data.choices:
        notes.append(f"Released: {choice_sentence(data.choices)}")
    if data.set_effects:
        notes.append(f"Adapters added up: {effects_sentence(data.set_effects, data.names)}")
    for pair in data.interference:
        if pair.verdict == "opposed":
            one, other = (data.names.get(name, name) for name in (pair.capability_id, pair.other_id))
            notes.append(f"{one} and {other} are never added up: {pair.reason}")
    faults = sum(row.n_faults for row in data.overall.values())
    if faults:
        notes.append(f"{formatting.count(faults, 'trial')} broke and count in no rate.")
    return notes


def _budgets(data: ReportData) -> str:
    """Return what the mixed arm's budget was beside that of all adapters: it may be capped."""
    mixed = sum(one.rollouts for one in data.adapters if one.kind == "mixed")
    arms = {f"adapter:{one.name}": one.rollouts for one in data.adapters if one.kind == "capability"}
    single = sum(rollouts for arm, rollouts in arms.items() if arm in data.overall)  # older ones may be there
    if 0 < mixed < 0.95 * single:  # redraws can end a run some iterations before its budget is spent
        return f"Comparison at unequal rollouts, {mixed:,} beside {single:,} of all adapters together"
    return "Comparison at equal rollouts"


# The section on routing: who was sent where, how often rightly, and what it cost.


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
                f"same order. {right:,} of {formatting.count(n, 'task')} agree.",
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


# The section on how far the diagnosis may be trusted: faults, leaks, agreement, stability.


MOST_LEFT_OUT = 10
"""Rows and files that were left out of which is told one by one."""
MOST_FAULTS = 20
"""Failures of others than the agent that are told one by one, for each target."""
CHANNELS = {
    "opening": "the user's opening",
    "replies": "what the user says later",
    "closing": "the closing words",
    "results": "what tools answer",
    "shape": "length and shape",
    "withheld": "what redaction took away",
}


def trust_view(data: ReportData) -> dict[str, Any]:
    """Return tables that are there, each figure with its interval and n; empty ones are left out."""
    decided = {row.capability_id for row in data.selected}
    return {
        "faults": [_faults(data, target) for target in sorted({row.target for row in data.triage})],
        "leaks": [
            {"row": row, "channel": CHANNELS.get(row.channel, row.channel)}
            for row in sorted(data.leaks, key=lambda row: (row.target, not row.judged, row.channel))
        ],
        "agreement": [
            {
                "row": row,
                "name": data.names.get(row.capability_id, row.capability_id),
                "href": _link(row.target, row.capability_id, decided),
            }
            for row in sorted(data.agreement, key=lambda row: (row.target, row.capability_id, row.between))
        ],
        "stability": [
            {"row": row, "href": _link(row.target, row.capability_id, decided)}
            for row in sorted(data.stability, key=lambda row: (row.target, -row.kept, row.name))
        ],
        "nulls": [
            next(row for row in data.stability if row.target == target)
            for target in sorted({row.target for row in data.stability})
        ],
        "left_out": _left_out(data.left_out),
    }


def _left_out(problems: Sequence[Problem]) -> Any:
    """Return how many there are of each kind, and the first, their files by name alone; nothing of none."""
    first = [one.model_copy(update={"path": PurePath(one.path).name}) for one in problems[:MOST_LEFT_OUT]]
    return problems and {
        "n": len(problems),
        "kinds": counted_kinds(problems),
        "files": len({one.path for one in problems}),
        "first": [str(one) for one in first],
    }


def _link(target: str, capability: str, decided: set[str]) -> str:
    return f"#{capability_anchor(target, capability)}" if capability in decided else ""


def _faults(data: ReportData, target: str) -> dict[str, Any]:
    own = [row for row in data.triage if row.target == target]
    others = [row for row in own if row.outcome != "passed" and row.fault != "agent"]
    return {
        "target": target,
        "n": sum(row.outcome != "passed" for row in own),
        "shares": [share for share in fault_shares(own) if share["n"]],
        "others": others[:MOST_FAULTS],
        "n_more": max(0, len(others) - MOST_FAULTS),
    }

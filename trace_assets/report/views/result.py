"""The section with the result: arms, skills, and how far they may be trusted."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from trace_assets.records import ArmSummary
from trace_assets.report import figures
from trace_assets.report.data import ReportData
from trace_assets.report.plots import Dot, interval_dots


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


def arms_plot(data: ReportData) -> str:
    """Return the pass rates of all arms as an SVG."""
    base = data.overall.get("base")
    dots = [
        Dot(
            label=figures.arm_name(row.arm, data.names),
            value=row.pass_rate,
            low=row.pass_rate_low,
            high=row.pass_rate_high,
            text=figures.percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
            note=basis(row),
            tone="strong" if row.arm == "routed" else "",
        )
        for row in sorted(data.overall.values(), key=lambda row: place(row.arm))
        if row.pass_rate is not None and row.pass_rate_low is not None and row.pass_rate_high is not None
    ]
    return interval_dots(dots, title="Pass rate of each arm", reference=base.pass_rate if base else None)


def basis(row: ArmSummary) -> str:
    """Return what a figure rests on, such as `400 tasks, 1,600 trials`."""
    return f"{figures.count(row.n_tasks, 'task')}, {figures.count(row.n_trials, 'trial')}"


def place(arm: str) -> tuple[int, str]:
    """Return where an arm stands among the others: base first, then what the study is about."""
    order = ["base", "routed", "oracle_routed", "mixed_grpo"]
    return (order.index(arm) if arm in order else len(order), arm)


def _notes(data: ReportData, base: ArmSummary | None) -> list[str]:
    notes = []
    routed, mixed = data.overall.get("routed"), data.overall.get("mixed_grpo")
    if base is None:
        notes.append("There is no base arm, so no difference can be shown.")
    if routed and mixed and routed.pass_rate is not None and mixed.pass_rate is not None:
        notes.append(
            "Comparison at equal rollouts: GRPO on the target itself reaches "
            f"{figures.percent(mixed.pass_rate, mixed.pass_rate_low, mixed.pass_rate_high)}, routed adapters "
            f"{figures.percent(routed.pass_rate, routed.pass_rate_low, routed.pass_rate_high)} on "
            f"{basis(routed)}. It is shown whether or not it loses."
        )
    faults = sum(row.n_faults for row in data.overall.values())
    if faults:
        notes.append(f"{figures.count(faults, 'trial')} broke and count in no rate.")
    return notes

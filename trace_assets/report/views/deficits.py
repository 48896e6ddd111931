"""The section with the diagnosis: outcomes, the gap plot, what was kept and what was not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from markupsafe import Markup, escape

from trace_assets.diagnosis.leak import EMPTY_RELEVANT, empty_contrast
from trace_assets.records import Contrast, Decision, DecisiveShare, SelectedCapability
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import cause_rows, error_rows, expected_rows
from trace_assets.report.data import ReportData
from trace_assets.report.headline import (
    WHAT_HELPS,
    contrasted,
    fallen,
    fault_shares,
    nothing_found,
    overridden,
    put_aside,
    who_played,
)
from trace_assets.report.plots import Point, scatter
from trace_assets.report.views.evidence import capability_anchor, evidence_links

MOST_ROWS = 20
"""Rows of what was expected and of refused calls that the page shows."""
MOST_FAILURES = 200
"""Failed runs that the page lists with their cause."""
_TONES = {
    "passed": 0,
    "failed by the agent": 1,
    "spoilt by the user simulator": 2,
    "spoilt by a wrong ground truth": 6,
    "spoilt by environment or grader": 3,
    "broken by infrastructure": 4,
    "not judged": 5,
}


def deficits_view(data: ReportData) -> dict[str, Any]:
    """Return outcomes by target, candidates by target, and warnings."""
    return {
        "outcomes": [
            {
                "name": target,
                "n": n,
                "aside": put_aside(data, target),
                "words": ", ".join(f"{count} {name}" for name, count in shares.items()),
                "parts": [
                    {"name": name, "n": count, "tone": _TONES[name], "width": f"{100 * count / n:.2f}"}
                    for name, count in shares.items()
                ],
            }
            for target, (n, shares) in fault_shares(data.triage).items()
        ],
        "overridden": overridden(data),
        "groups": [_group(data, target) for target in _by_find(data)],
        "with_shares": any(row.share is not None for row in data.decisive),
        "fallen": fallen(data) if data.nothing_found else [],
        "nothing_found": f"{nothing_found(data)} {WHAT_HELPS}" if data.nothing_found else "",
        "without": _without(data),
        "suspects": _suspects(data),
        "causes": cause_rows(data.causes, MOST_FAILURES),
        "n_causes": len(data.causes),
        "expected": expected_rows(data.diffs, MOST_ROWS),
        "errors": error_rows(data.tool_use, MOST_ROWS),
        "warnings": _warnings(data),
    }


def _by_find(data: ReportData) -> list[str]:
    """Return the targets that have candidates, those with a kept one first: it is what a reader looks for."""
    found = {row.target for row in data.kept}
    return sorted({row.target for row in data.contrasts}, key=lambda target: (target not in found, target))


def _suspects(data: ReportData) -> list[dict[str, Any]]:
    """Return the doubtful tasks, those that are put aside first, each with all that speaks against it."""
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(data.suspects, key=lambda row: (not row.aside, row.grade != "wrong", row.task_id)):
        one = found.setdefault(
            row.task_id,
            {
                "task": row.task_id,
                "aside": row.aside,
                "grade": row.grade,
                "why": [],
                "n_passed": row.n_passed,
                "n_failed": row.n_failed,
            },
        )
        one["why"].append(row.detail)
    return list(found.values())


def gap_plot(data: ReportData, target: str, marks: Mapping[str, str] | None = None) -> str:
    """Return gap against coverage of one target's candidates as an SVG.

    Args:
        data: The contrasts, and the decisions where there are any.
        target: Whose candidates.
        marks: Capability id to what is written on it; the rank of the kept ones unless given.
    """
    decisions = {row.capability_id: row for row in data.selected if row.target == target}
    points, lowest = [], 0.0
    for row in data.contrasts:
        if row.target != target or None in (row.gap, row.gap_low, row.gap_high, row.coverage_low):
            continue
        decision = decisions.get(row.capability_id)
        kept = decision is not None and decision.kept
        name = data.names.get(row.capability_id, row.capability_id)
        assert row.gap is not None and row.gap_low is not None and row.gap_high is not None
        assert row.coverage is not None and row.coverage_low is not None and row.coverage_high is not None
        lowest = min(lowest, row.gap_low)
        points.append(
            Point(
                x=(row.gap, row.gap_low, row.gap_high),
                y=(row.coverage, row.coverage_low, row.coverage_high),
                title=f"{name}: gap {formatting.share(row.gap, row.gap_low, row.gap_high)}, coverage "
                f"{formatting.share(row.coverage, row.coverage_low, row.coverage_high)}, "
                f"n = {row.n_failed_relevant} failures and {row.n_passed_relevant} successes",
                mark=marks.get(row.capability_id, "")
                if marks is not None
                else str(decision.rank)
                if decision is not None and kept
                else "",
                tone="strong" if kept or (marks is not None and row.capability_id in marks) else "",
            )
        )
    return scatter(
        points,
        title=f"Gap and coverage of the candidates in {target}",
        x_label="gap: ER- minus ER+",
        y_label="coverage of failures",
        x_limit=data.thresholds.min_gap,
        y_limit=data.thresholds.min_coverage,
        x_low=-0.5 if lowest < -0.02 else 0.0,
    )


def _group(data: ReportData, target: str) -> dict[str, Any]:
    decisions = {row.capability_id: row for row in data.selected if row.target == target}
    links = evidence_links(data)
    shares = {row.capability_id: row for row in data.decisive if row.target == target}
    rows = sorted(
        (
            _row(
                data,
                row,
                decisions.get(row.capability_id),
                links.get(row.capability_id, []),
                shares.get(row.capability_id),
            )
            for row in data.contrasts
            if row.target == target
        ),
        key=lambda row: row["rank"],
    )
    contrasts = [row for row in data.contrasts if row.target == target]
    return {
        "target": target,
        "decided": bool(decisions),
        "plot": Markup(gap_plot(data, target)),
        "played": _with_code(who_played(policies)) if (policies := contrasts[0].policies) else "",
        "n_failed": contrasted(data, target),
        "n_tasks": max(row.n_tasks for row in contrasts),
        "kept": [row for row in rows if row["kept"]],
        "rejected": [row for row in rows if not row["kept"]],
        "counts": _counts(row["decision"] for row in rows if not row["kept"]),
        "fold": any(row.kept for row in data.selected),  # what was found comes first, the rest on a click
    }


def _counts(decisions: Iterable[str]) -> str:
    """Say how many candidates each decision was made on; nothing of what is not decided yet.

    >>> _counts(["rejected", "seen once", "rejected"])
    '1 seen once, 2 rejected'
    """
    counts = Counter(decisions)
    order = [word for word in get_args(Decision) if counts[word]]
    return ", ".join(f"{counts[word]:,} {word}" for word in order)


def _with_code(text: str) -> Markup:
    """Return a sentence for the page, with what stands between backticks set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _row(
    data: ReportData,
    contrast: Contrast,
    decision: SelectedCapability | None,
    links: list[dict[str, Any]],
    share: DecisiveShare | None,
) -> dict[str, Any]:
    return {
        "c": contrast,
        "d": share,
        "name": data.names.get(contrast.capability_id, contrast.capability_id),
        "anchor": capability_anchor(contrast.target, contrast.capability_id) if decision else "",
        "links": links,
        "kept": decision is not None and decision.kept,
        "decision": formatting.decision(decision.verdict, decision.kept) if decision else "",
        "rank": decision.rank if decision else 10_000,
        "reason": decision.reason if decision else "not decided yet",
    }


def _without(data: ReportData) -> list[dict[str, Any]]:
    """Return targets that were diagnosed with the others, and for which nothing was proposed."""
    proposed = {row.target for row in data.contrasts}
    return [
        {
            "name": target,
            "n": contrasted(data, target),
        }
        for target in sorted({row.target for row in data.triage} - proposed)
        if proposed
    ]


def _warnings(data: ReportData) -> list[str]:
    empty = [data.names.get(row.capability_id, row.capability_id) for row in empty_contrast(data.contrasts)]
    if not empty:
        return []
    return [
        f"{formatting.count(len(empty), 'candidate has', 'candidates have')} an ER+ of exactly 0 with "
        f"{EMPTY_RELEVANT} or more relevant successes, or {'is' if len(empty) == 1 else 'are'} "
        "lacking in every failure and in no success of "
        f"{EMPTY_RELEVANT} or more trajectories. Either every lack is fatal, or the labels follow the "
        f"outcome: {', '.join(empty)}."
    ]

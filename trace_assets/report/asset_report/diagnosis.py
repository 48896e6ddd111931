"""What the diagnosis shows: candidates, the label matrix, the gap plot, and every decision."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from trace_assets.diagnosis.repair.shares import decisive_words, placebo_words
from trace_assets.records import Capability, Contrast, DecisiveShare, Label, Repair, SelectedCapability
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import AssetReport, Row
from trace_assets.report.data import ReportData
from trace_assets.report.plots import pictured
from trace_assets.report.views.deficits import gap_plot
from trace_assets.settings import Selection

MOST_MARKS = 9
"""Candidates that carry their number in the plot: more would hide each other."""


def dictionary_report(capabilities: Sequence[Capability]) -> AssetReport:
    """Show every candidate with who proposed it, most proposals first."""
    rows: list[Row] = [
        {
            "capability": one.name,
            "target": one.target,
            "proposed by": one.analyst,
            "detector": one.detector or "",
            "proposals": one.n_proposals,
            "reading": one.reading,
        }
        for one in sorted(capabilities, key=lambda one: (one.target, -one.n_proposals, one.name))
    ]
    return AssetReport(tables={"proposed": rows})


def labels_report(labels: Iterable[Label], names: Mapping[str, str]) -> AssetReport:
    """Show how often each label was given to each candidate, and by whom."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    who: dict[str, set[str]] = defaultdict(set)
    for label in labels:
        counts[label.capability_id][label.label] += 1
        who[label.capability_id].add(label.labeller)
    rows: list[Row] = [
        {
            "capability": names.get(name, name),
            **{value: counted[value] for value in ("LACKING", "PRESENT", "NA")},
            **({"cannot tell": counted["CANNOT_TELL"]} if counted["CANNOT_TELL"] else {}),
            "labels": sum(counted.values()),
            "labelled by": ", ".join(sorted(who[name])),
        }
        for name, counted in sorted(counts.items(), key=lambda item: -item[1]["LACKING"])
    ]
    return AssetReport(tables={"labels": rows})


def repairs_report(repairs: Iterable[Repair], names: Mapping[str, str]) -> AssetReport:
    """Show what became of the repaired runs of each candidate, and why others could not be tried."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    whys: dict[str, Counter[str]] = defaultdict(Counter)
    for one in repairs:
        counts[one.capability_id][one.status] += 1
        counts[one.capability_id]["placebo passes"] += bool(one.placebo_passed)
        if one.detail:
            whys[one.capability_id][one.detail] += 1
    columns = ("decisive", "not decisive", "placebo passes", "not repairable", "not replayable")
    rows: list[Row] = [
        {
            "capability": names.get(name, name),
            **{column: counted[column] for column in columns},
            "why not": whys[name].most_common(1)[0][0] if whys[name] else "",
        }
        for name, counted in sorted(counts.items(), key=lambda item: (-item[1]["decisive"], item[0]))
    ]
    return AssetReport(tables={"repaired runs": rows})


def contrast_report(
    contrasts: Sequence[Contrast], names: Mapping[str, str], thresholds: Selection
) -> AssetReport:
    """Show gap against coverage of every target's candidates, numbered by gap, and all figures."""
    pages: dict[str, str] = {}
    tables: dict[str, list[Row]] = {}
    for target in sorted({row.target for row in contrasts}):
        own = sorted(
            (row for row in contrasts if row.target == target),
            key=lambda row: (row.gap is None, -(row.gap or 0.0), row.capability_id),
        )
        marks = {row.capability_id: str(place) for place, row in enumerate(own[:MOST_MARKS], 1)}
        data = ReportData(contrasts=own, thresholds=thresholds)
        words = (
            f"{_legend(own[:MOST_MARKS], names)}\n\n"
            "Dashed: the thresholds of [selection] in force then. "
            f"95 % intervals over {formatting.count(max(row.n_tasks for row in own), 'task')}, "
            f"{formatting.count(max(row.n_failed for row in own), 'failure')} of the agent and "
            f"{formatting.count(max(row.n_passed for row in own), 'success', 'successes')}."
        )
        pages |= pictured(f"gap and coverage in {target}", gap_plot(data, target, marks), words)
        tables[f"candidates of {target}"] = [
            {"#": place, **_figures(row, names)} for place, row in enumerate(own, 1)
        ]
    return AssetReport(pages, tables)


def selection_report(
    selected: Sequence[SelectedCapability],
    contrasts: Sequence[Contrast],
    thresholds: Selection,
    decisive: Sequence[DecisiveShare] = (),
) -> AssetReport:
    """Show the decision on every candidate with its reason, and where the kept ones lie."""
    shares = {(row.target, row.capability_id): row for row in decisive}
    by_id = {(row.target, row.capability_id): row for row in contrasts}
    pages: dict[str, str] = {}
    tables: dict[str, list[Row]] = {}
    data = ReportData(contrasts=contrasts, selected=selected, thresholds=thresholds)
    for target in sorted({row.target for row in selected}):
        own = sorted((row for row in selected if row.target == target), key=lambda row: row.rank)
        tables[f"decisions on {target}"] = [
            {
                "rank": row.rank if row.kept else "",
                "capability": row.name,
                "decision": formatting.decision(row.verdict, row.kept),
                "reason": row.reason,
                **_gap(by_id.get((target, row.capability_id))),
                "decisive": decisive_words(shares.get((target, row.capability_id))),
                "placebo": placebo_words(shares.get((target, row.capability_id))),
            }
            for row in own
        ]
        rows = [row for row in contrasts if row.target == target]
        if rows:
            n = formatting.count(max(row.n_tasks for row in rows), "task")
            words = f"Numbers: rank of what is kept. 95 % intervals over {n}."
            pages |= pictured(f"kept in {target}", gap_plot(data, target), words)
    return AssetReport(pages, tables)


def _legend(rows: Sequence[Contrast], names: Mapping[str, str]) -> str:
    """Name the numbered candidates, each with what its place rests on."""
    return "\n".join(
        f"{place}. {names.get(row.capability_id, row.capability_id)}: "
        f"{formatting.count(row.n_failed_relevant, 'failure')} and "
        f"{formatting.count(row.n_passed_relevant, 'success', 'successes')} needed it"
        for place, row in enumerate(rows, 1)
    )


def _gap(row: Contrast | None) -> Row:
    if row is None:
        return {"gap": formatting.NONE, "coverage": formatting.NONE}
    return {
        "gap": formatting.share(row.gap, row.gap_low, row.gap_high),
        "coverage": formatting.share(row.coverage, row.coverage_low, row.coverage_high),
    }


def _figures(row: Contrast, names: Mapping[str, str]) -> Row:
    return {
        "capability": names.get(row.capability_id, row.capability_id),
        **_gap(row),
        "ER-": f"{formatting.share(row.er_failed, row.er_failed_low, row.er_failed_high)} "
        f"of {row.n_failed_relevant}",
        "ER+": f"{formatting.share(row.er_passed, row.er_passed_low, row.er_passed_high)} "
        f"of {row.n_passed_relevant}" + (f", {row.n_passed_aside} lucky aside" if row.n_passed_aside else ""),
        "q": formatting.p_value(row.q_value),
    }

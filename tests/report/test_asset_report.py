"""What stages show: every plot with its n, every table with the same columns in all rows, titles apart."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET

import pytest

from trace_assets.records import BaseCheckpoint, Task, TrajectoryHead
from trace_assets.report.asset_report.diagnosis import (
    contrast_report,
    dictionary_report,
    labels_report,
    selection_report,
)
from trace_assets.report.asset_report.rollouts import (
    AssetReport,
    base_model_report,
    shares,
    trajectories_report,
    triage_report,
)
from trace_assets.report.asset_report.training import (
    adapter_report,
    audit_report,
    evaluation_report,
    harm_report,
    routing_report,
)
from trace_assets.report.data import ReportData
from trace_assets.report.views.result import oracle_choices


def drawn(asset_report: AssetReport) -> dict[str, ET.Element]:
    """Return the plots as XML; each must be an image with what it rests on beneath."""
    plots = {}
    for title, page in asset_report.pages.items():
        image, _, basis = page.partition("\n\n")
        found = re.fullmatch(r"!\[[^\]]+\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", image)
        assert found is not None and len(page) < 100_000, title
        assert any(one.isdigit() for one in basis) or "n =" in base64.b64decode(found[1]).decode(), title
        plots[title] = ET.fromstring(base64.b64decode(found[1]))
    for title, rows in asset_report.tables.items():
        assert title not in asset_report.pages, f"'{title}' is a plot and a table: one would hide the other"
        assert len({tuple(row) for row in rows}) <= 1, title
    return plots


def test_diagnosis_shows_candidates_labels_gaps_and_decisions(diagnosed: ReportData) -> None:
    thresholds = diagnosed.thresholds
    found = contrast_report(diagnosed.contrasts, diagnosed.names, thresholds)
    assert list(drawn(found)) == ["gap and coverage in embedded"]
    rows = found.tables["candidates of embedded"]
    assert len(rows) == len(diagnosed.contrasts) and [row["#"] for row in rows] == [*range(1, len(rows) + 1)]
    assert all(re.search(r"\[.*\] of \d+", str(row["ER-"])) for row in rows if row["ER-"] != "– of 0")
    chosen = selection_report(diagnosed.selected, diagnosed.contrasts, thresholds)
    assert list(drawn(chosen)) == ["kept in embedded"]
    kept = [row for row in chosen.tables["decisions on embedded"] if row["decision"] == "kept"]
    assert [row["rank"] for row in kept] == [*range(1, len(diagnosed.kept) + 1)]
    assert all(row["reason"] for row in chosen.tables["decisions on embedded"])
    table = dictionary_report(diagnosed.capabilities).tables["proposed"]
    assert {row["capability"] for row in table} == set(diagnosed.names.values())


def test_label_table_counts_every_label(diagnosed: ReportData) -> None:
    labels = [sample.label for sample in diagnosed.samples]
    rows = labels_report(labels, diagnosed.names).tables["labels"]
    assert sum(int(row["labels"] or 0) for row in rows) == len(labels) > 0
    for row in rows:
        assert row["labels"] == sum(int(row[value] or 0) for value in ("LACKING", "PRESENT", "NA"))


def test_triage_shows_shares_of_the_failures(diagnosed: ReportData) -> None:
    found = triage_report(diagnosed.triage)
    words = [
        one.text or "" for one in drawn(found)["who is to blame"].iter("{http://www.w3.org/2000/svg}text")
    ]
    failures = sum(row.outcome != "passed" for row in diagnosed.triage)
    assert any(f"n = {failures}" in one for one in words) and "the agent" in words
    assert sum(int(row["failures"] or 0) for row in found.tables["rules"]) == failures
    assert triage_report([row for row in diagnosed.triage if row.outcome == "passed"]) == AssetReport()


def head(number: int, task: str, success: bool | None) -> TrajectoryHead:
    return TrajectoryHead(
        trajectory_id=f"r{number}", task_id=task, target="t", task_batch="b", policy="p", success=success
    )


def test_pass_rates_by_tag_leave_out_what_was_not_judged() -> None:
    tasks = {
        name: Task(task_id=name, target="t", task_batch="b", tags=(tag,))
        for name, tag in (("one", "cancel"), ("two", "cancel"), ("three", "window"))
    }
    heads = [head(i, task, ok) for i, (task, ok) in enumerate(
        [("one", True), ("one", False), ("two", False), ("three", True), ("three", None), ("else", False)]
    )]  # fmt: skip
    found = trajectories_report(heads, tasks)
    rows = {row["tag"]: row for row in found.tables["pass rates"]}
    assert (rows["cancel"]["tasks"], rows["cancel"]["trials"]) == (2, 3)
    assert str(rows["cancel"]["pass rate"]).startswith("25.0 %")  # every task weighs the same
    assert rows["window"]["trials"] == 1 and "t" in rows  # a task without tags counts under its target
    assert sum(int(row["trajectories"] or 0) for row in found.tables["how it ended"]) == len(heads)
    assert list(drawn(found)) == ["pass rate by tag"]
    assert trajectories_report([head(0, "one", None)], tasks).pages == {}


def test_shares_of_one_task_have_no_interval() -> None:
    alone = shares({"a": [("x", True), ("x", False)]})[0]
    assert alone.estimate.value == pytest.approx(0.5) and alone.estimate.low is None


def test_loop_shows_adapters_routers_arms_and_harm(complete: ReportData) -> None:
    names = complete.names
    for adapter in complete.adapters:
        curve = [point for point in complete.curves if point.name == adapter.name]
        assert {"before and after"} <= set(drawn(adapter_report(adapter, curve, adapter.name)))
    assert drawn(adapter_report(complete.adapters[0], [], "x")).keys() == {"before and after"}
    truth = oracle_choices(complete.evaluations)
    routes = [route for route in complete.routes if route.router == complete.routes[0].router]
    asked = {"classifier on test tasks": (routes, truth), "nobody on no tasks": ([], {})}
    found = routing_report(asked, complete.router_scores, names)
    assert set(drawn(found)) == {
        "confusion of the classifier on test tasks",
        "reliability of the classifier on test tasks",
    }
    assert len(found.tables["scores"]) == len(complete.router_scores)
    result = evaluation_report(complete.summary, complete.regrets, complete.capabilities)
    assert list(drawn(result)) == ["pass rates of all arms"]
    assert len(result.tables["pass rates"]) == len(complete.overall)
    assert len(result.tables["pass rates by skill"]) == len(complete.overall)
    assert evaluation_report([], [], []) == AssetReport()
    harm = harm_report(complete.harm, [complete.harm[0].adapter], names)
    drawn(harm)
    assert harm.tables["harm"][0]["router"] == "may not choose it"
    assert all(row["router"] == "may choose it" for row in harm.tables["harm"][1:])


def test_audit_lists_failed_checks_first(complete: ReportData) -> None:
    rows = audit_report(complete.checks).tables["audit"]
    assert len(rows) == len(complete.checks)
    statuses = [str(row["status"]).split(" ")[0] for row in rows]
    assert statuses == sorted(statuses, key=["fail", "skip", "pass"].index)


def test_base_model_shows_nothing_where_nothing_was_measured() -> None:
    measured = BaseCheckpoint(
        base_id="b", path="p", parameters=1, steps=1,
        pass_rate=0.5, pass_rate_low=0.4, pass_rate_high=0.6, n=90,
    )  # fmt: skip
    assert "n = 90" in "".join(drawn(base_model_report(measured, 0.4, 0.65))["pass rate"].itertext())
    assert base_model_report(measured.model_copy(update={"pass_rate": None}), 0.4, 0.65) == AssetReport()

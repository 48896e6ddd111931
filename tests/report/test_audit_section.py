"""The section on audits: every finding is there, readable at a glance, and hostile evidence stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from trace_assets.records import EnvironmentCheck
from trace_assets.report.asset_report.training import audit_report
from trace_assets.report.data import ReportData
from trace_assets.report.page import render
from trace_assets.report.views.environments import LEVELS, audit_view, kill_rate, strongest


@pytest.fixture(scope="module")
def section(complete: ReportData) -> Iterator[str]:
    page = render(complete)
    start = page.index('<section id="audit">')
    yield page[start : page.index("</section>", start)]


def test_every_finding_of_every_environment_is_listed(section: str, complete: ReportData) -> None:
    for row in complete.checks:
        assert section.count(f"<code>{row.check_id}</code>") == len(complete.environments)
    for one in complete.environments:
        assert f'id="audit-{one.environment_id}"' in section
    assert section.count('<tr><td data-label="check">') == len(complete.checks)


def test_attackers_and_kill_rate_are_told_before_the_tables(section: str) -> None:
    note = section[section.index('<p class="note">') : section.index("<table")]
    assert "97.5 % [0.88, 1.00] of 64 harmful mutants" in note
    assert "spam_all with 0.167 [0.07, 0.27], of 2 attackers" in note
    assert "Severity policy 2" in note
    assert '<i style="width:17%"></i>' in section


def test_attackers_stand_in_the_order_of_what_they_earned(section: str) -> None:
    assert section.index("trace.attacker.spam_all") < section.index("trace.attacker.echo")


def test_hostile_evidence_is_text(section: str) -> None:
    assert "<script>" not in section and "&lt;script&gt;alert(1)" in section


def test_every_level_of_the_record_has_a_place() -> None:
    levels = EnvironmentCheck.model_fields["level"].annotation
    assert set(LEVELS) == set(getattr(levels, "__args__", ()))


def test_without_mutants_and_attackers_it_says_so(complete: ReportData) -> None:
    few = [row for row in complete.checks if row.level not in ("mutation", "adversarial")]
    assert kill_rate(few) == "not measured"
    assert strongest(few) == "none was played"
    skipped = next(row for row in complete.checks if row.check_id == "trace.mutation.kill_rate")
    skipped = skipped.model_copy(update={"value": None, "status": "skip", "evidence": "spam_all failed"})
    assert kill_rate([skipped]) == "not measured: spam_all failed"
    assert audit_report(few).pages == {}
    assert "97.5 %" in audit_report(complete.checks).pages["attackers"]


def test_a_rejected_environment_is_open(complete: ReportData) -> None:
    views: list[dict[str, Any]] = audit_view(complete)
    assert {view["open"] for view in views} >= {view["verdict"] == "rejected" for view in views}
    assert all(view["open"] == (view["verdict"] == "rejected") for view in views)
    assert re.fullmatch(r"\d+ passed, \d+ failed, \d+ skipped", views[0]["counts"])

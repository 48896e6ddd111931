from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from trace_assets.diagnosis.repair.shares import NOT_YET, OF_OTHERS
from trace_assets.records import DecisiveShare, SuspectTask
from trace_assets.report.data import ReportData
from trace_assets.report.headline import contrasted, headline
from trace_assets.report.page import render
from trace_assets.report.terminal import audit_outcome, print_diagnosis, print_found, print_loop
from trace_assets.report.views.deficits import deficits_view


def shown(data: ReportData, width: int = 140) -> str:
    console = Console(file=StringIO(), width=width, color_system=None, highlight=False)
    print_diagnosis(data, console)
    print_loop(data, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines() if "─" in line)
    return str(text)


def test_diagnosis_shows_figures_with_interval_and_n(diagnosed: ReportData) -> None:
    text = shown(diagnosed)
    assert "400 trajectories: " in text and "spoilt by the user simulator" in text
    for row in diagnosed.contrasts:
        if row.gap is not None and row.gap_low is not None and abs(row.gap) > 0.01:
            assert f"{row.gap:.2f}" in text and f"[{row.gap_low:.2f}, {row.gap_high:.2f}]" in text
        assert f"n = {row.n_failed_relevant}" in text
    assert text.index("kept, 1") < text.index("kept, 2") < text.index("rejected")
    assert "<b>&</b>" in text  # names are not markup
    assert headline(diagnosed) in text


def test_what_is_kept_comes_last_by_name_and_alone(diagnosed: ReportData) -> None:
    console = Console(file=StringIO(), width=140, color_system=None, highlight=False)
    print_found(diagnosed, console)
    said, *names = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert said == headline(diagnosed) and len(names) == len(diagnosed.kept) > 1
    for line, row in zip(names, diagnosed.kept, strict=True):
        assert line.split() == [str(row.rank), *diagnosed.names[row.capability_id].split(), f"({row.target})"]
    one = replace(diagnosed, selected=[diagnosed.kept[0]])
    assert "1 of 1 candidate capability separates " in headline(one)


def test_terminal_and_page_hold_candidates_against_the_same_failures(diagnosed: ReportData) -> None:
    own = [row for row in diagnosed.triage if row.outcome == "failed" and row.fault == "agent"]
    task = own[0].task_id
    row = {"task_id": task, "number": 0, "target": "embedded", "grade": "wrong", "rule": "r", "detail": "d"}
    suspects = [SuspectTask.model_validate(row | {"aside": True})]
    left = sum(row.task_id != task for row in own)
    contrasts = [row.model_copy(update={"n_failed": left}) for row in diagnosed.contrasts]
    one = replace(diagnosed, contrasts=contrasts, suspects=suspects)
    assert contrasted(one) == contrasted(replace(one, contrasts=[])) == left < len(own)
    assert f" of {left} failures lack one of them" in headline(one)
    assert deficits_view(one)["groups"][0]["n_failed"] == left and f"; {left} in the contrast" in render(one)


def test_what_was_not_tested_has_no_p(diagnosed: ReportData) -> None:
    one = diagnosed.contrasts[0].model_copy(update={"p_value": 0.0123, "q_value": None})
    data = replace(diagnosed, contrasts=[one], selected=[])
    assert "0.012" not in shown(data) + render(data)
    tested = replace(data, contrasts=[one.model_copy(update={"q_value": 0.5})])
    assert "0.012" in shown(tested) and "p 0.012" in render(tested)


def share_of(capability: str, value: float | None, *, partial: bool = False, why: str = "") -> DecisiveShare:
    low, high = (None, None) if value is None else (0.89, 0.97)
    n = 0 if value is None else 151
    return DecisiveShare(
        capability_id=capability,
        target="embedded",
        share=value,
        share_low=low,
        share_high=high,
        n_replayed=n,
        n_decisive=round(n * (value or 0)),
        n_tasks=n,
        placebo=None if value is None else 0.02,
        placebo_low=None if value is None else 0.01,
        placebo_high=None if value is None else 0.06,
        n_placebo=n,
        n_lacking=151,
        n_not_repairable=0,
        n_not_replayable=0,
        lower_bound=partial,
        not_measured=why,
    )


@pytest.mark.parametrize("width", [50, 80, 140])
def test_the_decisive_share_stands_beside_the_gap_with_its_placebo(diagnosed: ReportData, width: int) -> None:
    first, second, *rest = [row.capability_id for row in diagnosed.contrasts]
    shares = [share_of(first, 0.94), share_of(second, 0.5, partial=True)]
    shares += [share_of(name, None, why="not measured: nobody was replayed") for name in rest]
    flat = " ".join(shown(replace(diagnosed, decisive=shares), width).split())
    for word in ("decisive", "0.94", "0.02", "at least"):
        assert word in flat
    n = f"{len(rest)} candidate{'s' if len(rest) > 1 else ''}"
    assert f"Decisive share of {n}: not measured: nobody was replayed." in flat
    page = deficits_view(replace(diagnosed, decisive=shares))["groups"][0]
    told = {row["c"].capability_id: row["d"] for row in (*page["kept"], *page["rejected"])}
    assert told[first] == shares[0] and told[rest[0]].not_measured


@pytest.mark.parametrize("width", [80, 200])
def test_the_whole_loop_fits(complete: ReportData, width: int) -> None:
    text = shown(complete, width)
    flat = " ".join(text.split())
    for title in ("What the agent lacks", "Environments", "Adapters", "On tasks never seen before", "Cost"):
        assert title in flat
    assert text.rstrip().endswith(headline(complete))


def test_arms_and_audits(complete: ReportData) -> None:
    text = shown(complete, 200)
    routed = complete.overall["routed"]
    assert routed.delta is not None
    assert f"{100 * routed.delta:+.1f} [" in text and "240 x " in text
    assert "rejected: 6 passed, 1 failed, 1 skipped" in text and "accepted: 7 passed, 1 skipped" in text
    assert audit_outcome([row for row in complete.checks if row.status == "pass"]).startswith("accepted")


def test_nothing_yet() -> None:
    assert "Nothing has been run yet" in shown(ReportData())


def test_triage_alone_says_what_comes_next(diagnosed: ReportData) -> None:
    text = shown(replace(diagnosed, contrasts=(), selected=(), samples=()))
    assert "run `trace" in text


def test_the_table_shows_a_screen_of_candidates_and_counts_the_others(diagnosed: ReportData) -> None:
    decided, row = diagnosed.selected[0], diagnosed.contrasts[0]
    names = [f"c{n:02}" for n in range(30)]
    many = replace(
        diagnosed,
        contrasts=[row.model_copy(update={"capability_id": name}) for name in names],
        selected=[
            decided.model_copy(
                update={"capability_id": name, "kept": name == "c29", "rank": n + 1}
                | {"verdict": "kept" if name == "c29" else "promising" if name == "c28" else "rejected"}
            )
            for n, name in enumerate(names)
        ],
    )
    text = shown(many)
    assert text.index("c29") < text.index("c28") < text.index("c00") < text.index("c07")
    assert "c08" not in text and "20 more candidates, none of them kept: trace sql gap_table" in text
    assert "more candidate" not in shown(diagnosed)
    once = [decided.model_copy(update={"verdict": "seen once", "reason": "seen once: one failure lacks it"})]
    once = [one.model_copy(update={"kept": False}) for one in once]
    told = replace(diagnosed, selected=once, contrasts=[row])
    assert shown(told).count("seen once") == 1 and "one failure lacks it" in " ".join(shown(told).split())
    assert deficits_view(told)["groups"][0]["counts"] == "1 seen once"


def test_nothing_is_said_of_repairs_where_no_run_can_be_replayed(diagnosed: ReportData) -> None:
    names = [row.capability_id for row in diagnosed.contrasts]
    elsewhere = replace(diagnosed, decisive=[share_of(name, None, why=OF_OTHERS) for name in names])
    assert "Decisive" not in shown(elsewhere)
    not_yet = replace(diagnosed, decisive=[share_of(names[0], None, why=NOT_YET)])
    assert "trace sync" in shown(not_yet).partition("Decisive share")[2]


def test_the_page_begins_with_the_target_where_something_was_found(diagnosed: ReportData) -> None:
    other = [row.model_copy(update={"target": "a first one"}) for row in diagnosed.contrasts]
    groups = deficits_view(replace(diagnosed, contrasts=[*other, *diagnosed.contrasts]))["groups"]
    assert [group["target"] for group in groups] == [diagnosed.contrasts[0].target, "a first one"]


def test_the_page_sets_commands_as_code_and_never_a_policy_as_markup(diagnosed: ReportData) -> None:
    two = [row.model_copy(update={"policies": ("<b>a</b>", "b")}) for row in diagnosed.contrasts]
    played = str(deficits_view(replace(diagnosed, contrasts=two))["groups"][0]["played"])
    assert "<code>trace diagnose --policy NAME</code>" in played and "&lt;b&gt;a" in played

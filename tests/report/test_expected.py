"""What the page says of wrong tasks, of what was expected, and of refused calls."""

from __future__ import annotations

import io

from rich.console import Console

from trace_assets.cli.tables import print_suspects
from trace_assets.records import ActionDiff, FailureCause, SuspectTask, ToolUse
from trace_assets.report.asset_report.rollouts import error_rows, expected_rows
from trace_assets.report.data import ReportData
from trace_assets.report.page import render
from trace_assets.report.views.deficits import MOST_FAILURES


def diff(run: str, kind: str, tool: str, *changed: str, number: int = 0) -> ActionDiff:
    return ActionDiff.model_validate(
        {
            "trajectory_id": run,
            "number": number,
            "target": "gym",
            "task_id": "gym/1",
            "policy": "p",
            "kind": kind,
            "tool": tool,
            "changed": changed,
        }
    )


def used(tool: str, calls: int, errors: int, batch: str = "b") -> ToolUse:
    return ToolUse(
        target="gym",
        policy="p",
        tool=tool,
        task_batch=batch,
        n_runs=calls,
        n_calls=calls,
        n_errors=errors,
        n_unrecovered=errors // 2,
        n_unrecovered_failed=0,
    )


SUSPECTS = [
    SuspectTask(
        task_id="gym/2", number=0, target="gym", grade="suspected", rule="unpassed", detail="none <passed>"
    ),
    SuspectTask(
        task_id="gym/1", number=0, target="gym", grade="wrong", rule="x", detail="it <cannot> be", aside=True
    ),
    SuspectTask(
        task_id="gym/1", number=1, target="gym", grade="wrong", rule="y", detail="nor that", aside=True
    ),
]


def test_differences_are_counted_in_runs_with_their_arguments() -> None:
    rows = expected_rows(
        [
            diff("a", "altered", "book", "seats", "day"),
            diff("a", "altered", "book", "seats", number=1),
            diff("b", "altered", "book", "seats"),
            diff("b", "missed", "cancel", number=1),
        ]
    )
    assert [(row["what"], row["tool"], row["failed runs"], row["arguments"]) for row in rows] == [
        ("altered", "book", 2, "seats (3), day (1)"),
        ("missed", "cancel", 1, ""),
    ]


def test_refusals_are_added_up_over_batches_and_shown_with_an_interval() -> None:
    (row,) = error_rows([used("book", 6, 4), used("book", 8, 6, "c"), used("look", 9, 0)])
    assert (row["tool"], row["calls"], row["never recovered"]) == ("book", 14, "5 of 14 runs")
    assert str(row["refused"]).startswith("71.4") and "[" in str(row["refused"])


def test_the_page_names_them() -> None:
    page = render(
        ReportData(suspects=SUSPECTS, diffs=[diff("a", "missed", "cancel")], tool_use=[used("book", 14, 10)])
    )
    assert page.index("it &lt;cannot&gt; be") < page.index("none &lt;passed&gt;")
    assert "put aside" in page and "nor that" in page and "Expected against done" in page
    assert "never recovered" in page and "triage.suspect_tasks" in page
    bare = render(ReportData())
    assert "Expected against done" not in bare and "Tasks that may be wrong" not in bare


def test_the_terminal_names_the_first_of_them() -> None:
    out = io.StringIO()
    print_suspects(SUSPECTS, Console(file=out, width=200))
    text = out.getvalue()
    assert "1 task is put aside" in text and "1 other is suspected" in text
    assert text.index("gym/1: it <cannot> be") < text.index("gym/2")
    out = io.StringIO()
    print_suspects([], Console(file=out))
    assert out.getvalue() == ""


def cause(run: str, confidence: str, words: str, *, repaired: bool | None = None) -> FailureCause:
    values = {"trajectory_id": run, "target": "gym", "task_id": "gym/1", "party": "agent", "words": words}
    return FailureCause.model_validate(
        {**values, "decisive_message": 7, "confidence": confidence, "repaired": repaired}
    )


def test_the_page_lists_failed_runs_with_their_cause_the_surest_first() -> None:
    page = render(ReportData(causes=[cause("r1", "low", "a <b>"), cause("r2", "high", "c", repaired=True)]))
    own = page[page.index("Why each run failed") :]
    assert own.index("r2") < own.index("r1") and "a &lt;b&gt;" in own and ">yes</td>" in own
    assert "Why each run failed" not in render(ReportData())


def test_a_long_list_says_how_many_are_left_out() -> None:
    page = render(ReportData(causes=[cause(f"r{n}", "low", "w") for n in range(MOST_FAILURES + 3)]))
    assert "3 more: <code>trace sql failure_causes</code>" in page

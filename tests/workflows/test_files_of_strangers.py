"""Names, ids and verdicts as strangers write them: nothing falls together, nothing changes without a word."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from trace_assets.records import TrajectoryHead
from trace_assets.resources.inbox import batches, inbox
from trace_assets.study import Study
from trace_assets.workflows.ingest import Ingested, ingest


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.open(tmp_path / "home", None, [])


def row(task: str, said: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"do {task}"}, {"role": "assistant", "content": said}]
    return {"messages": messages, "task_id": task, **more}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def verdicts(study: Study) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for batch in batches(study):
        frame = inbox(study, batch).frame(TrajectoryHead).select("trajectory_id", "success")
        found |= dict(frame.iter_rows())
    return found


def said(outcome: Ingested) -> str:
    return "\n".join(map(str, outcome.problems))


def test_names_of_any_script_are_batches_of_their_own(study: Study, tmp_path: Path) -> None:
    names = ["運行", "測試", "бег 1", "тест 1"]
    files = [written(tmp_path / f"{one}.jsonl", row("t", one, success=True)) for one in names]
    outcome = ingest(study, files)
    assert sorted(outcome.new.values()) == [1] * len(names) and not outcome.errors


def test_one_name_in_both_of_its_forms_is_one_batch(study: Study, tmp_path: Path) -> None:
    whole, apart = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    first = written(tmp_path / "a" / f"{whole}.jsonl", row("t", "x", success=True))
    [batch] = ingest(study, [first]).new
    second = written(
        tmp_path / "b" / f"{apart}.jsonl", row("t", "x", success=True), row("u", "y", success=True)
    )
    assert ingest(study, [second]).new == {batch: 2}


def test_files_that_number_their_runs_alike_are_told_how_to_have_both(study: Study, tmp_path: Path) -> None:
    files = [written(tmp_path / one / "runs.jsonl", row("t", one, success=True)) for one in "xy"]
    outcome = ingest(study, files)
    assert outcome.new == {"runs": 1} and "one batch and number their runs alike" in said(outcome)
    assert "rename one of them" in said(outcome)
    named = [written(tmp_path / f"{one}.jsonl", row("t", one, trajectory_id="r")) for one in "ab"]
    assert "number their runs" not in said(ingest(study, named)), "ids of their own are no numbers"


@pytest.mark.parametrize(
    ("before", "after", "named"), [(True, False, {}), (None, True, {}), (True, None, {"trajectory_id": "r"})]
)
def test_a_verdict_that_changed_counts_and_is_told(
    study: Study, tmp_path: Path, before: bool | None, after: bool | None, named: dict[str, str]
) -> None:
    path = tmp_path / "a.jsonl"
    kept = row("u", "kept", success=True, **({"trajectory_id": "s"} if named else {}))
    ingest(study, [written(path, row("t", "x", success=before, **named), kept)])
    outcome = ingest(study, [written(path, row("t", "x", success=after, **named), kept)])
    name = named.get("trajectory_id", "a/1")
    assert (
        f"1 of its trajectories have another verdict than when they were ingested before, such as '{name}'"
        in (said(outcome))
    )
    assert verdicts(study)[name] is after
    assert "another verdict" not in said(
        ingest(study, [written(path, row("t", "x", success=after, **named), kept)])
    )


def test_a_longer_file_of_the_same_verdicts_tells_of_none(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    ingest(study, [written(path, row("t", "x", success=True))])
    outcome = ingest(study, [written(path, row("t", "x", success=True), row("u", "y", success=False))])
    assert outcome.new == {"a": 2} and said(outcome) == ""


def test_a_run_that_is_held_stays_and_the_way_out_is_told(study: Study, tmp_path: Path) -> None:
    ingest(study, [written(tmp_path / "a.jsonl", row("t", "x", trajectory_id="r", success=True))])
    outcome = ingest(study, [written(tmp_path / "b.jsonl", row("t", "x", trajectory_id="r", success=False))])
    assert verdicts(study) == {"r": True} and "trace ingest --remove" in said(outcome)


@pytest.mark.parametrize("reward", [10**400, -(10**400)])
def test_a_reward_longer_than_any_float_is_none(study: Study, tmp_path: Path, reward: int) -> None:
    outcome = ingest(study, [written(tmp_path / "a.jsonl", row("t", "x", reward=reward))])
    assert verdicts(study) == {"a/1": None} and "is no number" in said(outcome)


def test_half_a_surrogate_in_every_line_hides_no_file(study: Study, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", *(row("t", f"{n} \ud800", success=True) for n in range(3)))
    assert ingest(study, [path]).new == {"a": 3}

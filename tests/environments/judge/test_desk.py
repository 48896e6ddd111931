"""How the judge is asked: under the cap, once, recorded; and what its silence and its cost are told as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.audit_fixtures.purpose.here import findings
from tests.environments.judge.scripted import review, subject_of
from tests.environments.writers.recorded_server import RecordedServer, Said
from trace_assets.assets.environment_audit import _judged
from trace_assets.diagnosis.llm.budget import read_calls
from trace_assets.environments.audit.check import NotJudged
from trace_assets.environments.judge.asking import NO_VERDICT, shown_of
from trace_assets.environments.judge.material import JudgeQuestion
from trace_assets.environments.judge.review import Review, review_question
from trace_assets.errors import InputError, Unavailable
from trace_assets.records import EnvironmentCheck, LedgerEntry
from trace_assets.resources.analysts import JudgeDesk, open_judge
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study

GOOD = json.dumps(review(8))


def desk(home: Path, url: str = "", **settings: Any) -> JudgeDesk:
    given = {"synthesis.judge": "m", "writer.base_url": url or '""', "writer.pause_seconds": 0.01, **settings}
    study = Study(Home.open(home), load_settings(None, [f"{name}={value}" for name, value in given.items()]))
    found = open_judge(study, "cap", "environment_audit")
    assert found is not None
    return found


def row(status: Any, evidence: str, check: str = "trace.judge.oracle") -> EnvironmentCheck:
    return EnvironmentCheck(
        environment_id="e",
        capability_id="cap",
        check_id=check,
        level="judged",
        status=status,
        severity="error",
        evidence=evidence,
    )


@pytest.fixture(scope="module")
def question() -> JudgeQuestion[Review]:
    material = shown_of(subject_of("bank_fee_refund"))
    return review_question(material, material.policy, "m")


def test_an_answer_is_paid_once_booked_and_remembered(
    question: JudgeQuestion[Review], tmp_path: Path
) -> None:
    with RecordedServer([GOOD]) as server:
        first = desk(tmp_path, server.url, **{"writer.prompt_usd": 1, "writer.completion_usd": 4})
        assert len(first.ask(question).items) == 12
        again = desk(tmp_path, server.url)
        assert len(again.ask(question).items) == 12
        assert server.given == 1
    assert first.figures["judge_model_calls"] == 1 and first.figures["judge_cost_usd"] > 0
    assert again.figures["judge_remembered_answers"] == 1 and again.figures["judge_cost_usd"] == 0
    booked = [row for row in first.study.store.read(LedgerEntry) if row.kind == "model_calls"]
    assert [(row.stage, row.asset, row.quantity) for row in booked] == [("synthesis", "environment_audit", 1)]
    check = _judged(first, [])
    assert check.passed and "answered all" in check.detail


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Said(None, refusal="I will not judge that."), "the model refused"),
        (Said("I think it is all fine."), "there is no JSON object"),
        (Said('{"items": []}'), "is not answered"),
        (Said(GOOD[:200], finish="length"), "cut off"),
    ],
)
def test_what_is_no_answer_is_told_as_one_and_not_remembered(
    said: Said, why: str, question: JudgeQuestion[Review], tmp_path: Path
) -> None:
    with RecordedServer([said]) as server:
        asked = desk(tmp_path, server.url, **{"writer.repairs": 2})
        with pytest.raises(NotJudged, match=why):
            asked.ask(question)
    told = row("skip", f"{NO_VERDICT}: it could not run: {why}")
    check = _judged(asked, [told])
    assert check.passed is False and check.severity == "warning" and why in check.detail
    assert "1 questions stayed open" in check.detail
    with RecordedServer([GOOD]) as server:
        assert len(desk(tmp_path, server.url).ask(question).items) == 12


def test_nothing_is_sent_that_might_exceed_the_cap(question: JudgeQuestion[Review], tmp_path: Path) -> None:
    prices = {"writer.prompt_usd": 10, "writer.completion_usd": 10, "writer.cap_usd": 0.05}
    with RecordedServer([GOOD]) as server:
        asked = desk(tmp_path, server.url, **prices)
        with pytest.raises(NotJudged, match="cap on spending was reached"):
            asked.ask(question)
        assert server.given == 0
    assert read_calls(asked.study.home.answers) == []
    assert "environment_audit" in _judged(asked, []).detail


def test_a_server_that_cannot_be_used_stops_the_audit(
    question: JudgeQuestion[Review], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"set writer\.base_url"):
        desk(tmp_path)
    gone = desk(tmp_path, "http://127.0.0.1:9/v1", **{"writer.retries": 0})
    with pytest.raises(Unavailable):
        gone.ask(question)
    subject = subject_of("bank_fee_refund", gone)
    with pytest.raises(Unavailable):  # and is no finding against the environment
        findings(subject, ["trace.judge.oracle"])


def test_recorded_answers_are_replayed_without_a_server_and_a_changed_question_is_reported(
    question: JudgeQuestion[Review], tmp_path: Path
) -> None:
    file = {"writer.recording": tmp_path / "judge.jsonl"}
    with RecordedServer([GOOD]) as server:
        desk(tmp_path / "a", server.url, **file).ask(question)
    replayed = desk(tmp_path / "b", **file)
    assert len(replayed.ask(question).items) == 12 and replayed.figures["judge_cost_usd"] == 0
    other = JudgeQuestion("review", "m", question.system, question.user + " Be brief.", question.schema)
    with pytest.raises(Unavailable, match=r"1 prompts \(review\) are not recorded"):
        desk(tmp_path / "b", **file).ask(other)


def test_what_was_answered_and_gave_no_verdict_warns_and_a_skip_for_another_reason_does_not(
    tmp_path: Path,
) -> None:
    desk_of = desk(tmp_path, "http://127.0.0.1:9/v1")
    disputed = row("skip", f"{NO_VERDICT}: it could not run: the model said three things")
    rows = [disputed, row("fail", f"{NO_VERDICT}: cap", "trace.judge.untold")]
    check = _judged(desk_of, [*rows, row("skip", "the model was not asked", "trace.judge.lacking")])
    assert check.passed is False and "trace.judge.oracle: no verdict" in check.detail
    assert "trace.judge.untold" in check.detail and "trace.judge.lacking" not in check.detail
    assert _judged(desk_of, [row("skip", "the model was not asked"), row("pass", "")]).passed


def test_without_a_setting_there_is_no_judge(tmp_path: Path) -> None:
    study = Study(Home.open(tmp_path), load_settings(None, []))
    assert open_judge(study, "cap", "environment_audit") is None
    check = _judged(None, [])
    assert check.passed is None and "synthesis.judge" in check.detail

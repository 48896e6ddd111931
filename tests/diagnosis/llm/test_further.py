"""Failures that no candidate explains are read again, once, and the dictionary grows by what decided them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer
from test_cases import CONTEXT, COUNT, POLICY, RUNS, cause

from trace_assets.assets.capability_dictionary import discover
from trace_assets.diagnosis.llm.cases import Grounds
from trace_assets.diagnosis.llm.discovery import Known
from trace_assets.diagnosis.llm.found_again import with_further
from trace_assets.diagnosis.llm.further import Open, further_batches, further_question, unexplained
from trace_assets.diagnosis.triage import triage
from trace_assets.records import (
    ActionDiff,
    Capability,
    FailureCause,
    FurtherReading,
    Label,
    LackCause,
    Proposal,
    Task,
    Triage,
)
from trace_assets.resources.open_failures import asks_again
from trace_assets.settings import Discovery, load_settings
from trace_assets.store import Home, Store
from trace_assets.store.tables import WHOLE
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study
from trace_assets.workflows.forecast import forecast

ALOUD = {**COUNT, "name": "Say the date aloud"}
SECTION = Discovery(model="m", size="case", failures=2, successes=2)


def candidate(name: str, **more: Any) -> Capability:
    given = {
        "description": f"how to {name}",
        "analyst": "model:m",
        "detector_args": {"tool": "renew"},
        **more,
    }
    return Capability(capability_id=name, target="x", name=name, **given)


def label(run: str, of: str, value: str = "NA") -> Label:
    said: dict[str, Any] = {"label": value, "rationale": f"{run} and {of}"}
    return Label(trajectory_id=run, capability_id=of, labelling_pass=1, labeller="model:m", **said)


def test_explained_is_what_lacks_something_that_may_have_decided_it() -> None:
    known = [candidate("a", parent="broad"), candidate("b"), candidate("broad")]
    labels = [
        *(label("nothing", one) for one in ("a", "b")),
        *(label("harmless", one, "LACKING" if one == "a" else "PRESENT") for one in ("a", "b")),
        *(label("decided", one, "LACKING") for one in ("a", "b")),
        *(label("not judged", one, "LACKING") for one in ("a", "b")),
        label("half labelled", "a"),
        *(label("passed", one) for one in ("a", "b")),
    ]
    causes = [cause("harmless", "a"), cause("decided", "b"), cause("decided", "a")]
    causes = [
        one.model_copy(update={"decisive": "no"}) if one.capability_id == "a" else one for one in causes
    ]
    failures = ["nothing", "harmless", "decided", "not judged", "half labelled", "never labelled"]
    found = unexplained(failures, labels, causes, known)
    assert found.harmless == {"nothing": {}, "harmless": {"a": "harmless and a"}}


def test_the_question_tells_what_is_known_and_what_no_run_did() -> None:
    open_ = Open({"f0": {}, "f1": {"a": "paid late"}, "f2": {}})
    first, second = further_batches(RUNS, SECTION, open_)
    assert [[one.trajectory_id for one in batch.failures] for batch in (first, second)] == [
        ["f0", "f1"],
        ["f2"],
    ]
    assert [len(batch.successes) for batch in (first, second)] == [2, 2]
    never = ActionDiff(
        trajectory_id="f0",
        number=0,
        target="x",
        task_id="x/f0",
        policy="p",
        kind="missed",
        tool="waive",
        expected_arguments={"fee": 3},
    )
    known = Known(CONTEXT, {"f0": [never]}, frozenset({"f0"}))
    grounds = Grounds.of(CONTEXT, RUNS).with_expected(known.diffs.values())
    candidates = [candidate("a", parent="broad"), candidate("broad")]
    asked, _ = further_question(SECTION, first, 2000, known, candidates, open_, grounds)
    assert POLICY in asked.system and '{"id": "K1", "name": "a"' in asked.user and "broad" not in asked.user
    assert "lacks K1, which did not decide it: paid late" in asked.user
    assert "no episode calls:\n- waive(fee)" in asked.user
    case = {**COUNT, "tool": "waive", "argument": "fee", "transcripts": ["T1"]}
    answer, complaints = asked.read(
        json.dumps({"cases": [case], "known": [{"id": "k1", "transcripts": ["T3"]}]})
    )
    assert answer is not None, complaints
    assert [(one.id, one.transcripts) for one in answer.known] == [("K1", ["T3"])]
    for change, words in (({"tool": "forgive"}, "no tool"), ({"argument": "sum"}, "no argument")):
        assert words in "; ".join(asked.read(json.dumps({"cases": [{**case, **change}], "known": []}))[1])
    assert "waive" not in "".join(grounds.lines(CONTEXT)), "the first reading is asked as before"


@pytest.mark.parametrize(
    ("most", "left"), [(9, "held idle new newer"), (3, "held new newer"), (2, "held new"), (1, "held")]
)
def test_what_no_failure_shows_makes_room(most: int, left: str) -> None:
    held = [candidate("held", proposed_by=("f0",)), candidate("idle")]
    new = [candidate(name, proposed_by=("f1",), reading=2) for name in ("new", "newer")]
    assert " ".join(one.name for one in with_further(held, new, most)) == left


class Reader:
    """Names one case in the first reading, and in a further one what it is told to."""

    def __init__(self, further: dict[str, Any]) -> None:
        self.asked: list[str] = []
        self._further = further

    def answer(self, messages: Sequence[dict[str, str]]) -> dict[str, Any]:
        system, user = messages[0]["content"], messages[1]["content"]
        if "has a name already" in system:
            self.asked.append(user)
            return self._further
        if system.startswith("You compare"):
            return {"cases": [{**COUNT, "transcripts": ["T1"]}], "known": []}
        return {"same": []}


def opened(folder: Path, url: str, **more: Any) -> Study:
    given = {"analyst": "model", "model": "m", "size": "case", "passes": 1, "failures": 2, "successes": 1}
    lines = [f"discovery.{key}={value}" for key, value in {**given, **more}.items()]
    settings = load_settings(None, [*lines, "labels.model=m", f"analyst.base_url={url}"])
    study = Study(Home.open(folder / "home"), settings)
    write_trajectories(study.store, RUNS, "b")
    study.store.write(triage(RUNS), Triage, "b")
    return study


def labelled(study: Study, explained: Sequence[str]) -> None:
    """Label every run with every candidate: these failures lack the first one, which decided them."""
    names = [one.capability_id for one in study.store.read(Capability)]
    rows = [
        label(
            one.trajectory_id,
            name,
            "LACKING" if name == names[0] and one.trajectory_id in explained else "NA",
        )
        for one in RUNS
        for name in names
    ]
    study.store.write(rows, Label, "b")
    study.store.write([cause(one, names[0]) for one in explained], LackCause, "b")


def test_the_dictionary_grows_once_and_then_rests(tmp_path: Path) -> None:
    reader = Reader({"cases": [{**ALOUD, "transcripts": ["T1"]}], "known": []})
    with ChatServer(reader.answer) as server:
        study = opened(tmp_path, server.url)
        assert discover(study).checks[0].passed
        (first,) = study.store.read(Capability)
        assert (first.reading, asks_again(study), reader.asked) == (1, "", []), "nothing is labelled yet"
        labelled(study, ["f0", "f1"])
        assert "explains 2 failures" in asks_again(study)
        done = discover(study)
        old, new = study.store.read(Capability)
        assert (old, new.name, new.reading) == (first, ALOUD["name"], 2)
        assert "please renew f2" in reader.asked[0] and "please renew f0" not in reader.asked[0]
        (row,) = study.store.read(FurtherReading)
        assert (row.reading, row.trajectories, row.n_new) == (2, ("f2", "f3"), 1)
        assert [one.merged_into for one in study.store.read(Proposal) if one.reading == 2] == [
            new.capability_id
        ]
        assert asks_again(study) == "", "the new one is not labelled yet"
        labelled(study, ["f0", "f1"])  # what is new explains nothing either
        again = discover(study)
        assert (again.version, again.figures["model_calls"], len(reader.asked)) == (done.version, 0, 1)
        assert [one.reading for one in study.store.read(Proposal)] == [1, 2], "of the reading nothing is lost"
        more = opened(tmp_path, server.url, further=2)
        assert "2 failures" in asks_again(more), "asked to, they are read once more"


@pytest.mark.slow
def test_one_command_reads_further_before_it_selects_and_a_second_asks_nothing(tmp_path: Path) -> None:
    """Runs lack what was named for them alone: without the further reading two failures have no cause."""
    lacking = {COUNT["name"]: "renew f0", ALOUD["name"]: "renew f"}
    further = {"cases": [{**ALOUD, "transcripts": ["T1"]}], "known": []}

    def answer(messages: Sequence[dict[str, str]]) -> dict[str, Any]:
        system, user = messages[0]["content"], messages[1]["content"]
        listed = [json.loads(line) for line in user.splitlines() if line.startswith('{"id": "C')]
        if system.startswith("You label"):
            given = [(one["id"], "LACKING" if lacking[one["name"]] in user else "NA") for one in listed]
            return {
                "labels": [
                    {"id": name, "rationale": "so", "evidence": [1] * (value != "NA"), "label": value}
                    for name, value in given
                ]
            }
        if system.startswith("An agent failed"):
            causes = [
                {"id": one["id"], "rationale": "so", "evidence": [1], "decisive": "yes"} for one in listed
            ]
            return {"causes": causes}
        return reader.answer(messages)

    reader = Reader(further)
    home = Home.open(tmp_path / "home")
    box = Store(home.inbox / "b")
    box.write([], Task)
    (box.folder / "version").write_text(write_trajectories(box, RUNS, WHOLE), encoding="utf-8")
    with ChatServer(answer) as server:
        command = [sys.executable, "-m", "trace_assets", "diagnose", "--yes", "--set", "discovery.further=3"]
        for line in _lines(opened(tmp_path / "other", server.url)):
            command += ["--set", line]
        made = []
        for _ in range(2):
            done = subprocess.run(
                command,
                env={**os.environ, "TRACE_HOME": str(home.path), "OMP_NUM_THREADS": "1"},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done.stderr
            made.append(len(server.bodies))
    assert "further reading" in done.stderr and made[0] == made[1]
    store = Store(home.path / "tables")
    assert {one.name: one.reading for one in store.read(Capability)} == {COUNT["name"]: 1, ALOUD["name"]: 2}
    (row,) = store.read(FurtherReading)
    assert row.trajectories == ("f1", "f2", "f3")
    assert [one.capability is not None for one in store.read(FailureCause)] == [True] * 4
    assert len(reader.asked) == 2, "three failures are two batches"


@pytest.mark.ci
@pytest.mark.parametrize(
    "said", [{"cases": [], "known": []}, {"cases": [], "known": [{"id": "K1", "transcripts": ["T1"]}]}]
)
def test_a_reading_that_names_nothing_new_is_the_last(tmp_path: Path, said: dict[str, Any]) -> None:
    reader = Reader(said)
    with ChatServer(reader.answer) as server:
        study = opened(tmp_path, server.url, further=5)
        discover(study)
        labelled(study, ["f0", "f1", "f2"])
        found = discover(study)
        assert found.rows == 1 and len(reader.asked) == 1
        (row,) = study.store.read(FurtherReading)
        assert (row.n_new, row.n_again) == (0, len(said["known"]))
        known = [one.merged_into for one in study.store.read(Proposal) if one.reading == 2]
        assert known == [one.capability_id for one in study.store.read(Capability)] * len(said["known"])
        assert asks_again(study) == ""


@pytest.mark.ci
def test_a_cap_leaves_the_reading_to_the_next_run_and_a_recording_of_before_goes_without(
    tmp_path: Path,
) -> None:
    reader = Reader({"cases": [{**ALOUD, "transcripts": ["T1"]}], "known": []})
    recording = tmp_path / "answers.jsonl"
    with ChatServer(reader.answer) as server:
        study = opened(tmp_path, server.url)
        recorded = opened(tmp_path / "other", server.url)
        recorded = Study(
            recorded.home, load_settings(None, [*_lines(recorded), f"analyst.recording={recording}"])
        )
        for one in (study, recorded):
            discover(one)
            labelled(one, ["f0", "f1"])
        spent = len(server.bodies)
        (planned,) = [one for one in forecast(study) if one.stage == "further reading"]
        assert planned.calls == 1 + 2 + 2 * len(RUNS) + 2 and planned.prompt_tokens > 0, planned
        capped = Study(study.home, load_settings(None, [*_lines(study), f"analyst.cap_calls={spent // 2}"]))
        stopped = discover(capped)
        assert not stopped.checks[0].passed and stopped.checks[0].severity == "error" and not reader.asked
        assert capped.store.read(FurtherReading) == [] and asks_again(capped)
        replayed = [line for line in _lines(recorded) if "base_url" not in line]
        done = discover(
            Study(recorded.home, load_settings(None, [*replayed, f"analyst.recording={recording}"]))
        )
        assert (
            done.rows == 1
            and done.checks[0].severity == "warning"
            and "not read again" in done.checks[0].detail
        )
        assert asks_again(recorded) == "" and not reader.asked


def _lines(study: Study) -> list[str]:
    given = study.settings.discovery
    lines = [
        f"discovery.{key}={getattr(given, key)}"
        for key in ("analyst", "model", "size", "passes", "failures", "successes")
    ]
    return [*lines, "labels.model=m", f"analyst.base_url={study.settings.analyst.base_url}"]

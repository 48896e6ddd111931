"""The benchmark itself: what it counts, on made readings; and on the real ones where they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

import pytest

from tests.formats.reading import read_trajectories
from tests.truth import __main__ as command
from tests.truth.clusters import about, clusters
from tests.truth.grades import grade_labels, label_key
from tests.truth.outcome import DOMAINS, Outcome, Tried, by_detectors, developed_on, diagnose, held_out
from tests.truth.readings import (
    DATA,
    Readings,
    digest,
    missing_data,
    parse_readings,
    read_readings,
    result_files,
    table,
)
from tests.truth.scores import score_capabilities, score_causes, score_faults, score_labels, score_passed
from trace_assets.diagnosis.candidates import demanded
from trace_assets.diagnosis.decisive import RULES as DECISIVE
from trace_assets.diagnosis.detectors import FAMILIES, Mistake
from trace_assets.diagnosis.expected.suspects import DOUBTERS
from trace_assets.diagnosis.failure_causes import Diagnosed, explain
from trace_assets.diagnosis.triage import RULES
from trace_assets.records import (
    Capability,
    Fault,
    Label,
    Message,
    SelectedCapability,
    ToolCall,
    Trajectory,
    Triage,
)

CANCEL = "Cancel only if allowed"
ASK = "Ask for the payment method"
TEXTS = {digest(CANCEL): "cancel_rule", digest(ASK): "payment_choice"}


def run(name: str, *, passed: bool = False) -> Trajectory:
    """A run that cancels in message 1."""
    return Trajectory(
        trajectory_id=name,
        task_id=f"t/{name}",
        target="tau2:airline",
        task_batch="b",
        policy="p",
        user_policy="u",
        success=passed,
        reward=float(passed),
        messages=(
            Message(role="user", content="cancel K1"),
            Message(
                role="assistant",
                tool_calls=(ToolCall(id="a", name="cancel_reservation", arguments={"reservation_id": "K1"}),),
            ),
            Message(role="tool", content="{}", tool_call_id="a"),
            Message(role="assistant", content="done"),
        ),
    )


def failed_row(
    name: str, capability: str = CANCEL, also: Sequence[str] = (), fault: str = "agent", at: int | None = 1
):
    return {
        "simulation_id": name,
        "file": "made.json",
        "fault": fault,
        "capability": capability,
        "capability_also": list(also),
        "decisive_message": at,
        "evidence": [1],
        "detectable": "rule",
    }


def readings(*rows: dict) -> Readings:
    return parse_readings(iter([(row, run(row["simulation_id"])) for row in rows]), TEXTS, {})


def capability(field: str = "insurance") -> Capability:
    args = {"tool": "cancel_reservation", "field": field, "value": "no", "argument": "reservation_id"}
    return Capability(
        capability_id=f"refrain-{field}",
        target="tau2:airline",
        name="n",
        description="d",
        analyst="detectors",
        detector="write_against_state",
        detector_args=args,
    )


def label(name: str, of: Capability, *, value: str = "LACKING", at: Sequence[int] = (1,)) -> Label:
    return Label(
        trajectory_id=name,
        capability_id=of.capability_id,
        labeller="detectors",
        label=value,
        evidence=tuple(at),
    )


def outcome(
    runs: Sequence[Trajectory],
    labels: Sequence[Label] = (),
    capabilities: Sequence[Capability] = (),
    faults: dict[str, Fault] | None = None,
    kept: Sequence[str] = (),
    accused: Sequence[Triage] = (),
) -> Outcome:
    rows = [
        Triage(
            trajectory_id=one.trajectory_id,
            target=one.target,
            task_id=one.task_id,
            outcome="passed" if one.success else "failed",
            fault=None if one.success else (faults or {}).get(one.trajectory_id, "agent"),
            rule="made",
        )
        for one in runs
    ]
    selected = [
        SelectedCapability(
            capability_id=one.capability_id,
            target=one.target,
            name=one.name,
            kept=one.capability_id in kept,
            rank=1,
            reason="",
            marginal_coverage=None,
        )
        for one in capabilities
    ]
    diagnosed = Diagnosed(runs, rows, capabilities, labels, [], selected)
    blamed = Diagnosed(runs, accused, capabilities, labels, [], selected)
    return Outcome("made", "tau2:airline", diagnosed, explain(diagnosed), explain(blamed))


def test_a_right_analyst_gets_everything_and_a_silent_one_nothing() -> None:
    names = ["a", "b", "c"]
    read = readings(*(failed_row(name) for name in names))
    runs, what = [run(name) for name in names], capability()
    right = outcome(runs, [label(name, what) for name in names], [what], kept=[what.capability_id])
    labels = score_labels(grade_labels(right, read.failed, {}))
    assert (labels.occurs.hits, labels.deficiency.hits, labels.decisive.hits, labels.ungraded) == (3, 3, 3, 0)
    assert [one.verdict for one in score_capabilities(right, read)] == ["kept"]
    causes = score_causes([right], read)
    assert (causes.exact.value, causes.first.value, causes.silent.value) == (1.0, 1.0, 0.0)
    silent = outcome(runs)
    assert score_labels(grade_labels(silent, read.failed, {})).decisive.n == 0
    assert [one.verdict for one in score_capabilities(silent, read)] == [""]
    causes = score_causes([silent], read)
    assert (causes.exact.value, causes.first.value, causes.silent.value) == (0.0, 0.0, 1.0)


def test_a_proxy_of_the_rule_is_not_the_rule() -> None:
    read, proxy = readings(failed_row("a"), failed_row("b")), capability("flight_type")
    found = outcome([run("a"), run("b")], [label("a", proxy), label("b", proxy)], [proxy])
    assert [one.verdict for one in score_capabilities(found, read)] == [""]
    assert score_labels(grade_labels(found, read.failed, {})).ungraded == 2


def test_a_label_on_another_partys_failure_is_never_decisive() -> None:
    read = readings(failed_row("a", capability="", also=[CANCEL], fault="user_simulator"))
    what = capability()
    score = score_labels(grade_labels(outcome([run("a")], [label("a", what)], [what]), read.failed, {}))
    assert (score.deficiency.hits, score.decisive.hits) == (1, 0)


def test_what_is_named_beside_the_first_counts_where_it_sank_the_run_too() -> None:
    row, what = failed_row("a", capability=ASK, also=[CANCEL]), capability()
    made = outcome([run("a")], [label("a", what)], [what])
    pairs = [(row, run("a"))]
    alone = parse_readings(iter(pairs), TEXTS, {})
    both = parse_readings(iter(pairs), TEXTS, {digest("a"): ["cancel_rule"]})
    assert [score_labels(grade_labels(made, one.failed, {})).decisive.hits for one in (alone, both)] == [0, 1]
    assert score_labels(grade_labels(made, both.failed, {})).first.hits == 0


def test_ungraded_counts_as_not_right_until_somebody_reads_it() -> None:
    read, what = readings(failed_row("a", capability=ASK)), capability()
    made = outcome([run("a")], [label("a", what)], [what])
    score = score_labels(grade_labels(made, read.failed, {}))
    assert (score.occurs.hits, score.occurs.n, score.ungraded) == (0, 1, 1)
    judged = {label_key("a", what): (True, True, False)}
    score = score_labels(grade_labels(made, read.failed, judged))
    assert (score.occurs.hits, score.deficiency.hits, score.decisive.hits, score.ungraded) == (1, 1, 0, 0)


def test_a_value_counts_only_where_it_was_read() -> None:
    """`use nothing invented` is about any value: a label on another message is not what was read."""
    text = "Use only what was said"
    row = failed_row("a", capability=text)
    read = parse_readings(iter([(row, run("a"))]), {digest(text): "no_invention"}, {})
    what = Capability(
        capability_id="u",
        target="tau2:airline",
        name="n",
        description="d",
        analyst="detectors",
        detector="unsupported_argument",
        detector_args={"argument": "date", "tool": ""},
    )
    for place, hits in ((1, 1), (40, 0)):
        made = outcome([run("a")], [label("a", what, at=(place,))], [what])
        assert score_labels(grade_labels(made, read.failed, {})).decisive.hits == hits


def test_a_models_capability_needs_the_words_and_the_place() -> None:
    what = capability().model_copy(
        update={
            "detector": None,
            "detector_args": {},
            "name": "Check before cancel_reservation",
            "analyst": "model:m",
        }
    )
    read = readings(failed_row("a"))
    for place, hits in ((2, 1), (9, 0)):
        made = outcome([run("a")], [label("a", what, at=(place,))], [what])
        assert score_labels(grade_labels(made, read.failed, {})).decisive.hits == hits


def test_parties_are_counted_by_who_was_read_and_who_was_said() -> None:
    read = readings(
        failed_row("a"),
        failed_row("b", capability="", fault="user_simulator"),
        failed_row("c", capability="", fault="infrastructure"),
        failed_row("d"),
    )
    passed = run("e", passed=True)
    accused = [
        Triage(
            trajectory_id="e",
            target="tau2:airline",
            task_id="t/e",
            outcome="failed",
            fault="environment",
            rule="made",
        )
    ]
    runs = [*(run(name) for name in "abcd"), passed]
    score = score_faults(
        [outcome(runs, faults={"b": "user_simulator", "d": "environment"}, accused=accused)], read
    )
    assert dict(score.confusion) == {
        ("agent", "agent"): 1,
        ("user_simulator", "user_simulator"): 1,
        ("infrastructure", "agent"): 1,
        ("agent", "environment"): 1,
    }
    assert (score.right.hits, score.found.hits, score.found.n, score.true.hits, score.true.n) == (
        2,
        1,
        2,
        1,
        2,
    )
    assert (score.accused.hits, score.accused.n) == (1, 1)
    assert sorted(one[0] for one in score.wrong) == ["c", "d"]


def test_the_decisive_message_may_be_an_absence() -> None:
    read = readings(failed_row("a", at=None), failed_row("b", at=1))
    what = capability()
    made = outcome([run("a"), run("b")], [label("a", what, at=(3,)), label("b", what, at=(3,))], [what])
    score = score_causes([made], read)
    assert (score.exact.hits, score.within.hits) == (1, 2)


def test_labels_on_passed_runs_are_held_against_readings() -> None:
    what = capability()
    runs = [run(name, passed=True) for name in "abc"]
    rows = [
        {"simulation_id": n, "file": "made.json", "passed": True, "capability": text, "label": value}
        for n, text, value in (("a", CANCEL, "LACKING"), ("b", CANCEL, "PRESENT"), ("c", ASK, "LACKING"))
    ]
    read = parse_readings(iter(zip(rows, runs, strict=True)), TEXTS, {})
    made = outcome(runs, [label("a", what, value="PRESENT"), label("b", what, value="PRESENT")], [what])
    score = score_passed([made], read.passed)
    assert (score.lacking.hits, score.lacking.n, score.present.hits, score.present.n) == (0, 1, 1, 1)
    assert score.unlabelled == 1


def test_a_rule_is_left_out_where_it_was_developed_and_where_nobody_says() -> None:
    assert held_out("agents_end", "rules", "retail")
    assert not held_out("never_heard_of", "rules", "retail")
    for kind in ("families", "rules", "decisive"):
        for name, domains in developed_on(kind).items():
            assert set(domains) <= set(DOMAINS), name
            assert [held_out(name, kind, one) for one in domains] == [name == "agents_end"] * len(domains)


def test_every_family_and_rule_says_where_it_was_developed() -> None:
    assert {one.name for one in FAMILIES} == set(developed_on("families"))
    assert {rule.__name__ for rule in (*RULES, *DOUBTERS, demanded)} == set(developed_on("rules"))
    assert set(DECISIVE) == set(developed_on("decisive"))
    assert {one.mistake for one in FAMILIES} <= set(get_args(Mistake))


def test_the_tables_hang_together() -> None:
    known = clusters()
    assert set(table("texts.json").values()) == set(known)
    assert {key for keys in table("fatal.json").values() for key in keys} <= set(known)
    assert all(say.mistake in get_args(Mistake) for one in known.values() for say in one.says)
    what = about(capability("cabin"), frozenset({"cancel_reservation"}))
    assert known["cancel_rule"].named_by(what, near=False)
    assert not known["bag_allowance"].named_by(what, near=True)


def test_a_reading_of_an_unknown_capability_is_refused() -> None:
    with pytest.raises(KeyError, match="in no cluster"):
        readings(failed_row("a", capability="Something new"))


def test_without_readings_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    monkeypatch.delenv(DATA, raising=False)
    command.main(["--page", str(tmp_path / "page.md")])
    assert f"skipped: {DATA} is not set" in capsys.readouterr().out
    monkeypatch.setenv(DATA, str(tmp_path))
    command.main(["--page", str(tmp_path / "page.md")])
    assert "holds no simulation files" in capsys.readouterr().out
    assert not (tmp_path / "page.md").exists()


@pytest.mark.skipif(bool(missing_data()), reason=missing_data())
def test_the_real_readings_fit_the_real_runs(tmp_path) -> None:
    imported = read_trajectories(result_files())
    read = read_readings(imported.trajectories)
    runs = {one.trajectory_id: one for one in imported.trajectories}
    assert {name for name, one in runs.items() if not one.success} == set(read.failed)
    for name, one in read.failed.items():
        assert one.decisive is None or one.decisive < len(runs[name].messages)
        assert bool(one.first) == (one.fault == "agent")
        if one.decisive is not None and one.fault == "agent":
            assert runs[name].messages[one.decisive].role == "assistant"
    solo = [one for one in imported.trajectories if one.source == "tau2:sft-gpt-4.1_telecom_solo.json"]
    made = diagnose("solo", solo, imported.tasks, Tried(by_detectors, leave_out=True))
    path = tmp_path / "ungraded.jsonl"
    n = command.write_ungraded([made], read, path)
    assert n == len([json.loads(line) for line in path.read_text().splitlines()])

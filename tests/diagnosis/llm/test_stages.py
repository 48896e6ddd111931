"""The stages with a model: what was planted is kept, only what is new is asked, a cap is taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer
from honest_reader import HonestReader

from trace_assets.assets.asset import StageResult
from trace_assets.assets.capability_dictionary import discover
from trace_assets.assets.contrast import estimate_contrast
from trace_assets.assets.labels import label_batch, write_batch_capabilities
from trace_assets.assets.selected_capabilities import select_capabilities, write_leak
from trace_assets.assets.triage import triage_batch
from trace_assets.diagnosis.triage import triage
from trace_assets.errors import InputError
from trace_assets.records import (
    Capability,
    Label,
    LabelLeak,
    LedgerEntry,
    Message,
    Proposal,
    SelectedCapability,
    ShownTranscript,
    Trajectory,
    Triage,
)
from trace_assets.resources.contract import describe_target
from trace_assets.settings import SECTIONS, Settings, load_settings
from trace_assets.store import Home
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study
from trace_assets.workflows.forecast import forecast, unknown_means

BATCH = "rehearsal"
Make = Callable[..., Study]


@pytest.fixture
def judged(trajectories: list[Trajectory]) -> list[Trajectory]:
    """A lenient judge: every eighth failure is let pass, so that lacking is not always fatal."""
    failed = [one.trajectory_id for one in trajectories if not one.success][::8]
    return [
        one.model_copy(update={"success": True, "reward": 1.0}) if one.trajectory_id in failed else one
        for one in trajectories
    ]


@pytest.fixture
def make_study(tmp_path: Path, judged: list[Trajectory]) -> Make:
    def make(url: str, trajectories: list[Trajectory] | None = None, **settings: Any) -> Study:
        given = {
            "discovery.analyst": "model",
            "discovery.model": "m",
            "labels.model": "m",
            "analyst.base_url": url,
            "analyst.pause_seconds": 0.01,
            "selection.min_relevant": 5,
            **settings,
        }
        overrides = [f"{key}={value}" for key, value in given.items()]
        study = Study(Home.open(tmp_path / "home"), load_settings(None, overrides))
        ingested = judged if trajectories is None else trajectories
        write_trajectories(study.store, ingested, BATCH)
        study.store.write(triage(ingested), Triage, BATCH)
        return study

    return make


def label(study: Study) -> StageResult:
    write_batch_capabilities(study, BATCH)
    return label_batch(study, BATCH)


def keys(labels: list[Label]) -> dict[tuple[str, str, str, int], Label]:
    return {(one.trajectory_id, one.capability_id, one.labeller, one.labelling_pass): one for one in labels}


def test_from_discovery_to_selection_the_planted_deficits_are_kept(
    honest: ChatServer, make_study: Make, planted: list[Capability]
) -> None:
    study = make_study(honest.url)
    found = discover(study)
    labelled = label(study)
    assert [one.passed for one in (*found.checks, *labelled.checks)] == [True, True]
    estimate_contrast(study)
    select_capabilities(study)
    kept = {row.name for row in study.store.read(SelectedCapability) if row.kept}
    assert len(kept) >= 2
    assert kept <= {one.name for one in planted}
    proposals = study.store.read(Proposal)
    assert {row.merged_into for row in proposals} == {
        row.capability_id for row in study.store.read(Capability)
    }
    assert found.figures["proposals"] == len(proposals) > found.rows
    assert labelled.figures["model_calls"] == len(honest.bodies) - found.figures["model_calls"]
    shown = study.store.read(ShownTranscript)
    assert {row.rule for row in shown} == {"whole"}
    assert len(shown) == len({one.trajectory_id for one in study.store.read(Label)})
    calls = sum(row.quantity for row in study.store.read(LedgerEntry) if row.kind == "model_calls")
    assert calls == len(honest.bodies)
    decided = study.store.read(SelectedCapability)
    dear = make_study(
        honest.url, **{"selection.prices": f'{{"{decided[0].capability_id}" = 4.0, "idle" = 2.0}}'}
    )
    assert select_capabilities(dear).figures["priced_by_settings"] == 1
    costs = {row.capability_id: row.expected_cost for row in dear.store.read(SelectedCapability)}
    assert sorted(costs.values()) == [1.0] * (len(costs) - 1) + [4.0]
    assert "priced_by_settings" not in select_capabilities(study).figures


@pytest.mark.ci
def test_a_policy_that_only_system_messages_tell_is_told_once_a_prompt(
    honest: ChatServer, make_study: Make, judged: list[Trajectory]
) -> None:
    rule = "Look an order up before anything is done to it."
    shown = Message(role="system", content=f'{rule}\n[{{"name": "look_up"}}]')
    runs = [
        one.model_copy(update={"messages": (shown, *one.messages), "target": "logs"})  # that nobody described
        for one in judged
    ]
    study = make_study(honest.url, runs)
    discover(study)
    label(study)
    asked = [body["messages"] for body in honest.bodies if "<policy>" in body["messages"][0]["content"]]
    assert len(asked) > len(runs)
    for system, user in (one[:2] for one in asked):
        assert f"<policy>\n{shown.content}\n" in system["content"]
        assert rule not in user["content"] and "0 system: [as told above]" in user["content"]


@pytest.mark.ci
def test_whoever_labels_is_told_the_tools_that_came_with_the_runs(
    honest: ChatServer, make_study: Make, judged: list[Trajectory]
) -> None:
    tools = [{"type": "function", "function": {"name": "look_up", "description": "Shows one order."}}]
    runs = [one.model_copy(update={"metadata": {"tools": tools}, "target": "logs"}) for one in judged]
    study = make_study(honest.url, runs)
    discover(study)
    before = len(honest.bodies)
    label(study)
    asked = [body["messages"][0]["content"] for body in honest.bodies[before:]]
    assert asked and all("look_up() - Shows one order." in one for one in asked)


@pytest.mark.ci
def test_stored_labels_are_kept_and_only_what_is_new_is_asked(
    honest: ChatServer, make_study: Make, judged: list[Trajectory], planted: list[Capability], tmp_path: Path
) -> None:
    first, last = judged[:-4], judged[-4:]
    study = make_study(honest.url, first)
    model_made = [one.model_copy(update={"detector": None, "analyst": "model:m"}) for one in planted]
    study.store.write(model_made[:2], Capability)
    version = label(study).version
    before = keys(study.store.read(Label))

    def asked_by(work: Callable[[], StageResult]) -> tuple[StageResult, list[str], set[str]]:
        """Forget all answers, so that whatever is asked is seen."""
        for path in (tmp_path / "home" / "answers").glob("??/*.json"):
            path.unlink()
        honest.bodies.clear()
        result = work()
        names = {
            json.loads(line)["name"]
            for body in honest.bodies
            for line in body["messages"][1]["content"]
            .split("one JSON object a line:")[1]
            .strip()
            .splitlines()
        }
        return result, [body["messages"][1]["content"] for body in honest.bodies], names

    result, transcripts, _ = asked_by(lambda: label(study))
    assert (result.version, transcripts) == (version, [])

    study = make_study(honest.url, judged)
    result, transcripts, names = asked_by(lambda: label(study))
    assert 0 < len(transcripts) <= 2 * len(last)
    assert names == {one.name for one in planted[:2]}
    after = keys(study.store.read(Label))
    assert {key: after[key] for key in before} == before

    study.store.write(model_made, Capability)
    result, transcripts, names = asked_by(lambda: label(study))
    assert names == {planted[2].name}, "old candidates are not labelled again beside a new one"
    assert result.figures["kept"] == len(after)

    reworded = model_made[0].model_copy(update={"description": "In other words."})
    study.store.write([reworded, *model_made[1:]], Capability)
    _, _, names = asked_by(lambda: label(study))
    assert names == {planted[0].name}

    study = make_study(honest.url, judged, **{"labels.temperature": 0.5})
    _, transcripts, names = asked_by(lambda: label(study))
    assert names == {one.name for one in planted}


def test_provenance_does_not_move_the_dictionary(make_study: Make, planted: list[Capability]) -> None:
    store = make_study("http://127.0.0.1:9/v1").store
    version = store.write(planted, Capability)
    recounted = [one.model_copy(update={"n_proposals": 99, "proposed_by": ("1-0",)}) for one in planted]
    assert store.write(recounted, Capability) == version
    renamed = [planted[0].model_copy(update={"description": "other"}), *planted[1:]]
    assert store.write(renamed, Capability) != version


@pytest.mark.ci
def test_both_analysts_side_by_side_and_the_model_labels_for_both(
    honest: ChatServer, make_study: Make, judged: list[Trajectory]
) -> None:
    study = make_study(honest.url, **{"discovery.analyst": "both", "discovery.min_support": 3})
    discover(study)
    candidates = {one.capability_id: one for one in study.store.read(Capability)}
    assert {one.analyst for one in candidates.values()} == {"detectors", "model:m"}
    result = label(study)
    assert result.checks[0].passed, result.checks[0].detail
    who: dict[str, set[tuple[str, int]]] = {}
    for row in study.store.read(Label):
        who.setdefault(row.capability_id, set()).add((row.labeller, row.labelling_pass))
    for name, candidate in candidates.items():
        model = {("model:m", 1), ("model:m", 2)}
        assert who[name] == (model | {("detectors", 0)} if candidate.detector else model)
    assert result.rows == len(judged) * sum(len(coders) for coders in who.values())


def test_detectors_alone_ask_nobody(make_study: Make) -> None:
    study = make_study("http://127.0.0.1:9/v1", **{"discovery.analyst": "detectors", "labels.model": '""'})
    discover(study)
    first = label(study)
    assert first.checks[0].passed
    assert {(row.labeller, row.labelling_pass) for row in study.store.read(Label)} == {("detectors", 0)}
    again = label(study)
    assert again.version == first.version
    assert again.figures["kept"] == first.rows
    assert not study.home.answers.exists()
    assert study.store.read(ShownTranscript) == []


def test_a_cap_stops_cleanly_is_said_and_is_taken_up_where_it_stopped(
    honest: ChatServer, make_study: Make
) -> None:
    prices = {"analyst.prompt_usd": 1.0, "analyst.completion_usd": 4.0, "analyst.reply_tokens": 500}
    study = make_study(honest.url, **prices)
    discover(study)
    study = make_study(honest.url, **prices, **{"analyst.cap_usd": 0.06})
    result = label(study)
    check = result.checks[0]
    assert (check.passed, check.severity) == (False, "error")
    assert "cap on spending was reached" in check.detail
    assert "Raise analyst.cap_usd" in check.detail
    assert result.rows > 0
    part = keys(study.store.read(Label))
    spent = sum(row.cost_usd for row in study.store.read(LedgerEntry))
    assert 0.03 < spent <= 0.06
    assert label(study).rows == result.rows, "what a capped run had is still there after another one"
    assert keys(study.store.read(Label)) == part
    study = make_study(honest.url, **prices, **{"analyst.cap_usd": 5})
    assert label(study).checks[0].passed
    whole = keys(study.store.read(Label))
    assert {key: whole[key] for key in part} == part
    asked = [json.dumps([body["messages"], body["seed"]]) for body in honest.bodies]
    assert len(asked) == len(set(asked))


def test_a_capped_discovery_is_due_again_and_needs_prices_for_dollars(
    honest: ChatServer, make_study: Make
) -> None:
    check = discover(make_study(honest.url, **{"analyst.cap_calls": 3})).checks[0]
    assert (check.passed, check.severity) == (False, "error")
    assert discover(make_study(honest.url)).checks[0].passed
    with pytest.raises(InputError, match="without prices"):
        discover(make_study(honest.url, **{"analyst.cap_usd": 3}))


@pytest.mark.ci
def test_a_few_transcripts_that_no_model_answers_are_a_warning_and_many_an_error(
    reader: HonestReader, make_study: Make, judged: list[Trajectory], planted: list[Capability]
) -> None:
    def label_with(marks: int) -> Any:
        marked = [
            one.model_copy(
                update={"messages": (*one.messages[:-1], Message(role="assistant", content=f"MARK {place}"))}
            )
            if place < marks
            else one
            for place, one in enumerate(judged)
        ]

        def picky(messages: Any) -> dict[str, Any]:
            return {"labels": []} if "MARK" in messages[1]["content"] else reader.answer(messages)

        with ChatServer(picky) as server:
            study = make_study(server.url, marked, **{"analyst.repairs": 0})
            study.store.write([one.model_copy(update={"detector": None}) for one in planted], Capability)
            return label(study).checks[0]

    few, many = label_with(1), label_with(20)
    assert (few.passed, few.severity) == (False, "warning")
    assert "6 are missing" in few.detail
    assert (many.passed, many.severity) == (False, "error")


@pytest.mark.ci
def test_a_model_looks_again_at_failures_when_one_is_set_and_a_cap_leaves_it_due(
    honest: ChatServer, make_study: Make, judged: list[Trajectory]
) -> None:
    failed = next(one for one in judged if not one.success)
    call = next(i for i, one in enumerate(failed.messages) if one.role == "tool")
    messages = list(failed.messages)
    messages[call] = messages[call].model_copy(update={"content": "Traceback: the tool is on fire"})
    broken = failed.model_copy(update={"messages": tuple(messages)})
    given = [broken if one is failed else one for one in judged]

    def rulings(**settings: Any) -> tuple[StageResult, dict[str, Triage]]:
        study = make_study(honest.url, given, **settings)
        result = triage_batch(study, BATCH)
        return result, {row.trajectory_id: row for row in study.store.read(Triage)}

    _, plain = rulings()
    assert plain[broken.trajectory_id].fault == "agent"
    assert not honest.bodies
    capped, _ = rulings(**{"triage.model": "m", "analyst.cap_calls": 2})
    assert capped.checks[0].passed is False
    result, looked = rulings(**{"triage.model": "m"})
    assert result.checks[0].passed
    assert looked[broken.trajectory_id].rule == "model_second_look"
    assert {name for name, row in looked.items() if row.fault != plain[name].fault} == {broken.trajectory_id}
    assert len(honest.bodies) == result.figures["model_calls"] + 2


def test_candidates_of_a_model_need_a_model_that_labels(make_study: Make, planted: list[Capability]) -> None:
    study = make_study("http://127.0.0.1:9/v1", **{"labels.model": '""'})
    study.store.write([one.model_copy(update={"detector": None}) for one in planted], Capability)
    with pytest.raises(InputError, match=r"set labels\.model"):
        label(study)


@pytest.mark.ci
def test_the_forecast_is_close_and_falls_to_nothing(honest: ChatServer, make_study: Make) -> None:
    study = make_study(honest.url, **{"analyst.prompt_usd": 1.0, "analyst.completion_usd": 4.0})
    proposing = next(row for row in forecast(study) if row.stage == "discovery")
    assert proposing.calls == 7  # six passes and the merge
    made = discover(study).figures
    # Bytes a token are a guess until a server has told, and this one has more than any.
    assert proposing.prompt_tokens == pytest.approx(made["prompt_tokens"], rel=0.5)
    labelling = next(row for row in forecast(study) if row.stage == "labels")
    assert labelling.assumed == ""
    result = label(study)
    assert labelling.calls == result.figures["model_calls"]
    assert labelling.prompt_tokens == pytest.approx(result.figures["prompt_tokens"], rel=0.1)
    left = {row.stage: row.calls for row in forecast(study)}
    assert (left["discovery"], left["labels"]) == (0, 0)
    failed = sum(row.fault == "agent" for row in study.store.read(Triage))
    assert left["lack_causes"] == failed, "one request a failure, at the most"


@pytest.mark.ci
def test_what_a_model_would_not_be_told_is_known_before_it_is_asked(
    honest: ChatServer, make_study: Make, judged: list[Trajectory], tmp_path: Path
) -> None:
    bare = [tuple(said for said in one.messages if said.role != "system") for one in judged[:4]]
    runs = [
        one.model_copy(update={"target": "logs", "messages": messages})
        for one, messages in zip(judged, bare, strict=False)
    ]
    study = make_study(honest.url, runs)
    assert unknown_means(study) == {"logs": ["policy", "tools"]}
    rules = tmp_path / "rules.txt"
    rules.write_text("Look an order up before anything is done to it.")
    describe_target(study, "logs", None, rules)
    assert unknown_means(study) == {"logs": ["tools"]}
    shown = Message(role="system", content="Look an order up before anything is done to it.")
    tools = [{"type": "function", "function": {"name": "look_up", "description": "Shows one order."}}]
    told = {"messages": (shown, *runs[0].messages), "metadata": {"tools": tools}, "target": "others"}
    write_trajectories(study.store, [runs[0].model_copy(update=told)], BATCH)
    assert unknown_means(study) == {}


@pytest.mark.ci
def test_before_triage_the_forecast_takes_all_failures_for_the_agents(
    honest: ChatServer, make_study: Make, judged: list[Trajectory], tmp_path: Path
) -> None:
    study = make_study(honest.url, **{"triage.model": "m"})
    untouched = Study(Home.open(tmp_path / "untouched"), study.settings)
    write_trajectories(untouched.store, judged, BATCH)
    before, after = ({row.stage: row.calls for row in forecast(one)} for one in (untouched, study))
    assert before == after and min(before.values()) > 0


def test_connection_prices_and_caps_feed_no_stage() -> None:
    assert "analyst" not in SECTIONS
    plain = Settings()
    edited = load_settings(
        None, ["analyst.base_url=http://x/v1", "analyst.cap_usd=3", "analyst.prompt_usd=1"]
    )
    assert all(plain.section(name).fingerprint() == edited.section(name).fingerprint() for name in SECTIONS)
    for override in ("discovery.model=x", "discovery.passes=9", "labels.model=x", "labels.temperature=1.0"):
        section = override.partition(".")[0]
        moved = load_settings(None, [override])
        assert moved.section(section).fingerprint() != plain.section(section).fingerprint()


def test_a_key_in_place_of_its_variable_is_refused_and_not_shown() -> None:
    with pytest.raises(InputError, match="key_variable") as info:
        load_settings(None, ["analyst.key_variable=sk-abcdef0123456789"])
    assert "abcdef" not in str(info.value)


def test_the_leak_meter_is_a_table_with_a_check(make_study: Make, judged: list[Trajectory]) -> None:
    def telling(one: Trajectory) -> Trajectory:
        word = "wonderful, thank you" if one.success else "no, that is not right"
        before = (*one.messages[:-1], Message(role="user", content=word), one.messages[-1])
        return one.model_copy(update={"messages": before})

    honest_check = write_leak(make_study("http://127.0.0.1:9/v1")).checks[0]
    assert honest_check.passed
    study = make_study("http://127.0.0.1:9/v1", [telling(one) for one in judged])
    leaking = write_leak(study)
    assert leaking.checks[0].passed is False
    assert leaking.checks[0].severity == "warning"
    assert "what the user says later" in leaking.checks[0].detail
    rows = {row.channel: row for row in study.store.read(LabelLeak)}
    assert rows["replies"].leaks
    assert rows["replies"].auc == pytest.approx(1.0)
    assert "leak meter of embedded" in leaking.pages

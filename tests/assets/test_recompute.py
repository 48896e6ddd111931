"""Exactly what runs again after each kind of edit, on the real graph, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.assets.scripted_loop import Loop, finished_loop, stand_ins
from trace_assets.assets.trajectories import tasks_of
from trace_assets.cli.checkup.files import accept_losses
from trace_assets.cli.checkup.files import files as checked_files
from trace_assets.cli.pipeline import DIAGNOSIS
from trace_assets.diagnosis import detector_analyst
from trace_assets.environments.writers import writer
from trace_assets.errors import InputError
from trace_assets.orchestration.forecast import Scope, likely_to_follow
from trace_assets.orchestration.instance import OF_BATCH, register_batches
from trace_assets.orchestration.planner import Planner
from trace_assets.records import (
    Capability,
    CapabilitySpec,
    DecisiveShare,
    Label,
    Repair,
    SelectedCapability,
    Task,
    Trajectory,
)
from trace_assets.resources.inbox import known_tasks, lay_tasks, task_inbox
from trace_assets.settings import Targets
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.workflows.ingest import ingest

CANCEL = "embedded-write_without_read-cancel_order-get_order"
MULTI = "embedded-object_untouched-order"
WINDOW = "embedded-write_against_state-refund_item-window-closed"
ALL = (CANCEL, MULTI, WINDOW)

DECIDED = {"config/selection", "selected_capabilities", "stability"}
"""What reads the thresholds, and they themselves."""
LABELLED = {"labels[embedded]", "lack_causes[embedded]", "repairs[embedded]"}
"""The labels of a batch, and what reads them batch by batch."""
READ_LABELS = {
    *("contrast", "selected_capabilities", "routing_trials", "drift", "stability", "policy_contrast"),
    "failure_causes",
    *(f"decision_patterns[{capability}]" for capability in ALL),
}
"""Assets that read the labels of all batches."""
READ_ALL = (
    READ_LABELS
    | {"suspect_tasks", "lucky_passes", "capability_dictionary", "label_leak", "target_contract"}
    | {"report"}
)
"""Assets that read the trajectories, triage or labels of all batches, and the page with the failures."""
PER_ENVIRONMENT = (
    *(
        "decision_patterns",
        "environment",
        "environment_audit",
        "environment_verdict",
        "pilot",
        "adapter",
        "learnability",
    ),
)
"""Assets of a capability that follow from its spec, in order."""
PLAYED = {
    *("interference", "joint_adapters", "adapter_validation", "routing", "consolidated", "evaluation"),
    *("composition_choice", "report"),
}
"""What follows when other adapters are there to be chosen."""
FITTED = PLAYED - {"interference", "joint_adapters"}
"""What follows when routers are fitted on other trials."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Loop, Path, dict[str, list[str]]]]:
    with stand_ins() as calls:
        yield *finished_loop(tmp_path_factory), calls


@pytest.fixture
def loop(made: tuple[Loop, Path, dict[str, list[str]]]) -> Loop:
    """A finished loop, whatever the tests before have made of it."""
    loop, kept, calls = made
    loop.recode = {}
    loop.put_back(kept)
    for names in calls.values():
        names.clear()
    return loop


@pytest.fixture
def calls(made: tuple[Loop, Path, dict[str, list[str]]]) -> dict[str, list[str]]:
    """What was audited and trained since the test began."""
    return made[2]


def each(asset: str, *partitions: str) -> set[str]:
    return {f"{asset}[{partition}]" for partition in partitions}


def as_forecast(loop: Loop, *, exactly: bool = True, narrower: bool = True, **edits: str) -> set[str]:
    """Return what runs after edits, which must be what was likely to follow.

    Args:
        loop: A finished one.
        exactly: Whether all that was likely runs.
        narrower: Whether less is likely than may follow at the most.
        **edits: Settings.
    """
    study = loop.study(**edits)
    planner = Planner(loop.definitions(study), loop.instance, standing=Scope(study))
    due = planner.look()
    at_most = {str(item) for item in planner.items_after(due)} | {str(step.item) for step in due}
    files = {file: file.stat().st_mtime_ns for file in study.home.tables.rglob("*.parquet")}
    likely = {str(item) for item in likely_to_follow(planner, study, due)}
    assert files == {file: file.stat().st_mtime_ns for file in study.home.tables.rglob("*.parquet")}
    assert not list(study.home.path.glob(".rehearsal-*"))
    followed = loop.sync(**edits)
    foreseen = {str(step.item) for step in due} | likely
    assert foreseen == followed if exactly else followed <= foreseen
    assert foreseen <= at_most and (len(foreseen) < len(at_most) or not narrower)
    return followed


def test_the_first_run_made_everything_once_and_found_what_was_planted(loop: Loop) -> None:
    assert loop.capabilities() == sorted(ALL)
    kept = [row for row in loop.study().store.read(SelectedCapability) if row.kept]
    assert {row.capability_id for row in kept} == set(ALL)


def test_repairs_of_what_was_planted_are_decisive_and_placebos_are_not(loop: Loop) -> None:
    shares = {row.capability_id: row for row in loop.study().store.read(DecisiveShare)}
    for name in ALL:
        share = shares[name]
        assert share.n_replayed == share.n_lacking == share.n_placebo >= 10
        assert share.share == 1.0 and share.placebo == 0.0


def test_diagnosis_replays_nothing(loop: Loop) -> None:
    loop.recode = {"repairs": "another recipe"}
    assert loop.sync(selection=DIAGNOSIS) == set()


def test_nothing_changed_runs_nothing(loop: Loop) -> None:
    assert loop.plan() == [] and loop.sync() == set()


@pytest.mark.ci
def test_a_threshold_that_admits_one_more_trains_that_one_alone(
    loop: Loop, calls: dict[str, list[str]]
) -> None:
    strict = {"selection__min_coverage": "0.20"}
    dropped = as_forecast(loop, **strict)
    assert loop.capabilities() == sorted({CANCEL, MULTI})
    decided = DECIDED | {"failure_causes", "curriculum", "mixed_adapter", "routing_trials"}
    assert dropped == decided | each("capability_spec", CANCEL, MULTI) | PLAYED
    # As if the third had never been made: its partitions have no history.
    for asset in ("capability_spec", *PER_ENVIRONMENT):
        _forget(loop, asset, WINDOW)
    assert loop.sync(**strict) == set()
    assert calls == {"audit": [], "train": []}
    assert loop.sync() == (
        decided | each("capability_spec", *ALL) | {f"{asset}[{WINDOW}]" for asset in PER_ENVIRONMENT} | PLAYED
    )
    assert calls == {"audit": [WINDOW], "train": [WINDOW]}


def _forget(loop: Loop, asset: str, partition: str) -> None:
    import dagster as dg

    key = dg.AssetKey(asset)
    kept = {
        record.partition_key: record.event_log_entry.tags
        for record in loop.instance.fetch_materializations(key, limit=1000, ascending=True).records
        if record.partition_key != partition
    }
    loop.instance.wipe_assets([key])
    for other, tags in kept.items():
        loop.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=other, tags=tags))


def test_a_threshold_that_changes_nothing_stops_at_the_selection(loop: Loop) -> None:
    assert loop.sync(selection__min_gap="0.21") == DECIDED


@pytest.mark.ci
def test_the_least_decisive_share_replays_nothing(loop: Loop) -> None:
    assert as_forecast(loop, selection__min_decisive="0.2") == DECIDED


@pytest.mark.ci
def test_another_recipe_of_repair_replays_and_stops_where_nothing_comes_out_otherwise(loop: Loop) -> None:
    loop.recode = {"repairs": "another recipe"}
    assert loop.sync() == {"repairs[embedded]"}


@pytest.mark.ci
def test_one_label_by_override_makes_its_rates_and_what_reads_them(loop: Loop) -> None:
    run = next(one for one in loop.study().store.read(Label) if one.capability_id == CANCEL)
    said = f'{{"{CANCEL}" = {{"{run.trajectory_id}" = "NA: I read it"}}}}'
    followed = loop.sync(labels__overrides=said)
    assert followed - READ_LABELS <= {"config/labels", "report"} | LABELLED | DECIDED | {
        "curriculum",
        *PLAYED,
    }
    assert "contrast" in followed and not any(name.startswith(("triage", "adapter[")) for name in followed)


@pytest.mark.ci
def test_the_agent_goes_on_only_where_replaying_cannot_tell(loop: Loop) -> None:
    assert loop.sync(repairs__go_on="40") == {"config/repairs", "repairs[embedded]"}
    assert {row.kind for row in loop.study().store.read(Repair)} & {"go on"} == set()


@pytest.mark.ci
def test_a_threshold_that_only_rewords_a_reason_stops_at_the_firewalls(loop: Loop) -> None:
    reworded = DECIDED | {"failure_causes", "curriculum", "report"}
    assert as_forecast(loop, selection__min_relevant="9") == reworded | each("capability_spec", *ALL)


@pytest.mark.slow
def test_dropping_two_and_taking_them_back_trains_no_adapter(loop: Loop, calls: dict[str, list[str]]) -> None:
    decided = DECIDED | {"failure_causes", "curriculum", "mixed_adapter", "routing_trials"}
    one = as_forecast(loop, selection__max_capabilities="1")
    assert one == decided | each("capability_spec", CANCEL) | PLAYED
    back = loop.sync()
    assert back == decided | each("capability_spec", CANCEL) | PLAYED
    assert calls == {"audit": [], "train": []}
    # Two threshold edits one after the other, the second undone before anything ran: nothing is due.
    assert loop.plan() == []


@pytest.mark.ci
def test_what_was_made_before_a_default_moved_is_due_and_says_why(loop: Loop) -> None:
    loop.sync(training__warm_start="never")
    assert loop.plan(training__warm_start="never") == []
    reasons = {str(step.item): step.reason for step in loop.plan()}
    assert reasons["config/training"] == (
        "a default changed: training.warm_start comes as 'when_dead' now, and came as 'never' "
        "(set that to keep it)"
    )
    assert reasons[f"environment_verdict[{MULTI}]"] == "config/training changed"
    assert {"environment", "environment_audit", "labels"}.isdisjoint(
        {item.partition("[")[0] for item in reasons}
    )
    asked = {str(step.item): step.reason for step in loop.plan(training__warm_start="when_dead")}
    assert asked["config/training"] == "its settings changed", "somebody set it: no default has moved"


@pytest.mark.ci
def test_training_steps_train_and_play_and_diagnose_nothing(loop: Loop) -> None:
    trained = {"config/training", "mixed_adapter"} | each("adapter", *ALL) | PLAYED
    # Verdicts and pilots read the settings too: an override or a share of the budget stands there.
    trained |= each("environment_verdict", *ALL) | each("pilot", *ALL) | each("learnability", *ALL)
    assert as_forecast(loop, narrower=False, training__iterations="5") == trained


@pytest.mark.ci
def test_one_labelling_prompt_labels_again_and_stops_where_labels_are_equal(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.recode = {"labels": "another prompt"}
    assert loop.sync() == {"labels[embedded]"}
    # The same with a prompt whose answers differ in their words, not in their decisions.
    real = detector_analyst.DetectorAnalyst.label

    def reworded(self: Any, trajectories: list[Trajectory], capabilities: Any) -> list[Label]:
        rows = real(self, trajectories, capabilities)
        return [row.model_copy(update={"rationale": f"{row.rationale}!"}) for row in rows]

    with monkeypatch.context() as patch:
        patch.setattr(detector_analyst.DetectorAnalyst, "label", reworded)
        patch.setattr(detector_analyst, "_sources_hash", lambda: "another")
        loop.recode = {"labels": "a third prompt"}
        assert loop.sync() == LABELLED | READ_LABELS | {"report"}


@pytest.mark.ci
def test_one_discovery_prompt_stops_at_an_equal_dictionary(loop: Loop) -> None:
    loop.recode = {"capability_dictionary": "another prompt"}
    assert loop.sync() == {"capability_dictionary"}


@pytest.mark.ci
def test_one_recipe_audits_and_trains_its_own_capability_alone(
    loop: Loop, calls: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writer._template

    class Edited:
        def __init__(self, name: str) -> None:
            self.name = name

        def render(self, **values: Any) -> str:
            source: str = real(self.name).render(**values)
            return source + "\n# edited\n" if self.name == "write_against_state" else source

    changed = (
        {f"{asset}[{WINDOW}]" for asset in PER_ENVIRONMENT if asset != "decision_patterns"}
        | each("environment", *ALL)
        | {"curriculum"}
        | PLAYED
    )
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_template", Edited)
        loop.recode = {"environment": "an edited recipe"}
        assert loop.sync() == changed
    assert calls == {"audit": [WINDOW], "train": [WINDOW]}


@pytest.mark.ci
def test_a_sandbox_flag_audits_again_and_trains_nothing(loop: Loop, calls: dict[str, list[str]]) -> None:
    audited = (
        {"config/sandbox", "report"}
        | each("environment_audit", *ALL)
        | each("environment_verdict", *ALL)
        | each("learnability", *ALL)
    )
    assert as_forecast(loop, exactly=False, sandbox__memory_mb="512") == audited
    assert sorted(calls["audit"]) == sorted(ALL) and calls["train"] == []


@pytest.fixture
def arrive(loop: Loop) -> Callable[[str, Sequence[Task]], None]:
    """Let tasks of the live target arrive as a batch."""

    def lay(batch: str, tasks: Sequence[Task]) -> None:
        named = [
            task.model_copy(update={"task_id": f"embedded/{batch}-{task.task_id[9:]}"}) for task in tasks
        ]
        lay_tasks(loop.study(), batch, named)

    return lay


@pytest.mark.ci
@pytest.mark.parametrize(
    "content",
    [pytest.param(None, id="gone", marks=pytest.mark.ci), pytest.param(b"other bytes", id="altered")],
)
def test_tasks_that_were_lost_from_the_inbox_stop_nothing_else(
    loop: Loop, calls: dict[str, list[str]], content: bytes | None
) -> None:
    tasks = EmbeddedTarget(Targets(seed=7, discovery_tasks=36)).tasks("discovery")[:4]
    named = [task.model_copy(update={"task_id": f"embedded/lost-{task.task_id[9:]}"}) for task in tasks]
    study = loop.study()
    lay_tasks(study, "lost", named)
    register_batches(loop.instance, study, live=True)
    file = task_inbox(study).path(Task, "lost")
    whole = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    (note,) = Scope(study).notes()
    assert note.startswith("lost: ") and str(file) in note and "watched folder again" in note
    assert loop.sync(selection__min_gap="0.21") == DECIDED
    assert not known_tasks(study).keys() & {task.task_id for task in named}
    with pytest.raises(InputError, match=r"lost\.parquet .*watched folder again"):
        tasks_of(study, "lost")
    (told,) = [one for one in checked_files(study, deep=False) if one.name == "files"]
    assert told.state == "missing" and "watched folder again" in told.fix and "trace sync" not in told.fix
    if content is None:
        assert accept_losses(study) == ["task_inbox/tasks/lost.parquet"]
        assert Scope(loop.study()).notes() == []
    else:
        file.write_bytes(whole)
        assert Scope(loop.study()).notes() == [] and "tasks[lost]" in {
            str(step.item)
            for step in Planner(loop.definitions(study), loop.instance, standing=Scope(study)).look()
        }
    nodes = Planner(loop.definitions(study), loop.instance).nodes
    assert {name for name, node in nodes.items() if node.dimension == "task_batch"} == OF_BATCH


def _own(batch: str) -> set[str]:
    assets = ("tasks", "trajectories", "triage", "batch_capabilities", "labels", "lack_causes", "repairs")
    return {f"{asset}[{batch}]" for asset in assets}


@pytest.mark.ci
def test_a_new_task_batch_rolls_out_and_labels_only_its_own_tasks(
    loop: Loop, calls: dict[str, list[str]], arrive: Callable[[str, Sequence[Task]], None]
) -> None:
    tasks = EmbeddedTarget(Targets(seed=7, discovery_tasks=36)).tasks("discovery")
    arrive("easy", [task for task in tasks if task.tags[0] in ("status", "exchange")])
    # Tasks that lack nothing leave the selection as it is; routers are fitted on them, and so they play.
    assert loop.sync() == _own("easy") | READ_ALL | FITTED
    assert calls == {"audit": [], "train": []}


@pytest.mark.ci
def test_a_batch_that_changes_a_definition_labels_old_batches_but_trains_nothing(
    loop: Loop, calls: dict[str, list[str]], arrive: Callable[[str, Sequence[Task]], None]
) -> None:
    before = _definitions(loop)
    arrive("hard", EmbeddedTarget(Targets(seed=7, discovery_tasks=36)).tasks("discovery"))
    ran = loop.sync()
    # Customers of the new batch ask in words that were not seen before. They belong to some definitions: old
    # trajectories are labelled with these again, and their environments are written again, to the same text.
    after = _definitions(loop)
    redefined = {name for name in ALL if after[name] != before[name]}
    assert redefined
    assert ran == (
        _own("hard")
        | READ_ALL
        | {"batch_capabilities[embedded]", *LABELLED, "curriculum"}
        | each("capability_spec", *ALL)
        | each("environment", *redefined)
        | each("environment_audit", *redefined)  # they are held against what the capability says
        | each("pilot", *redefined)  # from its file, unless the detector is another one
        | FITTED
    )
    assert (sorted(calls["audit"]), calls["train"]) == (sorted(redefined), [])


def _definitions(loop: Loop) -> dict[str, CapabilitySpec]:
    rows = loop.study().store.read(Capability)
    return {row.capability_id: CapabilitySpec(**row.part(CapabilitySpec)) for row in rows}


@pytest.mark.ci
def test_one_file_of_another_agent_is_diagnosed_and_plays_nothing(
    loop: Loop, tmp_path: Path, calls: dict[str, list[str]]
) -> None:
    ingest(loop.study(), [_tau2_file(tmp_path)])
    ran = loop.sync()
    (batch,) = {name.partition("[")[2].rstrip("]") for name in ran if name.startswith("trajectories[")}
    assert ran == _own(batch) | READ_ALL
    assert calls == {"audit": [], "train": []}


def _tau2_file(folder: Path) -> Path:
    """Write a results file of tau2-bench with one passed and one failed simulation."""
    simulations = [
        {
            "id": f"s{number}",
            "task_id": str(number),
            "timestamp": "2025-01-01",
            "start_time": "2025-01-01",
            "end_time": "2025-01-01",
            "duration": 1.0,
            "termination_reason": "user_stop",
            "agent_cost": 0.1,
            "user_cost": 0.1,
            "reward_info": {
                "reward": float(number),
                "db_check": {"db_match": bool(number), "db_reward": float(number)},
                "reward_basis": ["DB"],
            },
            "messages": [
                {"role": "assistant", "content": "Hi!", "turn_idx": 0},
                {"role": "user", "content": "Cancel order K1.", "turn_idx": 1},
            ],
            "trial": 0,
            "seed": 1,
        }
        for number in (0, 1)
    ]
    info = {
        "git_commit": "c",
        "num_trials": 1,
        "max_steps": 10,
        "max_errors": 3,
        "user_info": {"implementation": "user_simulator", "llm": "u", "llm_args": {}},
        "agent_info": {"implementation": "llm_agent", "llm": "a", "llm_args": {}},
        "environment_info": {"domain_name": "desk", "policy": "Be kind."},
        "seed": 1,
    }
    tasks = [
        {"id": str(number), "description": {}, "user_scenario": {"instructions": "Cancel order K1."}}
        for number in (0, 1)
    ]
    path = folder / "results.json"
    path.write_text(json.dumps({"timestamp": "t", "info": info, "tasks": tasks, "simulations": simulations}))
    return path

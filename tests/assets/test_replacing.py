"""What is trained, audited and evaluated is made again only when somebody says so; the rest goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.assets.scripted_loop import Loop, finished_loop, stand_ins
from tests.assets.test_recompute import ALL, CANCEL, WINDOW, as_forecast, each
from tests.orchestration.simulations import simulation_file
from trace_assets.environments.writers import writer
from trace_assets.orchestration.instance import register_batches
from trace_assets.orchestration.materialization import materialize_here
from trace_assets.orchestration.planner import Item
from trace_assets.orchestration.sync import sync
from trace_assets.orchestration.sync_run import Answer, AtRisk, Synced
from trace_assets.records import Adapter, Evaluation, SeedOutcome, TrajectoryHead
from trace_assets.store.presence import announce, forget, living
from trace_assets.workflows.ingest import ingest

FEWER = {"training__iterations": "5"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Loop, Path, dict[str, list[str]]]]:
    with stand_ins() as calls:
        loop, _ = finished_loop(tmp_path_factory)
        _play(loop)
        loop.sync()
        _play(loop)
        loop.keep(kept := tmp_path_factory.mktemp("played") / "loop")
        yield loop, kept, calls


@pytest.fixture
def loop(made: tuple[Loop, Path, dict[str, list[str]]]) -> Iterator[Loop]:
    """A finished loop, whatever the tests before have made of it."""
    loop, kept, calls = made
    loop.recode = {}
    loop.put_back(kept)
    for names in calls.values():
        names.clear()
    yield loop


@pytest.fixture
def calls(made: tuple[Loop, Path, dict[str, list[str]]]) -> dict[str, list[str]]:
    """What was audited and trained since the test began."""
    return made[2]


def _play(loop: Loop) -> None:
    """Write rows of episodes, which the stand-ins of audit and evaluation do not."""
    store = loop.study().store
    for name in ALL:
        row = SeedOutcome(
            capability_id=name, environment_id="e", seed=1, n=8, passed=0, pass_rewards=(), fail_rewards=()
        )
        store.write([row], SeedOutcome, name)
    for split in ("validation", "test"):
        one = Evaluation(
            task_id="t", trial=0, arm="base", adapter=None, success=True, reward=1.0, fault=None, skill="",
            split=split,
        )  # fmt: skip
        store.write([one], Evaluation, split)


class Asked:
    """Gives answers in turn, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), list[set[str]]()

    def __call__(self, found: Sequence[AtRisk]) -> Answer:
        self.asked.append({str(one.item) for one in found})
        return self.answers.pop(0)


def bring(loop: Loop, ask: Asked, again: Sequence[str] = (), **edits: str) -> Synced:
    study = loop.study(**edits)
    register_batches(loop.instance, study, live=True)
    return sync(loop.definitions(study), loop.instance, study, {}, jobs=0, again=again, ask=ask)


def ran(done: Synced) -> set[str]:
    assert all(outcome.made for outcome in done.outcomes), done.outcomes
    return {str(outcome.item) for outcome in done.outcomes}


def adapters(loop: Loop) -> list[Adapter]:
    return sorted(loop.study().store.read(Adapter), key=lambda one: one.name)


@pytest.mark.slow
def test_adapters_are_not_trained_anew_because_a_setting_was_edited(
    loop: Loop, calls: dict[str, list[str]]
) -> None:
    before, at_risk = adapters(loop), each("adapter", *ALL) | {"mixed_adapter", "interference"}
    asked = Asked("stop")
    done = bring(loop, asked, **FEWER)
    assert asked.asked == [at_risk] and ran(done) == set()
    assert done.stopped and done.exit_code == 2 and {str(one.item) for one in done.at_risk} == at_risk
    assert {one.why for one in done.at_risk} == {"training.iterations was 22, is 5"}
    kept = bring(loop, Asked("keep"), **FEWER)
    assert ran(kept) == (
        {"config/training", "joint_adapters", "consolidated"}  # the last two of which there are none
        | each("environment_verdict", *ALL)
        | each("pilot", *ALL)
        | each("learnability", *ALL)
    )
    assert kept.exit_code == 0 and {str(one.item) for one in kept.at_risk} == at_risk
    assert adapters(loop) == before and calls["train"] == []
    some = bring(loop, Asked("keep"), again=[f"adapter[{CANCEL}]"], **FEWER)
    assert calls["train"] == [CANCEL] and {"adapter_validation", "evaluation"} <= ran(some)
    assert [one for one in adapters(loop) if one in before] == [one for one in before if one.name != CANCEL]
    assert bring(loop, Asked(), again=["adapter", "mixed_adapter", "interference"], **FEWER).exit_code == 0
    assert sorted(calls["train"]) == sorted(ALL)


@pytest.mark.ci
def test_who_was_taken_for_dead_between_two_syncs_goes_on_under_another_name(loop: Loop) -> None:
    """A process that lives long, `trace watch` say: its next sync must not be refused for ever."""
    home = loop.study().home
    before = announce(home)
    forget(home, before)
    assert bring(loop, Asked()).exit_code == 0
    assert before not in living(home) and announce(home) in living(home)


@pytest.mark.ci
def test_what_shows_only_later_is_asked_about_when_all_else_is_done(
    loop: Loop, calls: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writer._template

    class Edited:
        def __init__(self, name: str) -> None:
            self.name = name

        def render(self, **values: Any) -> str:
            source: str = real(self.name).render(**values)
            return source + "\n# edited\n" if self.name == "write_against_state" else source

    before = adapters(loop)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_template", Edited)
        loop.recode = {"environment": "an edited recipe"}
        asked = Asked("stop")
        done = bring(loop, asked)
        # The environment is code's; its adapter is not, and nothing is trained in its place.
        assert asked.asked == [{f"adapter[{WINDOW}]", "interference"}]
        assert done.exit_code == 2 and f"environment_audit[{WINDOW}]" in ran(done)
        assert adapters(loop) == before and calls["train"] == []
        assert "evaluation" not in ran(done)
        done = bring(loop, Asked("replace"))
        assert f"adapter[{WINDOW}]" in ran(done) and calls["train"] == [WINDOW]


@pytest.mark.parametrize(
    ("edits", "recode", "at_risk"),
    [
        ({"base_model__seed": "3"}, {}, {"base_model"}),
        ({"rollouts__temperature": "0.5"}, {}, {"trajectories[embedded]", *each("environment_audit", *ALL)}),
        pytest.param(
            {"targets__discovery_tasks": "100"},
            {},
            {"base_model", "tasks[embedded]", "trajectories[embedded]", "mixed_adapter"}
            | {"adapter_validation", "evaluation"},
            marks=pytest.mark.slow,
        ),
        ({}, {"trajectories": "other"}, {"trajectories[embedded]"}),
        ({}, {"environment_audit": "other"}, each("environment_audit", *ALL)),
        ({"sandbox__memory_mb": "512"}, {}, each("environment_audit", *ALL)),
        ({"evaluation__seed": "3"}, {}, {"adapter_validation", "evaluation"}),
        ({"evaluation__trials": "2"}, {}, {"adapter_validation", "evaluation"}),
    ],
)
@pytest.mark.ci
def test_each_kind_of_work_is_asked_about_before_anything_begins(
    loop: Loop, edits: Mapping[str, str], recode: dict[str, str], at_risk: set[str]
) -> None:
    loop.recode = recode
    asked, heads = Asked("stop"), loop.study().store.version(TrajectoryHead, "embedded")
    done = bring(loop, asked, **edits)
    assert asked.asked == [at_risk] and ran(done) == set() and done.exit_code == 2
    kept = bring(loop, Asked("keep"), **edits)
    assert kept.exit_code == 0 and not ran(kept) & at_risk
    assert loop.study().store.version(TrajectoryHead, "embedded") == heads


@pytest.mark.ci
def test_a_backend_of_the_sandbox_and_what_is_only_faster_make_nothing_due(loop: Loop) -> None:
    assert bring(loop, Asked(), sandbox__backend="docker").outcomes == []
    assert bring(loop, Asked(), sandbox__backend="bubblewrap", rollouts__concurrency="3").outcomes == []
    asked = Asked("stop")
    bring(loop, asked, sandbox__backend="unsafe-subprocess")
    assert asked.asked == [each("environment_audit", *ALL)], "whether anything is isolated is a difference"


@pytest.mark.slow
def test_more_of_an_evaluation_and_what_only_looks_at_it_is_not_asked_about(loop: Loop) -> None:
    assert "evaluation" in ran(bring(loop, Asked(), evaluation__resamples="500"))
    assert {"adapter_validation", "evaluation"} <= ran(bring(loop, Asked(), evaluation__trials="6"))


@pytest.mark.ci
def test_a_run_of_the_page_refuses_and_its_tag_replaces(loop: Loop, calls: dict[str, list[str]]) -> None:
    before, study = adapters(loop), loop.study(**FEWER)

    def press(item: Item, again: bool | None = None) -> tuple[bool, str]:
        (outcome,) = materialize_here(loop.definitions(study), study, loop.instance, [item], again)
        return outcome.made, outcome.error

    made, error = press(Item("adapter", CANCEL))
    assert not made and "training.iterations was 22, is 5" in error and "trace/again" in error
    assert adapters(loop) == before and calls["train"] == []
    made, error = press(Item("environment_audit", CANCEL))
    assert not made and "it is up to date" in error and calls["audit"] == []
    assert press(Item("adapter", CANCEL), again=True)[0] and calls["train"] == [CANCEL]
    assert press(Item("learnability", CANCEL))[0], "what follows from code alone is made without a word"


@pytest.mark.slow
def test_what_is_likely_to_follow_is_what_follows(loop: Loop) -> None:
    """Where the contrast is worked out again; other edits are forecast where they are tried."""
    assert "contrast" in as_forecast(loop, contrast__seed="5")


@pytest.mark.ci
def test_a_home_with_files_alone_plans_nothing_of_the_live_target(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "home")
    ingest(loop.study(), [simulation_file(tmp_path / "desk.json", "desk", n=12, lacking=4)])
    study = loop.study()
    with stand_ins() as calls:
        done = bring(loop, Asked())
    assets = {name.partition("[")[0] for name in ran(done)}
    assert {"trajectories", "labels", "selected_capabilities", "target_contract", "report"} <= assets
    assert not assets & {"base_model", "pilot", "adapter", "mixed_adapter", "curriculum", "config/base_model"}
    assert not assets & {"routing", "routing_trials", "evaluation", "adapter_validation", "config/evaluation"}
    assert study.store.partitions(TrajectoryHead) == ["desk"] and calls["train"] == []
    # Settings of rollouts, the target or the base model make nothing of the file due.
    edits = {"rollouts__temperature": "0.3", "base_model__seed": "4", "targets__seed": "2"}
    again = ran(bring(loop, Asked(), **edits))
    assert not {"tasks[desk]", "trajectories[desk]"} & again

"""One adapter for several environments: at once, in turn, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from trace_assets.assets import joint_adapters
from trace_assets.errors import InputError
from trace_assets.evaluation.arms import arm_of
from trace_assets.evaluation.choice import CANDIDATES
from trace_assets.records import Adapter, Message, Split, Task
from trace_assets.settings import Training, load_settings
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.targets.timing import Mixture
from trace_assets.training.joint import train_joining, train_joint, train_sequential
from trace_assets.training.plan import Job

pytest.importorskip("trl")

SECTION = Training(
    iterations=2,
    tasks_per_iteration=4,
    group_size=4,
    learning_rate=2e-2,
    max_new_tokens=3,
    max_turns=2,
    validation_seeds=8,
    validation_episodes=8,
    validate_every=2,
    save_every=4,
)


def named(words: ModuleType, name: str) -> object:
    class Named(words.WordTarget):
        """The word target with task ids of its own."""

        version = name

        def tasks(self, split: Split) -> Sequence[Task]:
            return [
                task.model_copy(update={"task_id": f"{name}/{task.task_id}"}) for task in super().tasks(split)
            ]

    found = Named()
    found.name = name
    return found


def test_a_mixture_takes_its_parts_in_turn_and_plays_each_where_it_belongs(words: ModuleType) -> None:
    one, two = named(words, "one"), named(words, "two")
    mixture = Mixture("both", [one, two])
    ids = [task.task_id.split("/")[0] for task in mixture.tasks("discovery")]
    assert ids == ["one", "two"] * 5
    two.breaks = lambda task, seed: True
    first, second = mixture.tasks("discovery")[:2]
    assert not mixture.episode(first, seed=0).breaks and mixture.episode(second, seed=0).breaks
    assert mixture.version != Mixture("both", [two, one]).version


def test_a_mixture_refuses_what_it_cannot_tell_apart(words: ModuleType) -> None:
    with pytest.raises(InputError, match="takes one target or more"):
        Mixture("none", [])
    with pytest.raises(InputError, match="two parts of 'twice' hold a task"):
        Mixture("twice", [words.WordTarget(), words.WordTarget()]).tasks("discovery")
    mixture = Mixture("one", [named(words, "one")])
    with pytest.raises(InputError, match="of no part of 'one'"):
        mixture.episode(words.WordTarget().tasks("discovery")[0], seed=0)


def test_a_mixture_has_each_task_solved_where_it_belongs(words: ModuleType) -> None:
    one, two = named(words, "one"), named(words, "two")
    one.oracle = lambda task: [Message(role="assistant", content=task.payload["word"])]
    mixture = Mixture("both", [one, two])
    first, second = mixture.tasks("discovery")[:2]
    assert [message.content for message in mixture.oracle(first)] == [first.payload["word"]]
    with pytest.raises(InputError, match="two has no oracle to demonstrate with"):
        mixture.oracle(second)


@pytest.mark.ci
def test_joint_spends_what_it_is_given_on_all_parts(words: ModuleType, base: Path, tmp_path: Path) -> None:
    parts = {"a": named(words, "a"), "b": named(words, "b")}
    adapter, curve = train_joint(parts, Job(base, "base", SECTION, tmp_path / "joint", 32))
    assert (adapter.kind, adapter.name, adapter.rollouts, len(curve)) == ("joint", "joint", 32, 2)
    with pytest.raises(InputError, match="two or more, not 1"):
        train_joint({"a": parts["a"]}, Job(base, "base", SECTION, tmp_path / "x", 32))


def test_where_all_is_asked_for_at_once_one_adapter_spends_all(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    from trace_assets.training.grpo import train_adapter

    job = Job(base, "base", SECTION, tmp_path / "t", rollout_budget=32, environment_id="e")
    adapter, curve = train_adapter("together", "together", named(words, "all"), job)
    assert (adapter.kind, adapter.name, adapter.environment_id) == ("together", "together", "e")
    assert (adapter.rollouts, len(curve)) == (32, 2)
    assert arm_of(adapter.name) == "together" and "together" in CANDIDATES


def test_an_adapter_for_all_at_once_is_left_out_where_no_environment_asks_for_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = Study(Home.open(tmp_path / "home"), load_settings(None, ['training.single_arms=["together"]']))
    for name, value in (
        ("easiest_first", lambda study: ["a", "b"]),
        ("_why_not", lambda study, names, alone: ""),
        ("environment_of_all", lambda study: (None, "no wording asks for several")),
        ("make_joint", lambda *given: pytest.fail("nothing is trained")),
    ):
        monkeypatch.setattr(joint_adapters, name, value)
    (trained, _) = joint_adapters.train_joint_adapters(study).checks
    assert not trained.passed and "together: no wording asks for several" in trained.detail


@pytest.mark.ci
def test_a_sequence_goes_on_from_where_it_was_and_counts_all_of_it(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    parts = {"a": named(words, "a"), "b": named(words, "b")}
    seen = []
    job = Job(base, "base", SECTION, tmp_path / "s", 64, on_point=seen.append)
    adapter, curve = train_sequential(parts, job)
    assert [point.iteration for point in curve] == [1, 2, 3, 4] == [point.iteration for point in seen]
    assert (adapter.kind, adapter.rollouts, adapter.iterations) == ("sequential", 64, 4)
    first = tmp_path / "s-phases" / "1"
    weights = [load_file(folder / "adapter_model.safetensors") for folder in (first, tmp_path / "s")]
    names = [name for name in weights[0] if "lora_B" in name]
    before, after = (sum(float(one[name].abs().sum()) for name in names) for one in weights)
    apart = sum(float((weights[0][name] - weights[1][name]).abs().sum()) for name in names)
    assert 0 < apart < before + after  # it moved on, and from there: not from nothing
    again, _ = train_sequential(parts, job)
    assert again == adapter
    with pytest.raises(InputError, match="two or more, not 0"):
        train_sequential({}, Job(base, "base", SECTION, tmp_path / "x", 64))


def test_an_adapter_of_another_shape_is_not_trained_on(words: ModuleType, base: Path, tmp_path: Path) -> None:
    from trace_assets.training.grpo import train_adapter

    def train(name: str, section: Training, start: Path | None) -> None:
        job = Job(base, "base", section, tmp_path / name, rollout_budget=16)
        train_adapter(name, "capability", words.WordTarget(), job, capability_id=name, start=start)

    train("first", SECTION, None)
    with pytest.raises(InputError, match="another shape"):
        train("second", SECTION.model_copy(update={"lora_rank": 2}), tmp_path / "first")


def test_a_mixture_takes_more_of_what_weighs_more(words: ModuleType) -> None:
    one, two = named(words, "one"), named(words, "two")
    mixture = Mixture("both", [one, two], [1, 2])
    ids = [task.task_id.split("/")[0] for task in mixture.tasks("discovery")]
    assert ids == ["one", "two", "two"] * 2  # the second has five: two turns
    assert mixture.version not in (
        Mixture("both", [one, two]).version,
        Mixture("both", [one, two], [2, 1]).version,
    )


@pytest.mark.ci
def test_what_joins_adapters_is_trained_on_top_of_their_sum_and_acts_in_it(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    from trace_assets.policies.lora import load_model, merge_folder
    from trace_assets.training.composition import compose_adapters, merge_agent
    from trace_assets.training.grpo import train_adapter

    parts = {"a": named(words, "a"), "b": named(words, "b")}
    members = {name: tmp_path / name for name in parts}
    for name, target in parts.items():
        job = Job(base, "base", SECTION, members[name])
        train_adapter(name, "capability", target, job, capability_id=name)

    def join() -> tuple[Adapter, int]:
        adapter, curve = train_joining(
            parts,
            ["a"],
            members,
            Job(base, "base", SECTION, tmp_path / "joining", rollout_budget=96, environment_id="both"),
            tmp_path,
        )
        return adapter, len(curve)

    adapter, iterations = join()
    # The scale at three of them in the one that tells, the shares in both: all of it is paid.
    probed = (3 + 1) * 5 * SECTION.group_size
    assert (adapter.kind, iterations, adapter.rollouts) == ("joining", 1, probed + 16)
    assert join() == (adapter, iterations)  # read where it lies, nothing is played again
    # It is added to what it was trained on: the others at their scale, itself at full scale.
    _, whole = compose_adapters(
        base,
        members | {"joining": tmp_path / "joining"},
        tmp_path / "sums",
        scale=adapter.scale,
        on_top=["joining"],
    )
    _, below = merge_agent(base, "base", members, tmp_path / "agents", tmp_path / "sums", adapter.scale)
    served = dict(merge_folder(load_model(base), whole))
    trained = dict(merge_folder(load_model(below), tmp_path / "joining"))
    assert served and served.keys() == trained.keys()
    assert all((served[name] - trained[name]).abs().max() < 1e-5 for name in served)

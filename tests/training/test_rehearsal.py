"""Stored successes beside demonstrations: what these say nothing of is kept, at no further rollout."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.records import Message, Trajectory
from trace_assets.training.demonstrations import NOTHING, Rehearsed, rehearsal_rows

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def played(words: ModuleType, base: Path) -> list[Any]:
    """Successes of the base model, each with the token ids that it read and wrote."""
    from trace_assets.policies.transformers_engine import TransformersPolicy
    from trace_assets.training.episodes import Player

    target = words.WordTarget()
    tasks = [task for task in target.tasks("discovery") for _ in range(40)]
    policy = TransformersPolicy(base, temperature=1.0, max_new_tokens=3)
    with Player(target, policy, seed=0, max_turns=2, concurrency=64) as player:
        return [one for one in player.play(tasks, "base") if one.trajectory.success]


def stored(played: list[Any]) -> list[Trajectory]:
    return [one.trajectory for one in played]


def test_an_episode_is_read_back_in_the_tokens_that_it_was_played_in(played: list[Any], base: Path) -> None:
    from trace_assets.training.episodes import to_row

    assert len(played) >= 20
    rows = rehearsal_rows(Rehearsed(stored(played)), base)
    was = [to_row(one.trajectory, one.tokens, 0) for one in played]
    parts = [(row.prompt_ids, row.completion_ids, row.own) for row in was]
    whole = [part for part in parts if part[1][-1] == 1]
    assert len(whole) >= 20, "hardly any that ended its turn"
    assert [(row.prompt_ids, row.completion_ids, row.own) for row in rows] == whole


def test_an_episode_of_other_tokens_is_left_out(played: list[Any], base: Path) -> None:
    one = stored(played)[0]
    assert len(rehearsal_rows(Rehearsed([one]), base)) == 1
    other = one.model_copy(update={"prompt_tokens": (one.prompt_tokens or 0) + 1})
    assert rehearsal_rows(Rehearsed([other]), base) == []
    unwritable = (*one.messages[:-1], Message(role="assistant", content="red <tool_call>"))
    said = one.model_copy(update={"messages": unwritable, "completion_tokens": None})
    assert rehearsal_rows(Rehearsed([said]), base) == []
    assert rehearsal_rows(NOTHING, base) == []


def test_what_is_rehearsed_is_part_of_what_a_run_is_known_by(played: list[Any]) -> None:
    all_of_them = Rehearsed(stored(played))
    assert all_of_them.version == Rehearsed(stored(played)).version
    assert all_of_them.version != Rehearsed(stored(played)[1:]).version != NOTHING.version == ""


@pytest.mark.ci
def test_what_the_environment_asks_for_and_goes_well_is_kept_beside_what_is_rehearsed(
    base: Path, words: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likely demonstrations are of what a target's successes may hardly show: these do not stand for them."""
    from tests.training.test_warm_start import answers_of, fresh, section, shown, tokenizer_of
    from trace_assets.training import warm_start
    from trace_assets.training.warm_start import LIKELY, imitate, least_likely

    monkeypatch.setattr(warm_start, "STEPS", 80)
    model, tokenizer = fresh(base, words), tokenizer_of(base)
    own = shown(base, [(word, word) for word in words.WORDS])
    imitate(model, own * 8, section(words), tokenizer)
    assert max(least_likely(model, own, section(words))) < LIKELY, "it does not say its own words"
    rehearsed, shown_too = own[:2], own[2:]
    unlikely = shown(base, [(f"w{number}", "w119") for number in range(60)])
    imitate(model, unlikely + shown_too * 8, section(words), tokenizer, rehearsed * 8)
    assert answers_of(model, base, unlikely).count("w119") >= 54
    assert answers_of(model, base, own) == list(words.WORDS), "what went well is lost"


@pytest.mark.slow
def test_what_demonstrations_say_nothing_of_is_kept(
    base: Path, words: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All words asked for so far are answered by one; rehearsal holds the five others to their own."""
    from tests.training.test_warm_start import answers_of, fresh, section, shown, tokenizer_of
    from trace_assets.training import warm_start
    from trace_assets.training.warm_start import imitate

    monkeypatch.setattr(warm_start, "STEPS", 80)  # so small a model needs no more
    taught = shown(base, [(f"w{number}", "w119") for number in range(60)])
    own = shown(base, [(word, word) for word in words.WORDS])
    found: dict[bool, int] = {}
    for rehearsed in (False, True):
        model = fresh(base, words)
        told = imitate(model, taught, section(words), tokenizer_of(base), own * 8 if rehearsed else ())
        assert told.rehearsed == (40 if rehearsed else 0)
        assert answers_of(model, base, taught).count("w119") >= 54
        found[rehearsed] = sum(map(str.__eq__, answers_of(model, base, own), words.WORDS))
    assert found[False] <= 1, "nothing was lost that rehearsal could keep"
    assert found[True] >= 4


def test_the_base_models_successes_are_rehearsed_where_training_begins_with_demonstrations(
    played: list[Any], tmp_path: Path
) -> None:
    from trace_assets.assets.adapter import rehearsed_by
    from trace_assets.records import EnvironmentVerdict
    from trace_assets.settings import load_settings
    from trace_assets.store import Home
    from trace_assets.store.trajectories import write_trajectories
    from trace_assets.study import Study

    study = Study(Home.open(tmp_path), load_settings(None, ["training.warm_start=when_dead"]))
    own = [one.model_copy(update={"target": study.target.name}) for one in stored(played)]
    changes: list[dict[str, Any]] = [
        *({"success": False}, {"success": None}, {"split": "validation"}),
        *({"source": "importer:a"}, {"adapter": "a"}, {"target": "another"}),
    ]
    others = [
        own[0].model_copy(update={"trajectory_id": f"other {number}", **change})
        for number, change in enumerate(changes)
    ]
    write_trajectories(study.store, [*own[:3], *others], "a")
    write_trajectories(study.store, own[3:], "b")
    for name, warm in (("dead", True), ("live", False)):
        row = EnvironmentVerdict(capability_id=name, environment_id="e", accepted=True, warm_start=warm)
        study.store.write([row], EnvironmentVerdict, name)
    found = rehearsed_by(study, "dead")
    assert {one.trajectory_id for one in found.trajectories} == {one.trajectory_id for one in own}
    assert found.trajectories[0].messages and list(found.tools) == list(study.target.tools)
    assert rehearsed_by(study, "live") is NOTHING

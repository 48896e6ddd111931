"""Composed arms in the asset: which sums are made, what is chosen, what is said where none apply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_assets.assets import adapter_validation
from trace_assets.assets import evaluation as stage
from trace_assets.assets.routing import Permitted, permitted_sets
from trace_assets.errors import InputError
from trace_assets.evaluation.set_rules import Rule
from trace_assets.records import Evaluation, Route, SetEffect
from trace_assets.study import Study
from trace_assets.training import composition

NAMES = ("cancel", "multi", "window")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study with three adapters of rank 8, whose sums are folders without weights."""
    pytest.importorskip("torch")
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text('{"r": 8}')
    rows = [SimpleNamespace(name=name) for name in (*NAMES, "mixed")]

    def compose(base: Path, members: dict[str, Path], folder: Path, **more: Any) -> tuple[str, Path]:
        return "id", folder / "-".join(sorted(members))

    monkeypatch.setattr(adapter_validation, "read_adapters", lambda study: rows)
    monkeypatch.setattr(adapter_validation, "whole_adapter", lambda study, one: tmp_path / one.name)
    monkeypatch.setattr(adapter_validation, "base_folder", lambda study: tmp_path / "base")
    monkeypatch.setattr(composition, "compose_adapters", compose)
    return Study.open(tmp_path / "home", overrides=["targets.test_tasks=6", "targets.options.desk=b"])


def routes(study: Study, **need: float) -> list[Route]:
    row = {**dict.fromkeys((*NAMES, "none"), 0.0), **need}
    return [
        Route(
            router="label_logits",
            task_id=task.task_id,
            choice=max(row, key=lambda n: row[n]),
            probabilities=row,
        )
        for task in study.target.tasks("test")
    ]


def may(choices: Sequence[str] = NAMES, rows: Sequence[SetEffect] = (), alone: str = "") -> Permitted:
    """What a router may choose where every adapter may act alone, or those that are named."""
    own = alone.split() if alone else list(choices)
    return Permitted(own, list(choices), permitted_sets(rows, choices, own), Rule(0.1))


def test_the_arms_choose_what_the_router_and_validation_say(study: Study) -> None:
    found, said = stage._compose(study, may(), routes(study, cancel=0.5, multi=0.45, window=0.05), [])
    assert set(found.folders) == {"cancel+multi", "cancel+window", "multi+window", "cancel+multi+window"}
    assert set(found.arms["composed"].values()) == {"cancel+multi"}
    assert set(found.arms["sum"].values()) == {"cancel+multi+window"}
    assert set(found.arms["oracle_composed"].values()) == {"none"}  # validation holds nothing
    assert "calls for several adapters on 6 of 6 test tasks, in 1 different sets" in said


def test_the_oracle_may_choose_a_sum_by_validation(study: Study) -> None:
    skills = {task.tags[0] for task in study.target.tasks("test")}
    rows = [
        Evaluation(task_id=skill, trial=0, arm=arm, adapter=None, success=arm == won, reward=0.0, skill=skill)
        for skill in skills
        for arm in ("base", "adapter:cancel", "sum:multi+window")
        for won in ("sum:multi+window" if skill == "pair" else "base",)
    ]
    chosen = stage._compose(study, may(), routes(study, none=1.0), rows)[0].arms["oracle_composed"]
    tags = {task.task_id: task.tags[0] for task in study.target.tasks("test")}
    assert {chosen[name] for name, tag in tags.items() if tag == "pair"} == {"multi+window"}
    assert {chosen[name] for name, tag in tags.items() if tag != "pair"} == {"none"}


def test_with_fewer_than_two_adapters_or_switched_off_nothing_applies_and_it_is_said(study: Study) -> None:
    for choices, words in ((["cancel"], "one adapter only"), ([], "no adapter only")):
        found, said = stage._compose(study, may(choices), [], [])
        assert not found.arms and not found.folders and words in said
    off = Study(
        study.home,
        study.settings.model_copy(
            update={"evaluation": study.settings.evaluation.model_copy(update={"compose": False})}
        ),
    )
    assert "is off" in stage._compose(off, may(), [], [])[1]
    assert adapter_validation._validate_sums(off, NAMES) == ([], [])


def test_a_sum_that_no_server_holds_is_refused_and_the_router_takes_a_smaller_set(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_validation, "largest_rank", lambda extra: 16)
    section = study.settings.evaluation.model_copy(update={"engine": "vllm"})
    served = Study(study.home, study.settings.model_copy(update={"evaluation": section}))
    found, said = stage._compose(served, may(), routes(study, multi=0.5, cancel=0.3, window=0.2), [])
    assert "cancel+multi+window" not in found.folders and "sum" not in found.arms
    assert set(found.arms["composed"].values()) == {"cancel+multi"}
    assert "Refused: the sum of cancel, multi, window has rank 24" in said


def test_adapters_that_cannot_be_added_leave_the_other_arms(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise InputError("PEFT cannot add up these: no.")

    monkeypatch.setattr(composition, "compose_adapters", broken)
    found, said = stage._compose(study, may(), routes(study, cancel=0.5, multi=0.5), [])
    assert not found.folders and "sum" not in found.arms and "Refused: PEFT cannot add up" in said
    assert set(found.arms["composed"].values()) == {"cancel"}

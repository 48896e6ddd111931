"""Sums of adapters on a server: named by content, within its rank, and what the router sends there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_assets.assets import adapter_validation, routing
from trace_assets.errors import InputError
from trace_assets.records import CompositionChoice, Interference, SetEffect, SetRule
from trace_assets.routing.router import models_for
from trace_assets.serving.router.decisions import Decisions
from trace_assets.study import Study
from trace_assets.training import composition
from trace_assets.workflows import serve

NAMES = ("cancel", "multi", "window")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study with three adapters of rank 8, of which a router may choose all; no weights anywhere."""
    pytest.importorskip("torch")
    for name in (*NAMES, "sum-made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text('{"r": 24}' if "sum" in name else '{"r": 8}')
    rows = [SimpleNamespace(name=name, kind="capability", adapter_id=f"{name}-content") for name in NAMES]
    for module in (adapter_validation, routing, serve):
        monkeypatch.setattr(module, "read_adapters", lambda study: rows)
    for place in (adapter_validation, serve):
        monkeypatch.setattr(place, "whole_adapter", lambda study, one: tmp_path / one.name)
    for place in (adapter_validation, serve):
        monkeypatch.setattr(place, "base_folder", lambda study: tmp_path / "base")
    monkeypatch.setattr(routing, "usable_adapters", lambda study: list(NAMES))
    monkeypatch.setattr(serve, "served_adapters", lambda study: {f"{row.name}@1": row for row in rows})
    monkeypatch.setattr(composition, "compose_adapters", lambda *_, **__: ("id", tmp_path / "sum-made"))
    return Study.open(tmp_path / "home", overrides=["serving.compose=true"])


def changed(study: Study, **serving: Any) -> Study:
    section = study.settings.serving.model_copy(update=serving)
    return Study(study.home, study.settings.model_copy(update={"serving": section}))


def test_every_pair_and_the_whole_are_served_under_names_of_their_content(study: Study) -> None:
    served, refused = serve.served_sums(study)
    assert set(served) == {"cancel+multi", "cancel+window", "multi+window", "cancel+multi+window"}
    assert not refused and len(set(served.values())) == 4
    identity = composition.composition_id(["multi-content", "cancel-content"])
    assert served["cancel+multi"] == f"sum@{identity[:8]}"
    launch = serve.launch_of(study)
    assert set(launch.adapters) == {*(f"{name}@1" for name in NAMES), *served.values()}
    words = launch.arguments()
    assert words[words.index("--max-lora-rank") + 1] == "32"  # three of rank 8 are 24


def test_none_are_served_unless_asked_for(study: Study) -> None:
    off = changed(study, compose=False)
    assert serve.served_sums(off) == ({}, [])
    assert set(serve.launch_of(off).adapters) == {f"{name}@1" for name in NAMES}


def test_what_goes_beyond_the_servers_rank_is_refused_with_the_reason(study: Study) -> None:
    served, refused = serve.served_sums(changed(study, extra=("--max-lora-rank", "16")))
    assert "cancel+multi+window" not in served and len(served) == 3
    assert len(refused) == 1 and "has rank 24, and what serves it takes 16 at most" in refused[0]


class Sure:
    """Decides alike on everything."""

    name, version, choices = "classifier", "v1", ("cancel", "multi", "none")

    def __init__(self, **row: float) -> None:
        self.row = row

    async def decide(self, text: str, headers: object) -> dict[str, float]:
        return self.row


MODELS = {"cancel": "c", "multi": "m", "none": "base"}


@pytest.mark.parametrize(
    ("row", "model", "probability"),
    [
        ({"cancel": 0.5, "multi": 0.45, "none": 0.05}, "both", 0.45),
        ({"cancel": 0.9, "multi": 0.02, "none": 0.08}, "c", 0.9),
        ({"cancel": 0.05, "multi": 0.05, "none": 0.9}, "base", 0.9),
    ],
)
def test_the_proxy_sends_an_opening_to_the_sum_that_it_calls_for(
    row: dict[str, float], model: str, probability: float
) -> None:
    decisions = Decisions(Sure(**row), {**MODELS, "cancel+multi": "both", "cancel+gone": "x"})
    decision = asyncio.run(decisions.of("hello", {}))
    assert (decision.model, decision.probability) == (model, probability)
    assert set(decisions.models.values()) == {"c", "m", "base", "both"}  # what health asks the server for
    without = asyncio.run(Decisions(Sure(**row), MODELS).of("hello", {}))
    assert without.model == MODELS[max(row, key=lambda name: row[name])]


def test_sums_need_a_model_for_every_single_choice_all_the_same() -> None:
    with pytest.raises(InputError, match="may choose 'multi'"):
        Decisions(Sure(), {"cancel": "c", "none": "base", "cancel+multi": "both"})


def test_what_acts_in_sums_only_has_the_base_model_in_its_place() -> None:
    models = models_for(
        "composed", {"cancel": "c", "multi": "m"}, {"cancel+multi": "both"}, {}, "base", ["cancel"]
    )
    assert models == {"cancel": "base", "multi": "m", "cancel+multi": "both", "none": "base"}

    def sent(set_cost: float | None = None, **row: float) -> tuple[str, str]:
        decision = asyncio.run(Decisions(Sure(**row), models, set_cost=set_cost).of("hello", {}))
        return decision.choice, decision.model

    assert sent(cancel=0.5, multi=0.45, none=0.05) == ("cancel+multi", "both")
    assert sent(cancel=0.9, multi=0.02, none=0.08) == ("none", "base")
    # A lower cost calls for the second adapter too, and so for the sum that the first acts in.
    assert sent(0.01, cancel=0.9, multi=0.02, none=0.08) == ("cancel+multi", "both")
    routed = {name: models[name] for name in ("cancel", "multi", "none")}
    decision = asyncio.run(Decisions(Sure(cancel=0.5, multi=0.3, none=0.2), routed).of("hello", {}))
    assert (decision.choice, decision.model) == ("multi", "m")


def effect(choice: str, adapter: str, *, alone: bool, served: bool) -> SetEffect:
    figures = dict.fromkeys(("rate", "rate_without", "delta", "delta_low", "delta_high"), 0.2)
    return SetEffect(
        choice=choice,
        adapter=adapter,
        without="none",
        alone=alone,
        n_tasks=60,
        confidence=0.95,
        verdict="helps" if served else "harms",
        served=served,
        reason="",
        **figures,
    )


def test_the_server_holds_the_sums_that_validation_let_act_at_the_scale_that_it_chose(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "usable_adapters", lambda study: ["multi", "window"])
    monkeypatch.setattr(routing, "accepted_adapters", lambda study: list(NAMES))
    rows = [
        effect("cancel+multi", "cancel", alone=False, served=True),
        effect("cancel+window", "cancel", alone=False, served=False),
        effect("multi+window", "multi", alone=True, served=False),
        effect("cancel+multi+window", "cancel", alone=False, served=False),
    ]
    study.store.write(rows, SetEffect)
    whole = serve.served_sums(study)[0]
    assert set(whole) == {"cancel+multi"}
    may = routing.permitted(study)
    assert (may.alone, may.choices) == (["multi", "window"], list(NAMES)) and may.rule.scale == 1.0
    figures = dict.fromkeys(
        ("pass_rate", "pass_rate_low", "pass_rate_high", "ahead", "ahead_low", "ahead_high")
    )
    study.store.write(
        [SetRule(cost=0.02, scale=0.5, chosen=True, several=9, n_tasks=9, n_trials=9, **figures)], SetRule
    )
    half = serve.served_sums(study)[0]
    assert set(half) == {"cancel+multi"} and half != whole, "another scale is another content"
    assert routing.permitted(study).rule == (0.02, 0.5)


def choose(study: Study, arm: str) -> None:
    rate = {"pass_rate": 0.5, "pass_rate_low": 0.4, "pass_rate_high": 0.6}
    none = {"behind": None, "behind_low": None, "behind_high": None}
    row = CompositionChoice(
        arm=arm, chosen=True, runner_up=False, refused="", n_tasks=9, n_trials=9, **rate, **none
    )
    study.store.write([row], CompositionChoice)


def oppose(study: Study, one: str, other: str) -> None:
    row = Interference(
        capability_id=one,
        condition="",
        other_id=other,
        other_condition="",
        cosine=-0.9,
        cosine_low=-0.95,
        cosine_high=-0.85,
        corrected=-0.95,
        reliability=0.9,
        verdict="opposed",
        reason="they pull apart.",
    )
    study.store.write([row], Interference)


@pytest.mark.parametrize(
    ("arm", "served"),
    [
        ("routed", set()),
        ("joint", set()),
        ("together", set()),
        ("sum", {"cancel+multi+window"}),
        ("composed", {"cancel+multi", "cancel+window", "multi+window", "cancel+multi+window"}),
    ],
)
def test_unless_told_the_server_holds_what_validation_chose(study: Study, arm: str, served: set[str]) -> None:
    choose(study, arm)
    unset = changed(study, compose=None)
    assert set(serve.served_sums(unset)[0]) == served
    assert serve.released_arm(unset) == arm
    off = changed(study, compose=False)
    assert serve.served_sums(off) == ({}, [])
    assert serve.released_arm(off) == (arm if arm in ("joint", "together") else "routed")


def test_opposed_capabilities_are_never_served_together(study: Study) -> None:
    choose(study, "composed")
    oppose(study, "cancel", "window")
    served, refused = serve.served_sums(study)
    assert set(served) == {"cancel+multi", "multi+window"}
    assert refused == ["they pull apart."] * 2
    folders, why = adapter_validation.sums_of(study, [("cancel", "window"), ("cancel", "multi")], None)
    assert set(folders) == {"cancel+multi"} and why == ["they pull apart."]
    assert adapter_validation.allowed_sets(study, NAMES) == [("cancel", "multi"), ("multi", "window")]


def test_a_router_that_chooses_an_adapter_which_is_gone_is_told(study: Study) -> None:
    with pytest.raises(InputError, match=r"chooses the adapter 'gone'.*--select routing"):
        adapter_validation.sums_of(study, [("cancel", "gone")], None)


def test_what_answers_follows_what_is_released() -> None:
    adapters, sums = {"a": "a@1", "b": "b@2"}, {"a+b": "sum@3"}
    every = {**adapters, "a+b": "sum@3", "none": "base"}
    assert models_for("composed", adapters, sums, {}, "base") == every
    assert models_for("routed", adapters, sums, {}, "base") == {**adapters, "none": "base"}
    assert set(models_for("sum", adapters, sums, {}, "base").values()) == {"sum@3"}
    assert models_for("base", adapters, {}, {}, "base") == {"a": "base", "b": "base", "none": "base"}
    with pytest.raises(InputError, match="'joint' is what validation chose, and it is not served"):
        models_for("joint", adapters, sums, {}, "base")

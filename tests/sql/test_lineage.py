"""Lineage both ways: exact to the label, kept over re-computation, and no wider than what was used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.sql.lineage_loop import LABELS, LIVE, OUTCOMES, Loop, filled
from trace_assets.records import (
    BaseCheckpoint,
    Environment,
    LineageEdge,
)
from trace_assets.settings import Settings
from trace_assets.store import Home, Warehouse
from trace_assets.study import Study
from trace_assets.workflows.lineage.edges import RECORDERS, record_lineage


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a loop, to be copied."""
    home = Home.open(tmp_path_factory.mktemp("lineage") / "home")
    loop = Loop(home)
    loop.study.store.write([filled(BaseCheckpoint, base_id="b1")], BaseCheckpoint)
    loop.done("base_model")
    loop.dictionary("look", "ask")
    loop.batch(LIVE, LIVE, OUTCOMES, LABELS)
    loop.decide(0.5)
    loop.contract("k1")
    loop.teach("look", "e1", "a1")
    loop.teach("ask", "e2", "a2")
    loop.train("mixed", None, "m1")
    loop.evaluate("look", "ask", "mixed")
    return home.path


@pytest.fixture
def loop(made: Path, tmp_path: Path) -> Loop:
    return Loop(Home.open(shutil.copytree(made, tmp_path / "home")))


def ask(loop: Loop, name: str, **parameters: str) -> list[dict[str, Any]]:
    with Warehouse(loop.study.home) as warehouse:
        return warehouse.ready(name, **parameters).to_dicts()


def tainted(loop: Loop, **parameters: str) -> set[tuple[str, str]]:
    return {(row["kind"], row["id"]) for row in ask(loop, "tainted_by", **parameters) if row["in_store"]}


ALL_OF_LOOK = {
    ("selection", "look"),
    ("spec", "look"),
    ("environment", "look"),
    ("audit", "look"),
    ("adapter", "look"),
    ("routing", "classifier"),
    ("routing", "label_logits"),
    ("evaluation", "validation"),
    ("evaluation", "test"),
}
THROUGH_CONTRACT = {("contract", LIVE), *((kind, "ask") for kind in ("environment", "audit", "adapter"))}
LABELS_ON_IT = {("labels", "look"), ("labels", "ask")}


def test_adapter_leads_back_to_environment_labels_trajectories_and_base(loop: Loop) -> None:
    found = ask(loop, "lineage_back", adapter="look", weak="false")
    steps = {(row["depth"], row["kind"], row["id"]) for row in found}
    assert steps == {
        (1, "environment", "look"),
        (1, "base_model", "base"),
        (2, "spec", "look"),
        (2, "contract", LIVE),
        (3, "selection", "look"),
        (3, "capability", "look"),
        (3, "trajectories", LIVE),
        (4, "contrast", "look"),
        (5, "labels", LIVE),
        (5, "triage", LIVE),
    }
    (contrast,) = [row for row in found if row["kind"] == "contrast"]
    assert (contrast["trajectories"], contrast["lacking"], contrast["present"]) == (3, 1, 1)
    assert all(row["in_store"] for row in found)
    assert {row["adapter_id"] for row in found} == {"a1"}
    assert ask(loop, "lineage_back", adapter="a1", weak="false") == found
    weak = {
        (row["kind"], row["id"], tuple(row["roles"])) for row in ask(loop, "lineage_back", adapter="look")
    }
    assert ("contrast", "ask", ("compared with",)) in weak and ("audit", "look", ("admitted by",)) in weak


def test_adapter_leads_back_to_its_labels(loop: Loop) -> None:
    found = ask(loop, "lineage_labels", adapter="look", through="contrast")
    assert [(row["trajectory_id"], row["outcome"], row["label"], row["relevant"]) for row in found] == [
        ("t1", "failed", "LACKING", True),
        ("t0", "passed", "PRESENT", True),
        ("t3", "failed", "NA", False),
    ]
    assert found[0]["evidence"] == [2] and found[0]["task_id"] == "embedded/t1"
    read = ask(loop, "lineage_labels", adapter="look", through="contract")
    assert [row["trajectory_id"] for row in read] == ["t1", "t3", "t4", "t0", "t2"]


def test_withdrawn_trajectory_taints_what_counted_it_and_what_read_it(loop: Loop) -> None:
    expected = LABELS_ON_IT | {("contrast", "look")} | ALL_OF_LOOK | THROUGH_CONTRACT
    assert tainted(loop, trajectory="t1") == expected
    assert tainted(loop, trajectory="t0") == expected
    assert ("adapter", "mixed") not in expected


def test_trajectory_that_triage_left_out_taints_no_contrast(loop: Loop) -> None:
    kinds = {kind for kind, _ in tainted(loop, trajectory="t4")}
    assert "contrast" not in kinds and "selection" not in kinds and "contract" in kinds


def test_withdrawn_label_taints_its_own_capability_and_the_router(loop: Loop) -> None:
    assert tainted(loop, trajectory="t1", capability="look") == {
        ("labels", "look"),
        ("contrast", "look"),
        *ALL_OF_LOOK,
    }
    # An NA label of a failure is in coverage's denominator alone; the router takes it for no need.
    unneeded = {("labels", "ask"), ("routing", "classifier"), ("evaluation", "test")}
    assert tainted(loop, trajectory="t1", capability="ask") == unneeded
    assert ("contrast", "ask") in tainted(loop, trajectory="t1", capability="ask", weak="true")


def test_withdrawn_environment_taints_its_adapter_and_what_used_it(loop: Loop) -> None:
    expected = ALL_OF_LOOK - {("selection", "look"), ("spec", "look")}
    assert tainted(loop, environment="look") == tainted(loop, environment="e1") == expected
    assert tainted(loop, environment="nowhere") == set()


def test_weak_links_are_followed_when_asked(loop: Loop) -> None:
    weak = tainted(loop, trajectory="t1", weak="true")
    assert {("adapter", "mixed"), ("selection", "ask"), ("capability", "look")} <= weak


def test_nothing_withdrawn_taints_nothing(loop: Loop) -> None:
    assert ask(loop, "tainted_by") == [] and ask(loop, "tainted_by", trajectory="nobody") == []


@pytest.mark.ci
def test_what_came_later_is_no_ancestor_of_what_was_made_before(loop: Loop) -> None:
    loop.batch(
        "later", LIVE, {"t8": True, "t9": False}, {"look": {"t8": "PRESENT"}, "ask": {"t8": "PRESENT"}}
    )
    loop.decide(0.6)
    assert {("contrast", "look"), ("selection", "look"), ("spec", "look")} <= tainted(loop, trajectory="t9")
    assert ("adapter", "look") not in tainted(loop, trajectory="t9")
    assert "t9" not in {row["trajectory_id"] for row in ask(loop, "lineage_labels", adapter="look")}
    batches = {
        row["id"] for row in ask(loop, "lineage_back", adapter="look") if row["kind"] == "trajectories"
    }
    assert batches == {LIVE}
    # the old contrast led to the adapter that is still there, and is itself no longer in the store
    old = [
        row
        for row in ask(loop, "tainted_by", trajectory="t1")
        if (row["kind"], row["id"]) == ("contrast", "look")
    ]
    assert sorted(row["in_store"] for row in old) == [False, True]
    assert ("adapter", "look") in tainted(loop, trajectory="t1")
    loop.train("look", "e1", "a9")
    assert {"t1", "t9"} <= {row["trajectory_id"] for row in ask(loop, "lineage_labels", adapter="look")} | {
        "t9"
    }


def test_adapter_keeps_its_environment_when_that_is_written_anew(loop: Loop) -> None:
    store = loop.study.store
    store.write(
        [filled(Environment, environment_id="e9", capability_id="look", target=LIVE)], Environment, "look"
    )
    loop.done("environment", "look")
    found = [row for row in ask(loop, "lineage_back", adapter="look") if row["kind"] == "environment"]
    assert [(row["version"], row["in_store"]) for row in found] == [("e1", False)]
    assert ("adapter", "look") in tainted(loop, environment="e1")
    assert ("adapter", "look") not in tainted(loop, environment="e9")
    loop.train("look", "e9", "a9")
    assert ("adapter", "look") not in tainted(loop, environment="e1")
    assert ("adapter", "look") in tainted(loop, environment="e9")


def test_other_targets_are_not_touched(loop: Loop) -> None:
    loop.dictionary("pay", target="tau2")
    loop.batch("tau", "tau2", {"u0": True, "u1": False}, {"pay": {"u0": "PRESENT"}})
    loop.decide(0.5)
    assert tainted(loop, trajectory="u1") == {("labels", "pay"), ("contrast", "pay"), ("selection", "pay")}
    assert ("contrast", "pay") not in tainted(loop, trajectory="t1")


def test_batch_can_be_withdrawn(loop: Loop) -> None:
    assert {("labels", LIVE), ("contrast", "look"), ("contract", LIVE), ("adapter", "ask")} <= tainted(
        loop, batch=LIVE
    )


def test_same_again_adds_nothing(loop: Loop) -> None:
    before = loop.study.store.frame(LineageEdge).sort(LineageEdge.key)
    loop.labels(LIVE, list(OUTCOMES), LABELS)
    loop.decide(0.5)
    loop.train("look", "e1", "a1")
    assert loop.study.store.frame(LineageEdge).sort(LineageEdge.key).equals(before)


def test_views_are_each_other_turned_round(loop: Loop) -> None:
    with Warehouse(loop.study.home) as warehouse:
        back = warehouse.query("SELECT count(*) FROM ancestors").item()
        forth = warehouse.query("SELECT count(*) FROM descendants").item()
        assert back == forth > 50
        assert warehouse.query("SELECT max(depth) FROM ancestors").item() < 20
        alone = warehouse.query(
            "FROM ancestors WHERE (kind, id, version) = (ancestor_kind, ancestor_id, ancestor_version)"
        )
    assert alone.height == 0


def test_every_recorder_stands_for_an_asset_and_bears_an_empty_store(tmp_path: Path) -> None:
    from trace_assets.definitions import load

    names = {key.to_user_string() for key in load()[0].resolve_asset_graph().get_all_asset_keys()}
    assert set(RECORDERS) <= names
    study = Study(Home.open(tmp_path), Settings())
    for asset in set(RECORDERS) - {"trajectories", "triage", "labels"}:
        record_lineage(study, asset, "look")

"""What nodes are asked, how it is judged, and the history that is written from afar; all without Ray."""

import json
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trace_assets.errors import Unavailable
from trace_assets.orchestration.cluster import nodes as module
from trace_assets.orchestration.cluster.nodes import (
    Node,
    Probe,
    compare_clocks,
    compare_nodes,
    own_report,
    probe_home,
)
from trace_assets.orchestration.instance import History, open_history, prepare_instance
from trace_assets.store import Home
from trace_assets.store.locks import is_held


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


def judged(probe: Probe, resources: dict[str, float] | None = None, **said: Any) -> Node:
    """Judge a node that reports as this machine would, but for what is given."""
    report = replace(own_report(), host="node-b", **said)
    return Node.of("n1", "node-b (10.0.0.2)", resources or {"CPU": 4.0}, report, probe)


@pytest.fixture
def probe(home: Home, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "SEEN_SECONDS", 0.2)
    with probe_home(home) as probe:
        (Path(probe.folder) / "n1").write_text(f"{probe.token} node-b")
        yield probe


def test_a_node_like_this_one_is_taken(home: Home, probe: Probe) -> None:
    node = judged(probe, sandboxes=())
    assert node.problem == ""
    compare_nodes([node], home)


@pytest.mark.parametrize("ahead", [0.0, 90.0, -0.2])
def test_a_clock_is_not_ahead_by_the_time_of_asking(monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    """One question waits for a process to begin, one takes equally long both ways, one has a slow answer."""
    now = 1000.0
    monkeypatch.setattr(module.time, "time", lambda: now)
    ways = iter([(4.0, 0.1), (0.02, 0.02), (0.1, 2.0)])

    def ask() -> float:
        nonlocal now
        there, back = next(ways)
        now += there
        told = now + ahead
        now += back
        return told

    found = compare_clocks(ask, 3)
    assert found.ahead == pytest.approx(ahead) and found.within == pytest.approx(0.02)
    ways = iter([(4.0, 0.1)])
    late = compare_clocks(ask, 1)
    assert abs(late.ahead - ahead) < late.within == pytest.approx(2.05)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"source": "another"}, "other code of trace-assets"),
        ({"package": "0.0.9"}, "other code of trace-assets"),
        ({"python": "3.99.1"}, "runs Python 3.99.1"),
        ({"sees_home": False}, "does not see the home"),
        ({"sees_locks": False}, "not the locks of this machine"),
        ({"writes": "Read-only file system"}, "cannot write to the home"),
    ],
)
def test_what_stands_against_a_node_is_one_sentence(
    home: Home, probe: Probe, said: dict[str, Any], words: str
) -> None:
    wrong = judged(probe, **said)
    with pytest.raises(Unavailable) as refused:
        compare_nodes([judged(probe), wrong], home)
    assert "node-b (10.0.0.2)" in str(refused.value) and words in str(refused.value)


def test_a_node_whose_file_does_not_arrive_here_has_another_folder(home: Home, probe: Probe) -> None:
    (Path(probe.folder) / "n1").unlink()
    assert "does not see the home" in judged(probe).problem
    (Path(probe.folder) / "n1").write_text("of something else")
    assert "does not see the home" in judged(probe).problem


def test_a_node_that_promises_a_sandbox_must_have_one(probe: Probe) -> None:
    assert "neither docker nor bwrap" in judged(probe, {"sandbox": 2.0}, sandboxes=()).problem
    assert judged(probe, {"sandbox": 2.0}, sandboxes=("bwrap",)).problem == ""


def test_the_probe_is_locked_while_it_lies_there_and_then_gone(home: Home) -> None:
    with probe_home(home) as probe:
        assert is_held(Path(probe.folder) / "driver")
        assert (Path(probe.folder) / "driver").read_text() == probe.token
    assert not Path(probe.folder).exists()


@dg.asset(pool="gpu", partitions_def=dg.DynamicPartitionsDefinition(name="task_batch"))
def counted(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    """Say how often it was made before, as the history knows it."""
    made = context.instance.fetch_materializations(context.asset_key, limit=10).records
    context.instance.add_dynamic_partitions("task_batch", [f"after-{len(made)}"])
    return dg.MaterializeResult(data_version=dg.DataVersion(str(len(made))), metadata={"before": len(made)})


def test_a_run_elsewhere_is_recorded_here_as_any_other(home: Home) -> None:
    with prepare_instance(home) as here:
        here.add_dynamic_partitions("task_batch", ["b"])
        history = History(str(home.dagster))
        asked: Counter[str] = Counter()

        def ask(storage: str, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
            asked[name] += 1
            sent = pickle.loads(pickle.dumps((storage, name, arguments, named)))  # all of it travels
            return pickle.loads(pickle.dumps(history.ask(*sent)))

        afar = open_history(ask)
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        for _ in range(2):
            done = dg.materialize([counted], instance=afar, partition_key="b", run_config=quiet)
            assert done.success
        assert [run.status for run in here.get_runs()] == [dg.DagsterRunStatus.SUCCESS] * 2
        events = here.fetch_materializations(dg.AssetKey("counted"), limit=10).records
        assert [one.event_log_entry.asset_materialization.metadata["before"].value for one in events] == [
            1,
            0,
        ]
        assert set(here.get_dynamic_partitions("task_batch")) == {"b", "after-0", "after-1"}
        assert asked["store_event"] or asked["store_event_batch"]
        # A GPU of another node is not a slot of this machine's pool.
        assert not asked["claim_concurrency_slot"]
        assert here.event_log_storage.get_concurrency_keys() == set()
        afar.dispose()


def test_a_node_of_the_cluster_that_gave_no_answer_is_refused(home: Home) -> None:
    silent = Node("n2", "node-c (10.0.0.3)", {}, "gave no answer: timed out")
    with pytest.raises(Unavailable, match=r"node-c \(10\.0\.0\.3\) gave no answer: timed out\."):
        compare_nodes([silent], home)
    assert json.dumps(silent.resources) == "{}"

"""What is written can be read again: the same messages, the same verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.formats.reading import read_trajectories
from tests.quick import examples, one_of_each
from trace_assets.cli.data import FORMATS
from trace_assets.errors import InputError
from trace_assets.formats.export import EXPORTERS, SCOUT_SCHEMA, Selection, export
from trace_assets.records import Check, Message, ToolCall, Trajectory
from trace_assets.store import Home, Store
from trace_assets.store.trajectories import write_trajectories
from trace_assets.store.warehouse import Warehouse

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Return messages as importers make them: calls with ids of their own, results with their tool's name."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(1, 5))):
        role = draw(st.sampled_from(["system", "user", "assistant"]))
        calls = tuple(
            ToolCall(
                id=f"c{turn}_{n}",
                name=draw(st.sampled_from(["get", "put"])),
                arguments=draw(st.dictionaries(words, values, max_size=2)),
            )
            for n in range(draw(st.integers(0, 2)) if role != "system" else 0)
        )
        reasoning = draw(words.filter(bool) | st.none()) if role == "assistant" else None
        requestor: Any = draw(st.sampled_from(["user", "assistant"])) if role == "user" else "assistant"
        content = draw(words | st.none()) if calls else draw(words)
        metadata = {"reasoning": reasoning} if reasoning else {}
        messages.append(
            Message(role=role, content=content, tool_calls=calls, requestor=requestor, metadata=metadata)
        )
        for call in calls[: draw(st.integers(0, 2))]:
            messages.append(
                Message(
                    role="tool",
                    content=draw(words | st.none()),
                    tool_call_id=call.id,
                    tool_name=call.name,
                    is_error=draw(st.booleans()),
                    requestor="user" if role == "user" else "assistant",
                )
            )
    return tuple(messages)


def trajectory(name: str, messages: tuple[Message, ...], **changes: Any) -> Trajectory:
    given: dict[str, Any] = {
        "trajectory_id": name,
        "task_id": "shop/7",
        "target": "shop",
        "task_batch": "b",
        "policy": "m-1",
        "success": False,
        "reward": 0.25,
        "stop": "completed",
        "n_messages": len(messages),
        "messages": messages,
        **changes,
    }
    return Trajectory(**given)


def stored(folder: Path, *trajectories: Trajectory) -> Store:
    store = Store(folder / "tables")
    write_trajectories(store, trajectories, "b")
    return store


def file_name(format: str) -> str:
    return "out.jsonl" if format == "atif" else "out.parquet"


NOTHING_GIVEN = ToolCall(id="c0_0", name="get", arguments={"a": None})


def test_help_names_every_format() -> None:
    assert ", ".join(EXPORTERS) == FORMATS


@pytest.mark.parametrize("format", one_of_each(EXPORTERS))
@given(messages=conversations())
@example(messages=(Message(role="user", content="", tool_calls=(NOTHING_GIVEN,)),))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_form_gives_back_the_same_messages(
    tmp_path_factory: pytest.TempPathFactory, format: str, messages: tuple[Message, ...]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    checks = (Check(name="db", kind="state", passed=False, score=0.25),)
    one = trajectory("t-1", messages, checks=checks, prompt_tokens=5, completion_tokens=2)
    export(stored(folder, one), folder / file_name(format), format, Selection())
    imported = read_trajectories([folder / file_name(format)])
    (back,) = imported.trajectories
    assert imported.problems == []
    assert back.messages == one.messages
    assert (back.trajectory_id, back.task_id, back.target) == ("t-1", "shop/7", "shop")
    assert (back.reward, back.success, back.stop, back.policy) == (0.25, False, "completed", "m-1")
    if format != "scout":
        assert back.checks == checks


@pytest.mark.parametrize("format", list(EXPORTERS))
def test_no_verdict_and_a_fault_stay_what_they_are(tmp_path: Path, format: str) -> None:
    said = (Message(role="user", content="hi"),)
    broken = trajectory(
        "t-1",
        said,
        success=None,
        reward=None,
        stop="infrastructure_error",
        fault="infrastructure",
        error="server down",
    )
    silent = trajectory("t-2", said, success=None, reward=None)
    export(stored(tmp_path, broken, silent), tmp_path / file_name(format), format, Selection())
    back = read_trajectories([tmp_path / file_name(format)]).trajectories
    assert [(one.reward, one.success, one.fault) for one in back] == [
        (None, None, "infrastructure"),
        (None, None, None),
    ]


def test_filters(tmp_path: Path) -> None:
    said = (Message(role="user", content="hi"),)
    store = stored(
        tmp_path,
        trajectory("a", said, success=True, reward=1.0),
        trajectory("b", said),
        trajectory("c", said, success=None, reward=None, target="desk", task_id="desk/1"),
        trajectory("d", ()),
    )

    def ids(**wanted: Any) -> list[str]:
        export(store, tmp_path / "o.parquet", "huggingface", Selection(**wanted))
        return list(pq.read_table(tmp_path / "o.parquet")["trajectory_id"].to_pylist())

    assert ids() == ["a", "b", "c", "d"]
    assert ids(outcome="passed") == ["a"] and ids(outcome="failed") == ["b", "d"]
    assert ids(outcome="unjudged") == ["c"] == ids(target="desk")
    atif = export(store, tmp_path / "o.jsonl", "atif", Selection())
    assert (atif.written, atif.left_out) == (3, 1)


@pytest.mark.parametrize(
    ("wanted", "format", "word"),
    [
        ({"batch": "x"}, "atif", "there are b"),
        ({"target": "x"}, "atif", "there are shop"),
        ({"outcome": "good"}, "atif", "passed, failed, unjudged"),
        ({"outcome": "passed"}, "scout", "no trajectory fits"),
        ({}, "csv", "atif, huggingface, scout"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_no_file(
    tmp_path: Path, wanted: dict[str, Any], format: str, word: str
) -> None:
    store = stored(tmp_path, trajectory("b", (Message(role="user", content="hi"),)))
    with pytest.raises(InputError, match=word):
        export(store, tmp_path / "o", format, Selection(**wanted))
    assert [entry.name for entry in tmp_path.iterdir()] == ["tables"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    store = stored(tmp_path, trajectory("b", (Message(role="user", content="hi"),)))
    with pytest.raises(InputError, match="nowhere"):
        export(store, tmp_path / "nowhere" / "o.jsonl", "atif", Selection())


def test_the_view_has_the_columns_and_values_of_the_scout_export(tmp_path: Path) -> None:
    call = ToolCall(id="c", name="get", arguments={"b": 1, "a": "x"})
    said = (
        Message(role="user", content="hi"),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", content="no", tool_call_id="c", tool_name="get", is_error=True),
    )
    home = Home.open(tmp_path / "home")
    write_trajectories(Store(home.tables), [trajectory("a", said, seconds=2.0), trajectory("b", ())], "b")
    export(Store(home.tables), tmp_path / "o.parquet", "scout", Selection())
    written = pq.read_table(tmp_path / "o.parquet").to_pylist()
    with Warehouse(home) as warehouse:
        seen = warehouse.query("SELECT * FROM transcripts ORDER BY transcript_id").to_dicts()
    assert list(seen[0]) == SCOUT_SCHEMA.names
    for row, other in zip(seen, written, strict=True):
        told = json.loads(row.pop("messages")), json.loads(other.pop("messages"))
        plain = [[{k: v for k, v in one.items() if v and k != "metadata"} for one in part] for part in told]
        assert plain[0] == plain[1]
        row["score"], other["score"] = json.loads(row["score"]), json.loads(other["score"])
        row["metadata_json"] = None
        assert row == other

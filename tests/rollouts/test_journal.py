from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.errors import InputError
from trace_assets.records import Check, Message, ToolCall, Trajectory
from trace_assets.rollouts.runner import Journal


def trajectory(name: str, **changes: object) -> Trajectory:
    call = ToolCall(id="call_0", name="look", arguments={"a": [1, {"b": None}], "é": "\u2028"})
    return Trajectory.model_validate(
        {
            "trajectory_id": name,
            "task_id": "t/1",
            "target": "t",
            "task_batch": "b",
            "policy": "p",
            "reward": 0.25,
            "messages": (Message(role="assistant", content="a\nb", tool_calls=(call,)),),
            "checks": (Check(name="c", kind="state", passed=None),),
        }
        | changes
    )


def test_what_is_appended_is_loaded(tmp_path: Path) -> None:
    first, second = trajectory("1"), trajectory("2", success=True)
    with Journal(tmp_path / "deep" / "er") as journal:
        assert journal.load() == {}
        journal.append(first)
        assert Journal(journal.folder).load() == {"1": first}  # at once, from another process's point of view
        journal.append(second)
    journal.append(trajectory("3"))
    assert list(journal.load()) == ["1", "2", "3"]
    assert journal.load()["2"] == second
    journal.clear()
    assert journal.load() == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
@given(st.data())
def test_a_torn_write_loses_one_trajectory_at_most(tmp_path: Path, data: st.DataObject) -> None:
    journal = Journal(tmp_path)
    journal.clear()
    for name in "123":
        journal.append(trajectory(name))
    journal.close()
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    lines = whole.splitlines(keepends=True)
    complete = sum(cut >= sum(map(len, lines[: n + 1])) for n in range(3))
    assert list(journal.load()) == list("123")[:complete]
    journal.append(trajectory("4"))  # goes to a file of its own, not behind the torn line
    assert list(journal.load()) == [*list("123")[:complete], "4"]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(trajectory("1"))
    journal.close()
    (path,) = tmp_path.glob("*.jsonl")
    path.write_text('{"other": 1}\n' + path.read_text())
    with pytest.raises(InputError, match=f"{path.name}, line 1"):
        journal.load()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
@given(st.data())
def test_an_altered_line_loses_its_trajectory_and_no_other(tmp_path: Path, data: st.DataObject) -> None:
    journal = Journal(tmp_path)
    journal.clear()
    for name in "123":
        journal.append(trajectory(name))
    journal.close()
    (path,) = tmp_path.glob("*.jsonl")
    content = bytearray(path.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    found = journal.load()
    assert len(found) >= 1 and all(one == trajectory(name) for name, one in found.items())


def test_lines_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text(trajectory("1").model_dump_json(exclude_defaults=True) + "\n")
    assert Journal(tmp_path).load() == {"1": trajectory("1")}


def test_a_good_run_outweighs_a_fault_in_any_order(tmp_path: Path) -> None:
    good, fault = trajectory("1", success=True), trajectory("1", fault="environment", error="e")
    for order in ((good, fault), (fault, good)):
        journal = Journal(tmp_path)
        journal.clear()
        for item in order:
            journal.append(item)
        assert journal.load() == {"1": good}

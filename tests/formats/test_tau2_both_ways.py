"""tau2 files by the fast way: which simulations take it, and that the slow way decides about all others."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.formats.reading import read_trajectories
from tests.formats.test_streaming import by_parts
from tests.formats.test_tau2 import content, simulation, write
from trace_assets.formats import tau2_columns, tau2_file, tau2_parts
from trace_assets.formats.json_array import Span
from trace_assets.formats.problem import Part, Problem
from trace_assets.formats.tau2 import open_tau2
from trace_assets.records import CheckRow, MessageRow, Task, Trajectory, TrajectoryHead
from trace_assets.store.trajectories import read_trajectories as read_stored
from trace_assets.untrusted.allowance import Allowance


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the trajectories that the slow way gave."""
    read, settled = list[str](), tau2_parts.settled_items

    def watched(*arguments: Any) -> Any:
        for item in settled(*arguments):
            if isinstance(item, Trajectory):
                read.append(item.trajectory_id)
            yield item

    monkeypatch.setattr(tau2_parts, "settled_items", watched)
    return read


def _plain(one: Trajectory) -> dict[str, Any]:
    found = one.model_dump()
    return {**found, "checks": sorted(found["checks"], key=lambda check: check["name"])}


def both(folder: Path, *rows: Any, name: str = "a.json", **more: Any) -> tuple[list[Trajectory], list[Any]]:
    """Read a file both ways, compare, and return trajectories and problems."""
    path = write(folder / name, content(*rows, **more))
    stores, read = by_parts(folder / f"parts of {path.stem}", path)
    stored = read_stored(stores[path.stem])
    whole = read_trajectories([path])
    assert [_plain(one) for one in stored] == sorted(
        map(_plain, whole.trajectories), key=lambda one: one["trajectory_id"]
    )
    frame = stores[path.stem].frame(MessageRow)
    assert frame.equals(frame.sort("trajectory_id", "index"))
    assert frame.height == sum(one.n_messages for one in stored)
    assert {one.task_id for one in stores[path.stem].read(Task)} == {one.task_id for one in stored}
    return stored, list(read.problems)


def test_ordinary_simulations_take_the_fast_way(tmp_path: Path, slowly: list[str]) -> None:
    rows = [simulation(n) for n in range(3)]
    rows.append(simulation(3, reward_info=None))
    rows.append(simulation(4, termination_reason="max_steps", seed=None, duration=None, agent_cost=None))
    rows.append(simulation(5, messages=[{"role": "user", "content": None}]))
    found, _ = both(tmp_path, *rows)
    assert slowly == [] and len(found) == 6


@pytest.mark.parametrize(
    "odd",
    [
        {"id": 7},
        {"task_id": 1},
        {"seed": "7"},
        {"trial": "2"},
        {"duration": "1.5"},
        {"id": ""},
        {"task_id": ""},
    ],
)
def test_odd_ones_take_the_slow_way_and_the_others_do_not(
    tmp_path: Path, slowly: list[str], odd: dict[str, Any]
) -> None:
    rows = [simulation(0), simulation(1, **odd), simulation(2)]
    found, problems = both(tmp_path, *rows)
    kept = [one.trajectory_id for one in found]
    assert {"sim-0", "sim-2"} <= set(kept) and not {"sim-0", "sim-2"} & set(slowly)
    assert slowly == [name for name in kept if name not in ("sim-0", "sim-2")]
    assert len(kept) + len(problems) == 3


def test_an_id_that_is_a_number_is_one_id(tmp_path: Path) -> None:
    rows = [simulation(0, id=7), simulation(1, id="7"), simulation(2, id=7.5), simulation(3, id=True)]
    path = write(tmp_path / "a.json", content(*rows))
    stores, read = by_parts(tmp_path / "parts", path)
    kept = stores["a"].frame(TrajectoryHead)["trajectory_id"].to_list()
    assert {"7", "7.5"} <= set(kept) and len(kept) == len(set(kept))
    assert [one.kind for one in read.problems].count("duplicate") == 1


@pytest.mark.parametrize("spoilt", [{"messages": None}, {"seed": "seven"}, {"messages": ["x"]}])
def test_a_second_of_the_same_name_counts_where_the_first_is_of_no_use(
    tmp_path: Path, spoilt: dict[str, Any]
) -> None:
    rows = [
        simulation(0),
        simulation(1, **spoilt),
        simulation(2),
        simulation(1, trial=5),
        simulation(1, trial=6),
    ]
    path = write(tmp_path / "a.json", content(*rows))
    stores, read = by_parts(tmp_path / "parts", path)
    assert {one.trajectory_id: one.trial for one in stores["a"].read(TrajectoryHead)} == {
        "sim-0": 2,
        "sim-1": 5,
        "sim-2": 2,
    }
    told = {(one.kind, one.position) for one in read.problems}
    assert told == {("left_out", "simulations[1]"), ("duplicate", "simulations[4]")}


@pytest.mark.parametrize(("other", "same"), [({}, True), ({"messages": []}, False)])
def test_a_repeated_one_is_told_with_whether_it_is_the_same(
    tmp_path: Path, other: dict[str, Any], same: bool
) -> None:
    path = write(tmp_path / "a.json", content(simulation(0), simulation(1), simulation(0, **other)))
    stores, read = by_parts(tmp_path / "parts", path)
    assert stores["a"].frame(TrajectoryHead)["trajectory_id"].to_list() == ["sim-0", "sim-1"]
    assert [one.trial for one in stores["a"].read(TrajectoryHead)] == [2, 2]
    (problem,) = read.problems
    assert (problem.kind, problem.position) == ("duplicate", "simulations[2]")
    told_whole = [one.message for one in read_trajectories([path]).problems]
    assert [problem.message] == told_whole
    different = write(tmp_path / "b.json", content(simulation(0), simulation(1), simulation(0, messages=[])))
    (unlike,) = by_parts(tmp_path / "other", different)[1].problems
    assert (problem.message == unlike.message.replace("b.json", "a.json")) is not same


def test_ids_are_found_wherever_they_stand(tmp_path: Path) -> None:
    rows = [dict(reversed(simulation(n).items())) for n in (1, 0, 1)]
    path = write(tmp_path / "a.json", content(*rows))
    stores, read = by_parts(tmp_path / "parts", path)
    assert stores["a"].frame(TrajectoryHead)["trajectory_id"].to_list() == ["sim-0", "sim-1"]
    assert [(one.kind, one.position) for one in read.problems] == [("duplicate", "simulations[2]")]


def test_ids_are_looked_for_in_what_may_be_held(tmp_path: Path) -> None:
    rows = [dict(reversed(simulation(n, note="x" * n).items())) for n in range(3)]
    path = write(tmp_path / "a.json", content(*rows))
    found = open_tau2(path)
    assert not isinstance(found, Problem)
    most = max(span.end - span.start for span in found[1].spans)
    assert tau2_parts._ids(path, found[1], most) == ["sim-0", "sim-1", "sim-2"]
    assert tau2_parts._ids(path, found[1], most - 1).count("") == 1


def test_more_than_can_be_remembered_is_told_of(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", content(*(simulation(n) for n in range(33))))
    told, *_ = tau2_parts.read_parts(path, {}, Allowance(4 * 1600 * 30))
    assert isinstance(told, Problem) and (told.kind, told.position) == ("too_large", "simulations[30]")
    assert told.message.startswith("there are more than 30 simulations") and "memory_gib" in told.message


@pytest.mark.parametrize("length", [1000, 1001])
def test_an_id_of_any_length_is_one_id(tmp_path: Path, slowly: list[str], length: int) -> None:
    """One that is too long to be remembered beforehand is left to the slow way."""
    name = "z" * length
    path = write(tmp_path / "a.json", content(*(simulation(n, id=name, trial=n) for n in (1, 2))))
    other = [simulation(4), simulation(5, id="zz" + "y" * (length - 2))]
    again = write(tmp_path / "b.json", content(simulation(3, id=name), *other))
    stores, read = by_parts(tmp_path / "parts", path, again)
    assert [(one.trajectory_id, one.trial) for one in stores["a"].read(TrajectoryHead)] == [(name, 1)]
    assert [one.trajectory_id for one in stores["b"].read(TrajectoryHead)] == [one["id"] for one in other]
    assert [one.kind for one in read.problems] == ["duplicate", "duplicate"]
    assert (slowly == []) is (length == 1000)


def test_a_task_is_told_once_by_whichever_way(tmp_path: Path) -> None:
    rows = [simulation(n, task_id="1", **({"seed": "7"} if n else {})) for n in range(3)]
    path = write(tmp_path / "a.json", content(*rows, simulation(3, task_id="2", seed="7")))
    tasks = [item.task_id for item in tau2_parts.read_parts(path, {}) if isinstance(item, Task)]
    assert [name.rpartition("/")[2] for name in tasks] == ["1", "2"]


def test_what_takes_the_slow_way_comes_together_as_far_as_memory_allows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", content(*(simulation(n, seed="7") for n in range(20))))

    def sizes(allowed: int) -> list[int]:
        items = tau2_parts.read_parts(path, {}, Allowance(allowed))
        return [len(item.ids) for item in items if isinstance(item, Part)]

    assert sizes(64 << 20) == [20]
    assert len(sizes(1 << 20)) > 5 and sum(sizes(1 << 20)) == 20


def test_what_another_file_held_before_is_not_read_again(tmp_path: Path) -> None:
    one = write(tmp_path / "a.json", content(simulation(0), simulation(1)))
    two = write(tmp_path / "b.json", content(simulation(1, trial=9), simulation(2)))
    stores, read = by_parts(tmp_path / "parts", one, two)
    assert stores["a"].frame(TrajectoryHead)["trajectory_id"].to_list() == ["sim-0", "sim-1"]
    assert stores["b"].frame(TrajectoryHead)["trajectory_id"].to_list() == ["sim-2"]
    (problem,) = read.problems
    assert problem.position == "simulations[0]" and problem.path == str(two)


def test_notices_name_the_place_in_the_file_whatever_its_pieces_look_like(tmp_path: Path) -> None:
    """A decoy makes two pieces of one simulation, and an element that is none moves nobody."""
    decoy = simulation(1, note=[{"id": "decoy", "task_id": "1"}])
    rows = [
        simulation(0, reward_info=None),
        decoy,
        simulation(5, reward_info=None),
        {"x": 1},
        simulation(3, id=3, reward_info=None),
        simulation(4, reward_info=None),
    ]
    path = write(tmp_path / "a.json", content(*rows))
    _, read = by_parts(tmp_path / "parts", path)
    told = sorted((one.kind, one.position) for one in read.problems)
    assert told == [
        ("left_out", "simulations[3]"),
        *(("not_judged", f"simulations[{place}]") for place in (0, 2, 4, 5)),
    ]


def test_fewer_elements_than_pieces_move_the_places_behind_them_alone(tmp_path: Path) -> None:
    decoy = simulation(1, note=[{"id": "decoy", "task_id": "1"}])
    rows = [simulation(0, reward_info=None), decoy, simulation(2), simulation(3, reward_info=None)]
    _, problems = both(tmp_path, *rows)
    assert [one.position for one in problems] == ["simulations[0]", "simulations[3]"]


def test_several_results_in_one_turn_are_messages_of_their_own(tmp_path: Path, slowly: list[str]) -> None:
    calls = [
        {"id": name, "name": f"get_{name}", "arguments": {"n": 1}, "requestor": "assistant"} for name in "ab"
    ]
    results = [
        {"role": "tool", "id": "b", "content": "B", "requestor": "assistant", "error": True},
        {"role": "tool", "id": "a", "content": "A", "requestor": "assistant", "error": False},
    ]
    said = [
        {"role": "assistant", "content": None, "tool_calls": calls, "usage": {"prompt_tokens": 5}},
        {"role": "tool", "tool_messages": results},
        {"role": "assistant", "content": "Done.", "usage": {"completion_tokens": 4}},
    ]
    found, problems = both(tmp_path, simulation(0, messages=said), simulation(1))
    assert problems == [] and slowly == []
    messages = found[0].messages
    assert [(one.role, one.content, one.tool_name, one.is_error) for one in messages] == [
        ("assistant", None, None, False),
        ("tool", "B", "get_b", True),
        ("tool", "A", "get_a", False),
        ("assistant", "Done.", None, False),
    ]
    assert (found[0].n_messages, found[0].prompt_tokens, found[0].completion_tokens) == (4, 5, 4)


def test_tokens_are_the_agents_and_none_where_nothing_was_noted(tmp_path: Path) -> None:
    nothing = [
        {"role": "user", "content": "hi", "usage": {"prompt_tokens": 9}},
        {"role": "assistant", "content": "x"},
    ]
    empty = [
        {"role": "assistant", "content": "x", "usage": {}},
        {"role": "assistant", "content": "y", "usage": {"prompt_tokens": None, "completion_tokens": None}},
    ]
    some = [
        {"role": "assistant", "content": "x", "usage": {"prompt_tokens": 3, "completion_tokens": None}},
        {"role": "assistant", "content": "y", "usage": {"prompt_tokens": 4, "completion_tokens": 2}},
        {"role": "assistant", "content": "z", "usage": {"completion_tokens": 5}},
        {"role": "assistant", "content": "!", "usage": {}},
    ]
    found, _ = both(
        tmp_path, *(simulation(n, messages=said) for n, said in enumerate([nothing, empty, some, []]))
    )
    assert [(one.prompt_tokens, one.completion_tokens) for one in found] == [
        (None, None),
        (None, None),
        (7, 7),
        (None, None),
    ]
    assert [one.n_messages for one in found] == [2, 2, 4, 0]


def test_calls_without_a_name_of_their_own_are_numbered_by_their_message(
    tmp_path: Path, slowly: list[str]
) -> None:
    def asked(**given: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": None, "tool_calls": [{"name": "get", **given}]}

    said = [
        {"role": "user", "content": "hi"},
        asked(arguments={"a": {"é": [1, None]}}),
        asked(id="", arguments='{"b": 2}'),
        asked(id="x", arguments="not JSON"),
        asked(id="y", arguments="[1]"),
        asked(id="z", arguments=None),
        asked(id="w", arguments=[1]),
        {"role": "tool", "id": "call_1", "content": "first"},
        {"role": "tool", "id": "z", "content": "last"},
        {"role": "tool", "id": "nobody", "content": "?"},
    ]
    for solo in (False, True):
        folder = tmp_path / str(solo)
        folder.mkdir()
        found, _ = both(folder, simulation(0, messages=said), solo=solo)
        messages = found[0].messages[1 if solo else 0 :]
        assert [(one.tool_calls[0].id, one.tool_calls[0].arguments) for one in messages[1:7]] == [
            ("call_1", {"a": {"é": [1, None]}}),
            ("call_2", {"b": 2}),
            ("x", {"raw": "not JSON"}),
            ("y", {}),
            ("z", {}),
            ("w", {}),
        ]
        assert [one.tool_name for one in messages[7:]] == ["get", "get", None]
        assert [one.tool_call_id for one in messages[7:]] == ["call_1", "z", "nobody"]
        assert slowly == []
        if solo:
            assert (found[0].messages[0].content, found[0].messages[0].requestor) == (
                "Phone 555 is dead.",
                "assistant",
            )


def test_the_collector_is_as_it_was_afterwards(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", content(simulation(0)))
    assert gc.isenabled()
    by_parts(tmp_path / "on", path)
    assert gc.isenabled()
    gc.disable()
    try:
        by_parts(tmp_path / "off", path)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_checks_stand_beside_their_trajectories(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", content(simulation(0), simulation(1, reward_info=None), simulation(2)))
    stores, _ = by_parts(tmp_path / "parts", path)
    rows = stores["a"].read(CheckRow)
    whole = {one.trajectory_id: one.checks for one in read_trajectories([path]).trajectories}
    assert {row.trajectory_id for row in rows} == {"sim-0", "sim-2"}
    assert [row.name for row in rows if row.trajectory_id == "sim-0"] == sorted(
        one.name for one in whole["sim-0"]
    )


def test_many_pieces_in_small_chunks_are_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [simulation(n, id=f"s{n * 7 % 40:02}") for n in range(40)]
    path = write(tmp_path / "a.json", json.dumps(content(*rows), indent=1))
    whole, _ = by_parts(tmp_path / "one", path)
    for chunk in (1, 3000, 4000):
        monkeypatch.setattr(tau2_parts, "CHUNK", chunk)
        parts, read = by_parts(tmp_path / str(chunk), path)
        assert read.batches["a"].n_trajectories == 40
        for record in (MessageRow, CheckRow, TrajectoryHead):
            assert parts["a"].frame(record).equals(whole["a"].frame(record))


def opened(path: Path) -> tuple[Any, Sequence[Span]]:
    found = open_tau2(path)
    assert not isinstance(found, Problem)
    return found[0], found[1].spans


def test_nothing_of_what_is_refused_stays_in_the_tables(tmp_path: Path) -> None:
    """A reward that is no float is noticed late."""
    spoilt = simulation(1, reward_info={"reward": 10**400})
    found, (problem,) = both(tmp_path, simulation(0), spoilt, simulation(2))
    assert [one.trajectory_id for one in found] == ["sim-0", "sim-2"]
    assert (problem.kind, problem.position) == ("left_out", "simulations[1]")


@pytest.mark.parametrize(
    ("limit", "within", "beyond"),
    [
        ("MOST_CALLS", {"tool_calls": [{"name": "a"}] * 3}, {"tool_calls": [{"name": "a"}] * 4}),
        ("MOST_MESSAGES", {"messages": 3}, {"messages": 4}),
    ],
)
def test_more_than_may_be_is_refused_by_both_ways(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    within: dict[str, Any],
    beyond: dict[str, Any],
) -> None:
    def said(messages: int = 1, **more: Any) -> list[dict[str, Any]]:
        return [{"role": "assistant", "content": "x", **more}] * messages

    for module in (tau2_file, tau2_columns):
        monkeypatch.setattr(module, limit, 3)
    rows = [simulation(n, messages=said(**given)) for n, given in enumerate([within, beyond])]
    found, (problem,) = both(tmp_path, *rows)
    assert [one.trajectory_id for one in found] == ["sim-0"] and problem.position == "simulations[1]"


@pytest.mark.parametrize(
    "named",
    [
        lambda name: {"id": name},
        lambda name: {"messages": [{"role": "tool", "id": name, "content": ""}]},
        lambda name: {"messages": [{"role": "assistant", "tool_calls": [{"name": name}]}]},
    ],
    ids=["trajectory", "answered call", "tool"],
)
def test_names_that_would_be_repeated_too_often_take_the_slow_way(
    tmp_path: Path,
    slowly: list[str],
    monkeypatch: pytest.MonkeyPatch,
    named: Callable[[str], dict[str, Any]],
) -> None:
    monkeypatch.setattr(tau2_columns, "_REPEATED", 20)
    for length in (20, 21):
        said = {"messages": [{"role": "user", "content": "x"}], **named("n" * length)}
        both(tmp_path, simulation(0, **said), name=f"{length}.json")
        assert len(slowly) == length - 20


def test_a_piece_that_is_large_takes_the_slow_way(
    tmp_path: Path, slowly: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [simulation(n, note="x" * n) for n in range(3)]
    _, spans = opened(write(tmp_path / "first.json", content(*rows)))
    monkeypatch.setattr(tau2_columns, "LARGE", spans[1].end - spans[1].start)
    assert len(both(tmp_path, *rows)[0]) == 3 and slowly == []
    monkeypatch.setattr(tau2_columns, "LARGE", spans[1].end - spans[1].start - 1)
    assert len(both(tmp_path, *rows, name="b.json")[0]) == 3 and slowly == ["sim-1"]


def test_a_piece_that_takes_much_memory_leaves_room_for_the_others(tmp_path: Path) -> None:
    rows = [simulation(0), simulation(1, note=[{}] * 300), simulation(2)]
    file, spans = opened(write(tmp_path / "a.json", content(*rows)))
    found = tau2_columns.convert(file, spans, Allowance(4 * 600 * 200))
    assert found.part is not None and found.part.ids == ["sim-0", "sim-2"]
    assert found.refused == [spans[1]]


@pytest.mark.parametrize("solo", [False, True])
def test_memory_is_taken_to_the_last_byte(tmp_path: Path, solo: bool) -> None:
    rows = content(simulation(0, note=[{}] * 300), solo=solo)
    file, spans = opened(write(tmp_path / "a.json", rows))
    takes = 600 * json.dumps(rows["simulations"]).count("{") + (8 * len("Phone 555 is dead.") if solo else 0)
    assert tau2_columns.convert(file, spans, Allowance(4 * takes)).refused == []
    assert tau2_columns.convert(file, spans, Allowance(4 * takes - 1)).refused == spans


def test_what_few_messages_have_is_kept(tmp_path: Path, slowly: list[str]) -> None:
    used = {"usage": {"prompt_tokens": 1, "completion_tokens": 9}}
    said = [
        {"role": "assistant", "content": "x", "reasoning": "because", **used},
        {"role": "assistant", "content": "x", "errors": ["e"]},
        {"role": "assistant", "content": None, **used},
        {"role": "user", "content": None, **used},
    ]
    found, _ = both(tmp_path, simulation(0, messages=said))
    assert slowly == [] and [bool(one.metadata) for one in found[0].messages] == [True, True, True, False]


def test_a_piece_that_is_no_longer_there_is_refused(tmp_path: Path) -> None:
    file, spans = opened(write(tmp_path / "a.json", content(simulation(0), simulation(1))))
    gone = Span(2, file.path.stat().st_size, file.path.stat().st_size + 10)
    found = tau2_columns.convert(file, [spans[0], gone])
    assert found.part is not None and found.part.ids == ["sim-0"] and found.refused == [gone]


def test_a_chunk_is_full_where_its_pieces_reach_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tau2_parts, "CHUNK", 10)
    spans = [Span(n, a, b) for n, (a, b) in enumerate([(0, 9), (9, 10), (10, 19), (19, 30), (30, 33)])]
    chunks = list(tau2_parts._chunks(spans))
    assert [[one.number for one in chunk] for chunk in chunks] == [[0, 1], [2, 3], [4]]
    assert list(tau2_parts._chunks([])) == []


class Aside:
    """A helper that takes two chunks at once, and hands them back, or dies with its second."""

    def __init__(self, dies: bool) -> None:
        self.dies, self.given, self.lost = dies, dict[int, Any](), dict[int, Any]()
        self.opened: list[Any] = []

    def open(self, *told: Any) -> None:
        self.opened.append(told)

    @property
    def free(self) -> bool:
        return len(self.given) < 2 and not (self.dies and self.lost)

    def give(self, number: int, chunk: Any) -> None:
        assert self.free
        self.given[number] = chunk
        if self.dies and len(self.given) == 2:
            self.dies, self.lost = False, dict(self.given)
            self.given.clear()

    def take(self, wait: bool = False) -> Mapping[int, Any]:
        found = {number: f"{chunk} aside" for number, chunk in self.given.items()} if wait else {}
        self.given = {} if wait else self.given
        return found


@pytest.mark.parametrize("dies", [False, True])
def test_chunks_come_in_order_whoever_converts_them(monkeypatch: pytest.MonkeyPatch, dies: bool) -> None:
    monkeypatch.setattr(tau2_parts, "_uncollected", lambda file, chunk, allowance: f"{chunk} here")
    aside, file, allowance = Aside(dies), SimpleNamespace(), Allowance(1 << 30)
    chunks: Any = [f"c{n}" for n in range(9)]
    found: Any = list(tau2_parts._converted(file, chunks, aside, allowance))  # type: ignore[arg-type]
    assert [one.partition(" ")[0] for one in found] == chunks
    assert {one.partition(" ")[2] for one in found} == {"here", "aside"}
    assert aside.opened == [(file, allowance)] and not aside.lost


@pytest.mark.parametrize(("bytes_less", "memory_less", "asked"), [(0, 0, 1), (1, 0, 0), (0, 1, 0)])
def test_a_helper_is_started_where_the_file_is_worth_it_and_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_less: int, memory_less: int, asked: int
) -> None:
    path, starts = write(tmp_path / "a.json", content(simulation(0))), list[int]()
    monkeypatch.setattr(tau2_parts, "PARALLEL", path.stat().st_size + bytes_less)
    monkeypatch.setattr(tau2_parts, "_helper", lambda stack: starts.append(1))
    assert list(tau2_parts.read_parts(path, {}, Allowance(tau2_parts.FOR_TWO - memory_less)))
    assert len(starts) == asked

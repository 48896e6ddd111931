"""Hostile files in the forms of tau-bench, SWE-agent and the tools that keep spans."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.untrusted.bombs import MB, bomb

_TALK = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
_RUN = {"run_type": "llm", "inputs": {"messages": _TALK[:1]}, "outputs": {"messages": _TALK[1:]}}


def result(number: int, **changes: Any) -> str:
    return json.dumps({"task_id": number, "reward": 1.0, "info": {}, "traj": _TALK, "trial": 0, **changes})


def run(number: int, **changes: Any) -> str:
    """A trace of LangSmith's of one run."""
    return json.dumps({"id": f"r{number}", "trace_id": f"t{number}", **_RUN, "name": "shop", **changes})


def array(path: Path, *elements: str | Iterable[str]) -> None:
    with path.open("w") as stream:
        stream.write("[")
        first = True
        for element in elements:
            for text in (element,) if isinstance(element, str) else element:
                stream.write(text if first else f",\n{text}")
                first = False
        stream.write("]")


@bomb("json", 2, "memory")
def a_result_that_is_too_long(path: Path) -> None:
    array(path, result(0), result(1, note="x" * 60 * MB), result(2))


@bomb("json", 2)
def a_result_of_brackets(path: Path) -> None:
    array(
        path,
        result(0),
        result(1, note=0).replace('"note": 0', '"note": ' + "[" * 100_000 + "]" * 100_000),
        result(2),
    )


@bomb("json", 2)
def countless_elements_of_no_use(path: Path) -> None:
    array(path, result(0), ("{}" for _ in range(50_000)), result(2))


@bomb("json", None)
def an_array_without_an_end(path: Path) -> None:
    path.write_text(f"[{result(0)}," + "[" * 40 * MB)


@bomb("json", 3)
def calls_of_brackets_as_text(path: Path) -> None:
    said = 'Action:\n{"name": "a", "arguments": ' + "[" * MB + "}"
    talk = [*_TALK, {"role": "assistant", "content": said}]
    array(path, result(0), result(1, traj=talk[:1]), result(1, traj=talk, trial=[]))


@bomb("traj", None, "memory")
def a_trajectory_that_is_too_long(path: Path) -> None:
    path.write_text(json.dumps({"history": _TALK, "info": {"exit_status": "x" * 60 * MB}}))


@bomb("jsonl", 3)
def messages_in_messages(path: Path) -> None:
    inside: Any = "Hi."
    for _ in range(150):
        inside = {"messages": [inside]}
    path.write_text("\n".join([run(0), run(1, inputs=inside), run(2)]))


@bomb("jsonl", 2)
def texts_of_brackets(path: Path) -> None:
    path.write_text("\n".join([run(0), run(1, inputs="[" * 5 * MB, outputs="[" * 5 * MB), run(2)]))


@bomb("jsonl", None, "memory")
def more_spans_than_can_be_held(path: Path) -> None:
    with path.open("w") as stream:
        stream.writelines(run(number, error=None, note="x" * 100_000) + "\n" for number in range(600))


@bomb("jsonl", 2)
def a_trace_of_many_threads(path: Path) -> None:
    with path.open("w") as stream:
        stream.write(run(0) + "\n" + run(1) + "\n")
        for number in range(20_000):
            asked = {"messages": [{"role": "user", "content": f"{number}"}]}
            stream.write(run(number, trace_id="t1", inputs=asked) + "\n")

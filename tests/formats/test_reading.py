"""A row that cannot be used is left out with the same sentence, whatever the format of its file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_assets.formats.openai_chat import OpenAIChatImporter
from trace_assets.formats.parquet import ParquetImporter
from trace_assets.formats.problem import Problem
from trace_assets.records import Task, Trajectory

Read = Callable[[Path], list[Task | Trajectory | Problem]]
SAID = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
ROWS = [
    {"messages": SAID, "task_id": "a", "trial": "0", "reward": 1.0},
    {"messages": SAID, "task_id": "b", "trial": "soon", "reward": 1.0},
    {"messages": SAID, "task_id": "a", "trial": "1", "reward": None},
]


def as_lines(folder: Path) -> list[Task | Trajectory | Problem]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return list(OpenAIChatImporter().read(path))


def as_parquet(folder: Path) -> list[Task | Trajectory | Problem]:
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    return list(ParquetImporter().read(path))


@pytest.mark.parametrize(("read", "what"), [(as_lines, "this line"), (as_parquet, "this row")])
def test_each_task_is_told_once_and_a_wrong_row_with_its_field(read: Read, what: str, tmp_path: Path) -> None:
    found = read(tmp_path)
    assert [type(one).__name__ for one in found] == ["Task", "Trajectory", "Problem", "Problem", "Trajectory"]
    wrong, unjudged = (one for one in found if isinstance(one, Problem))
    assert wrong.message.startswith("'trial' is not usable (") and wrong.message.endswith(
        f"{what} is left out"
    )
    assert (unjudged.kind, unjudged.severity) == ("not_judged", "notice")

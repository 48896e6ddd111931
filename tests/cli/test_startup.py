"""What commands import: for help next to nothing, `trace sql` what a query needs. No time is measured."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Set
from functools import cache
from pathlib import Path

import click
import pytest
import typer
from typer.main import get_command

from tests.orchestration.simulations import simulation_file
from tests.quick import one_of_each
from trace_assets.cli.commands import COMMANDS
from trace_assets.cli.lazy import LazyCommand
from trace_assets.cli.main import app

HEAVY = (
    *("accelerate", "dagster", "dagster_webserver", "datasets", "docker", "httpx", "jinja2", "openai"),
    *("pandas", "peft", "scipy", "sklearn", "starlette", "torch", "transformers", "trl", "uvicorn", "vllm"),
    *("boto3", "obstore"),
)
LIBRARIES = ("duckdb", "polars", "pyarrow", "numpy", "pydantic")
RUN = """
import json, sys
from trace_assets.cli import main
sys.argv = ["trace", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


@cache
def imported(*arguments: str, program: str = RUN) -> Set[str]:
    """Return the packages that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300, check=True
    )
    return frozenset(json.loads(done.stderr.splitlines()[-1]))


def test_help_imports_no_command() -> None:
    packages = imported("--help")
    assert "typer" in packages
    assert not packages & {*HEAVY, *LIBRARIES, "asyncio"}


ALL_LOADED = """
import json, sys
from trace_assets.cli.commands import COMMANDS
for command in COMMANDS:
    if command.name not in sys.argv[1:]:
        command.load()
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def test_help_of_a_command_imports_nothing_of_the_pipeline() -> None:
    assert not imported("diagnose", "--help") & {*HEAVY, *LIBRARIES}
    light = imported("cluster", "settings", "doctor", "targets", "sql", "warehouse", program=ALL_LOADED)
    assert not light & {*HEAVY, *LIBRARIES}
    assert not imported(program=ALL_LOADED) & set(HEAVY)


@pytest.mark.parametrize(
    "arguments",
    one_of_each(
        [["sql", "gap_table"], ["settings", "--schema"], ["sql", "SELECT 1"], ["sql"]], lambda words: words[0]
    ),
)
def test_sql_and_the_schema_import_nothing_of_the_pipeline(arguments: list[str]) -> None:
    packages = imported(*arguments)
    assert "pydantic" in packages and not packages & {*HEAVY, "asyncio"}


@pytest.mark.parametrize("query", one_of_each(["gap_table", "SELECT 1"]))
def test_a_printed_query_imports_neither_arrow_nor_numpy(query: str) -> None:
    assert not imported("sql", query) & {"pyarrow", "numpy"}


@pytest.mark.slow
def test_what_is_brought_in_is_stored_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "home"))
    packages = imported("ingest", str(simulation_file(tmp_path / "desk.json", "desk", n=6, lacking=2)))
    assert "pyarrow" in packages and not packages & {"pandas", "sklearn", "torch"}


THREADS = """
import os, sys
from trace_assets.cli import main
sys.argv = ["trace", "--help"]
try:
    main()
finally:
    before = len(os.listdir("/proc/self/task"))
    import numpy
    numpy.ones((500, 500)) @ numpy.ones((500, 500))
    print(len(os.listdir("/proc/self/task")) - before, file=sys.stderr)
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: there is one thread in any case")
@pytest.mark.parametrize("said", ["", "2"])
def test_numpy_computes_in_one_thread_unless_somebody_said_otherwise(said: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        env={**kept, **({"OPENBLAS_NUM_THREADS": said} if said else {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert int(done.stderr.splitlines()[-1]) == int(said or 1) - 1


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_summary_is_what_the_command_says_of_itself(command: LazyCommand) -> None:
    real = command.load()
    said = inspect.cleandoc(real.help or "").split("\n\n")[0]
    assert command.help == " ".join(said.split())
    assert real.name == command.name


def test_a_command_that_is_not_there_gets_a_suggestion() -> None:
    assert isinstance(app, typer.Typer)
    group = get_command(app)
    assert isinstance(group, click.Group)
    with pytest.raises(click.UsageError) as told:
        group.main(["diagnos"], standalone_mode=False)
    said = told.value.format_message()
    assert "Did you mean 'diagnose'" in said and said.count("Did you mean") == 1

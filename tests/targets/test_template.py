"""The half hour of docs/targets.md: the template, an agent with a fault, and what the diagnosis says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import polars as pl
import pytest

from trace_assets.store import Home, Warehouse
from trace_assets.targets.template import write_template


@contextmanager
def scripted_agent(file: Path) -> Iterator[str]:
    """Run the agent that the template brings; give the address that it says it serves at."""
    process = subprocess.Popen(
        [sys.executable, "-u", str(file), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[2].rstrip(";")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_the_agent_answers_as_a_server_of_models_does(tmp_path: Path) -> None:
    write_template("library", tmp_path)
    compile((tmp_path / "agent.py").read_text(), "agent.py", "exec")
    with scripted_agent(tmp_path / "agent.py") as address:
        client = openai.OpenAI(base_url=address, api_key="none", max_retries=0)
        asked = [{"role": "user", "content": "Please renew my loan L7."}]
        answer = client.chat.completions.create(model="my-model", messages=asked).choices[0]  # type: ignore[arg-type]
        assert answer.finish_reason == "tool_calls" and answer.message.tool_calls
        assert answer.message.tool_calls[0].function.arguments == '{"loan": "L7"}'  # type: ignore[union-attr]
        assert [one.id for one in client.models.list()] == ["my-model"]


@pytest.mark.slow
def test_what_the_agent_of_a_new_target_lacks_is_found(tmp_path: Path) -> None:
    def trace(*words: str) -> None:
        environment = {**os.environ, "TRACE_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "trace_assets", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    trace("targets", "new", "library")
    with scripted_agent(tmp_path / "library" / "agent.py") as address:
        settings = (tmp_path / "library" / "trace.toml").read_text(encoding="utf-8")
        settings = settings.replace("http://127.0.0.1:8000/v1", address)
        (tmp_path / "trace.toml").write_text(settings, encoding="utf-8")
        trace("sync", "--select", "tasks", "--select", "trajectories")
    trace("diagnose")  # with nobody there to play: nothing is played again
    with Warehouse(Home.open(tmp_path / "home")) as warehouse:
        kept = warehouse.query("FROM gap_table WHERE kept").select("name", "er_passed")
    expected = {
        "name": ["Refrain from renewing the loan when its reserved by others is true"],
        "er_passed": [0.0],
    }
    assert kept.equals(pl.DataFrame(expected))

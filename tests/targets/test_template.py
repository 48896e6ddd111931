"""The half hour of docs/targets.md: the template, an agent with a fault, and what the diagnosis says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.answering import Answer, AnsweringServer, completion
from trace_assets.store import Home, Warehouse


class CarelessLibrarian(AnsweringServer):
    """Looks every loan up, and in two of three conversations renews it whatever it has seen."""

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        asked = next(one["content"] for one in body["messages"] if one["role"] == "user")
        loan = re.search(r"L\d+", asked)[0]  # type: ignore[index]
        seen = [one["content"] for one in body["messages"] if one["role"] == "tool"]
        if not seen:
            return call("get_loan", loan)
        reserved = '"reserved_by_others": true' in seen[0]
        careful = int(loan[1:]) % 8 == 1 or "renew" not in asked
        if len(seen) == 1 and "renew" in asked and not (reserved and careful):
            return call("renew_loan", loan)
        said = "It is renewed." if len(seen) == 2 else "It is reserved." if reserved else "Nobody is waiting."
        return completion(said)


def call(name: str, loan: str) -> Answer:
    status, headers, made = completion(None, "tool_calls")
    function = {"name": name, "arguments": json.dumps({"loan": loan})}
    made["choices"][0]["message"]["tool_calls"] = [{"id": "c", "type": "function", "function": function}]
    return status, headers, made


@pytest.mark.slow
def test_what_the_agent_of_a_new_target_lacks_is_found(tmp_path: Path) -> None:
    def trace(*words: str) -> None:
        environment = {**os.environ, "TRACE_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "trace_assets", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    trace("targets", "new", "library")
    with CarelessLibrarian() as server:
        settings = (tmp_path / "library" / "trace.toml").read_text(encoding="utf-8")
        settings = settings.replace("http://127.0.0.1:8000/v1", server.v1)
        (tmp_path / "trace.toml").write_text(settings, encoding="utf-8")
        trace("sync", "--select", "tasks", "--select", "trajectories")
        played = len(server.requests)
        trace("diagnose")
        assert len(server.requests) == played  # nothing is played again
    with Warehouse(Home.open(tmp_path / "home")) as warehouse:
        kept = warehouse.query("FROM gap_table WHERE kept").select("name", "er_passed")
    expected = {
        "name": ["Refrain from renewing the loan when its reserved by others is true"],
        "er_passed": [0.0],
    }
    assert kept.equals(pl.DataFrame(expected))

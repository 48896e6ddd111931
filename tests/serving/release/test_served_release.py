"""`trace release`, then `trace router --bundle`, then a plain OpenAI client."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import openai
import pytest

from tests.serving.release.conftest import make_study
from tests.serving.router.pretend_server import PretendServer
from trace_assets.errors import InputError
from trace_assets.records import Adapter, BaseCheckpoint
from trace_assets.report.data import ReportData
from trace_assets.serving.router.app import open_decider, routing_of_release
from trace_assets.serving.router.upstream import Upstream
from trace_assets.store import folder_version
from trace_assets.system.machine import free_port
from trace_assets.workflows.release import write_release
from trace_assets.workflows.serve import routing_of_study

UNNEEDED = 0.3
"""Of an adapter; not the default."""
TRACE = [sys.executable, "-m", "trace_assets"]


def trace(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRACE, *words],
        env={**os.environ, "TRACE_HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
    )


@contextmanager
def routing(home: Path, *words: str) -> Iterator[str]:
    """Run `trace router` until the block ends; yield its address."""
    port = free_port()
    process = subprocess.Popen(
        [*TRACE, "router", "--port", str(port), *words],
        env={**os.environ, "TRACE_HOME": str(home)},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until = time.monotonic() + 600
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except httpx.HTTPError:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < until
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=900)[0]
    assert process.returncode == 0, said
    assert "Traceback" not in said


def asked(url: str, text: str) -> tuple[str | None, str | None]:
    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
    raw = client.chat.completions.with_raw_response.create(
        model="routed", messages=[{"role": "user", "content": text}]
    )
    return raw.parse().choices[0].message.content, raw.headers.get("x-trace-router")


@pytest.mark.ci
def test_release_command_and_router_from_it(complete: ReportData, tmp_path: Path) -> None:
    """Without torch: the served base model is asked for a label."""
    study = make_study(tmp_path / "home", complete)
    out = tmp_path / "out"
    done = trace(study.home.path, "release", str(out))
    assert done.returncode == 0, done.stderr
    told = json.loads((out / "adapters.json").read_text())
    assert all(one["served_as"] in done.stdout for one in told["adapters"])
    record = tmp_path / "decisions.jsonl"
    with PretendServer() as server:
        server.favourite = "B"
        words = ("--bundle", str(out), "--upstream", server.url, "--router", "label_logits")
        with routing(tmp_path, *words, "--record", str(record)) as url:
            content, router = asked(url, "Where is my order?")
            assert content == told["adapters"][1]["served_as"] and str(router).startswith("label_logits@")
            health = httpx.get(f"{url.removesuffix('/v1')}/health")
            assert health.status_code == 503  # the pretended server has other adapters
            assert re.search(r"does not serve cancel@\w{8}, multi@", health.json()["problem"])
    (line,) = [json.loads(text) for text in record.read_text().splitlines()]
    assert line["choice"] == "multi" and "Where" not in json.dumps(line)


@pytest.mark.train
@pytest.mark.slow
def test_a_fitted_classifier_routes_from_a_release(
    complete: ReportData, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_assets.routing.classifier import fit_classifier
    from trace_assets.routing.router import RoutingExample
    from trace_assets.settings import Routing

    study = make_study(tmp_path / "home", complete)
    section = study.settings.routing.model_copy(update={"unneeded_cost": UNNEEDED})
    study = replace(study, settings=study.settings.model_copy(update={"routing": section}))
    texts = {
        "cancel": "please cancel order K{n}",
        "multi": "i want my money back {n}",
        "none": "where is {n} now",
    }
    examples = [RoutingExample(f"{c}/{n}", t.format(n=n), c) for c, t in texts.items() for n in range(12)]
    fitted = fit_classifier(tiny_folder, examples, ["cancel", "multi", "window"], Routing())
    fitted.save(study.home.models / "router")
    other = {"path": str(tiny_folder), "base_id": folder_version(tiny_folder)}
    (row,) = study.store.read(BaseCheckpoint)
    study.store.write([row.model_copy(update=other)], BaseCheckpoint)
    for name in study.store.partitions(Adapter):
        rows = study.store.read(Adapter, name)
        study.store.write(
            [one.model_copy(update={"base_id": other["base_id"]}) for one in rows], Adapter, name
        )
    models = write_release(study, tmp_path / "out").models
    with PretendServer() as server:
        assert routing_of_release(tmp_path / "out").unneeded_cost == UNNEEDED
        unknown = routing_of_release(tmp_path / "out")
        with pytest.raises(InputError, match="set BASE_MODEL"):
            open_decider(unknown, Upstream(server.url))
        monkeypatch.setenv("BASE_MODEL", str(tiny_folder))
        with routing(tmp_path, "--bundle", str(tmp_path / "out"), "--upstream", server.url) as url:
            assert asked(url, "please cancel order K55") == (models["cancel"], f"classifier@{fitted.version}")
            assert asked(url, "i want my money back 77")[0] == models["multi"]
        own = routing_of_study(study)
        assert own.models == models and own.router == "classifier"
        assert open_decider(own, Upstream(server.url)).version == fitted.version

"""A release served by a real vLLM through its own script, and a plain OpenAI client behind the router."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import openai
import pytest

from tests.serving.release.conftest import fit_router, make_study
from tests.serving.release.test_served_release import routing
from tests.serving.test_vllm import PROGRAM, launch_in, pytestmark
from trace_assets.records import Adapter, BaseCheckpoint
from trace_assets.report.data import ReportData
from trace_assets.routing.label_logits import LabelLogitRouter
from trace_assets.serving.server import models_of
from trace_assets.settings import load_settings
from trace_assets.store import folder_version
from trace_assets.study import Study
from trace_assets.training.checkpoints import adapter_id
from trace_assets.workflows.release import write_release

__all__ = ["pytestmark"]


def test_a_plain_client_is_answered_by_the_adapter_that_the_model_chose(
    complete: ReportData, tmp_path: Path
) -> None:
    launch = launch_in(tmp_path)
    home = make_study(tmp_path / "home", complete).home
    study = Study(home, load_settings(None, ["serving.dtype=float32", 'serving.extra=["--enforce-eager"]']))
    folders = {name.partition("@")[0]: folder for name, folder in launch.adapters.items()}
    base = {"path": launch.model, "base_id": folder_version(Path(launch.model))}
    rows = [
        row.model_copy(
            update={
                "path": str(folders[row.name]),
                "adapter_id": adapter_id(folders[row.name]),
                "base_id": base["base_id"],
            }
        )
        for row in study.store.read(Adapter)
        if row.name in folders
    ]
    study.store.write(rows, Adapter)
    bases = study.store.read(BaseCheckpoint)
    study.store.write([row.model_copy(update=base) for row in bases], BaseCheckpoint)
    fit_router(study, ("cancel", "multi"))
    out = tmp_path / "out"
    release = write_release(study, out)
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            ["sh", str(out / "serve.sh"), "--port", str(launch.port)],
            env={**os.environ, "VLLM": PROGRAM, "BASE_MODEL": launch.model},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 600
        while models_of(launch.base_url) is None:
            assert server.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert time.monotonic() < until
            time.sleep(0.5)
        assert models_of(launch.base_url) == set(release.models.values())
        reference = LabelLogitRouter(Path(launch.model), release.router.options)
        words = ("--bundle", str(out), "--upstream", launch.base_url, "--router", "label_logits")
        with routing(tmp_path, *words) as url:
            client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
            for text in ("Cancel order K12.", "Where is it?"):
                raw = client.chat.completions.with_raw_response.create(
                    model="routed", max_tokens=8, messages=[{"role": "user", "content": text}]
                )
                (wanted,) = reference.probabilities([text])
                choice = raw.headers["x-trace-choice"]
                told = float(raw.headers["x-trace-probability"])
                assert told == pytest.approx(wanted[choice], abs=1e-4) and told == pytest.approx(
                    max(wanted.values()), abs=1e-4
                )
                answer = raw.parse()
                assert answer.model == release.models[choice]
                assert answer.usage is not None and 0 < answer.usage.completion_tokens <= 8
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)

"""A release behind LiteLLM's proxy: its hook routes, and the real proxy takes it, where one is named."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import yaml

from tests.serving.router.pretend_server import PretendServer
from trace_assets.errors import InputError
from trace_assets.serving.release.manifest import (
    INDEX,
    ReleasedChoice,
    ReleasedTogether,
    read_release,
    write_manifest,
)
from trace_assets.serving.router.in_litellm import LiteLLMRouting, NotRouted
from trace_assets.study import Study
from trace_assets.system.machine import free_port
from trace_assets.workflows.release import write_release

PROXY = "TRACE_LITELLM_PYTHON"
"""Names an interpreter that has `litellm[proxy]` and this package's own requirements."""
MASTER_KEY = "sk-" + "0123456789abcdef" * 4


@pytest.fixture
def server() -> Iterator[PretendServer]:
    with PretendServer() as one:
        yield one


@pytest.fixture
def release(study: Study, tmp_path: Path) -> Path:
    write_release(study, tmp_path / "out")
    return tmp_path / "out"


def asking(text: str = "Cancel K1.", **more: Any) -> dict[str, Any]:
    return {"model": "routed", "messages": [{"role": "user", "content": text}], **more}


@pytest.mark.parametrize(("favourite", "place"), [("A", 0), ("B", 1)])
def test_a_request_goes_to_the_model_of_the_favoured_choice(
    favourite: str, place: int, release: Path, server: PretendServer, tmp_path: Path
) -> None:
    index = read_release(release)
    server.favourite = favourite
    record = tmp_path / "decisions.jsonl"
    routing = LiteLLMRouting(release, server.url, "label_logits", record=record)
    model = asyncio.run(routing.model_for(asking()))
    choice = list(index.router.options)[place]
    assert model == index.models[choice]
    assert [json.loads(line)["choice"] for line in record.read_text().splitlines()] == [choice]


@pytest.mark.parametrize(("set_cost", "summed"), [(0.05, True), (0.5, False)])
def test_the_costs_of_the_release_decide_as_in_trace_router(
    set_cost: float, summed: bool, release: Path, server: PretendServer
) -> None:
    index = read_release(release)
    first, second = list(index.router.options)[:2]
    together = ReleasedTogether(name=f"{first}+{second}", served_as="both", adapter_id="x", folder="both")
    choice = ReleasedChoice(arm="composed", set_cost=set_cost)
    changed = index.model_copy(update={"together": (together,), "choice": choice})
    (release / INDEX).write_text(changed.text())
    write_manifest(release)
    routing = LiteLLMRouting(release, server.url, "label_logits")
    model = asyncio.run(routing.model_for(asking()))
    assert model == ("both" if summed else index.models[first])


def test_a_named_model_is_left_alone_and_nothing_is_asked(release: Path, server: PretendServer) -> None:
    routing = LiteLLMRouting(release, server.url, "label_logits")
    assert asyncio.run(routing.model_for({**asking(), "model": "base"})) is None
    assert server.asked == []


@pytest.mark.parametrize(
    ("fault", "request_", "status", "words"),
    [
        ("", {"model": "routed", "messages": []}, 400, "no user message"),
        ("no_labels", asking(), 502, "--router classifier"),
        ("overloaded", asking(), 429, "status 429"),
    ],
)
def test_what_cannot_be_routed_is_refused_and_never_the_base_models(
    fault: str, request_: dict[str, Any], status: int, words: str, release: Path, server: PretendServer
) -> None:
    server.fault = fault
    routing = LiteLLMRouting(release, server.url, "label_logits")
    with pytest.raises(NotRouted, match=words) as caught:
        asyncio.run(routing.model_for(request_))
    assert caught.value.status == status


def test_the_variables_are_asked_for(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACE_UPSTREAM", raising=False)
    with pytest.raises(InputError, match="TRACE_UPSTREAM is not set"):
        LiteLLMRouting.from_environment(release)
    monkeypatch.setenv("TRACE_UPSTREAM", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("TRACE_ROUTER", "dice")
    with pytest.raises(InputError, match="classifier or label_logits"):
        LiteLLMRouting.from_environment(release)


def test_a_release_that_was_changed_is_not_routed_by(release: Path) -> None:
    (release / "router/router.json").write_text("{}")
    with pytest.raises(InputError, match="not the file that was released"):
        LiteLLMRouting(release, "http://127.0.0.1:1/v1", "label_logits")


def test_the_hook_of_the_release_names_the_model(
    release: Path, server: PretendServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a base class of no more than LiteLLM's name: the real one is tried below."""
    for name in ("litellm", "litellm.integrations", "litellm.integrations.custom_logger"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["litellm.integrations.custom_logger"].CustomLogger = object  # type: ignore[attr-defined]
    web = ModuleType("fastapi")

    class HTTPException(Exception):
        def __init__(self, status_code: int, detail: object) -> None:
            self.status_code = status_code

    web.HTTPException = HTTPException  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastapi", web)
    monkeypatch.setenv("TRACE_UPSTREAM", server.url)
    monkeypatch.setenv("TRACE_ROUTER", "label_logits")
    file = release / "litellm" / "trace_routing.py"
    spec = importlib.util.spec_from_file_location("trace_routing", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.trace_routing.async_pre_call_hook

    index = read_release(release)
    data = asyncio.run(hook(None, None, asking(temperature=0.5), "completion"))
    assert data == {**asking(temperature=0.5), "model": index.models[next(iter(index.router.options))]}
    with pytest.raises(HTTPException) as caught:
        asyncio.run(hook(None, None, {"model": "routed", "messages": []}, "completion"))
    assert caught.value.status_code == 400


def test_the_configuration_lists_every_model_and_one_that_only_the_hook_can_send_on(release: Path) -> None:
    index = read_release(release)
    config = yaml.safe_load((release / "litellm/config.yaml").read_text())
    named = [one["model_name"] for one in config["model_list"]]
    assert named[:2] == ["routed", index.base.name]
    assert set(named[1:]) == {index.base.name, *(one.served_as for one in index.adapters)}
    assert all(
        one["litellm_params"]["model"] == f"hosted_vllm/{one['model_name']}" for one in config["model_list"]
    )
    assert config["litellm_settings"]["callbacks"] == "trace_routing.trace_routing"


@pytest.mark.slow
@pytest.mark.skipif(PROXY not in os.environ, reason=f"no {PROXY}: litellm[proxy] is not installed")
def test_litellms_own_proxy_routes(release: Path, server: PretendServer, tmp_path: Path) -> None:
    index = read_release(release)
    port = free_port()
    server.favourite = "B"
    program = str(Path(os.environ[PROXY]).with_name("litellm"))
    log = tmp_path / "litellm.log"
    with log.open("wb") as out:
        proxy = subprocess.Popen(
            [program, "--config", "litellm/config.yaml", "--host", "127.0.0.1", "--port", str(port)],
            cwd=release,
            env={
                **os.environ,
                "LITELLM_MASTER_KEY": MASTER_KEY,
                "TRACE_UPSTREAM": server.url,
                "TRACE_UPSTREAM_KEY": "none",
                "TRACE_ROUTER": "label_logits",
                "PYTHONPATH": str(Path(__file__).parents[3]),
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + 600
            while True:
                assert proxy.poll() is None and time.monotonic() < until, log.read_text()[-4000:]
                try:
                    if httpx.get(f"{url}/health/liveliness", timeout=5).status_code == 200:
                        break
                except httpx.HTTPError:
                    pass
                time.sleep(0.5)
            key, told = {"authorization": f"Bearer {MASTER_KEY}"}, {}
            for name in ("routed", index.base.name):
                answer = httpx.post(
                    f"{url}/v1/chat/completions", json={**asking(), "model": name}, headers=key, timeout=300
                )
                assert answer.status_code == 200, answer.text
                told[name] = answer.json()["choices"][0]["message"]["content"]
            # The pretended server answers with the name of the model that it was asked for.
            second = list(index.router.options)[1]
            assert told == {"routed": index.models[second], index.base.name: index.base.name}
            refused = httpx.post(
                f"{url}/v1/chat/completions",
                json={"model": "routed", "messages": []},
                headers=key,
                timeout=300,
            )
            assert refused.status_code == 400, refused.text
        finally:
            proxy.terminate()
            proxy.wait(60)

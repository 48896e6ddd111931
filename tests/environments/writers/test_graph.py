"""The asset `environment` with a model writer in the real graph: made, stopped, resumed, not asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.assets.scripted_loop import Loop, stand_ins
from tests.diagnosis.llm.chat_server import Body
from tests.environments.writers.recorded_server import RecordedServer, Said, fenced
from trace_assets.assets import environment
from trace_assets.environments.writers.writer import write_environment
from trace_assets.records import CapabilitySpec, Environment, EnvironmentCheck, EnvironmentVersion
from trace_assets.resources.contract import read_contract
from trace_assets.study import Study

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*isolates nothing")]


def modules(study: Study) -> dict[str, str]:
    """Return a good module for each kept capability, by its name in words."""
    found = {}
    for name in study.store.partitions(CapabilitySpec):
        spec = study.store.read(CapabilitySpec, name)[0]
        found[spec.name] = write_environment(spec, read_contract(study, spec.target)).source
    return found


def quick_audit(environment: Environment, *_: Any, **__: Any) -> Sequence[EnvironmentCheck]:
    """Accept what is marked as mended."""
    return [
        EnvironmentCheck(
            environment_id=environment.environment_id,
            capability_id=environment.capability_id,
            check_id=name,
            level="semantic",
            status="pass" if "# mended" in environment.source else "fail",
            severity="error",
            evidence="e",
        )
        for name in ("semantic.oracle_max", "semantic.floor_gap")
    ]


def test_a_sync_writes_mends_survives_a_dead_server_and_never_asks_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "audit", quick_audit)
    with stand_ins() as calls:
        loop = Loop(tmp_path / "home")
        loop.sync()
        good = modules(loop.study())
        assert len(good) == 3

        def answer(mended: bool) -> Callable[[Body], Said]:
            def say(body: Body) -> Said:
                asked = body["messages"][1]["content"]
                source = next(text for name, text in good.items() if f"Name: {name}\n" in asked)
                again = "This is round" in asked
                return Said(fenced(source + ("# mended\n" if again and mended else "# first\n")))

            return say

        model = {
            "synthesis__writer": "model",
            "synthesis__model": "m",
            "sandbox__backend": "unsafe-subprocess",
            "writer__pause_seconds": "0.01",
            "writer__retries": "0",
        }
        with RecordedServer(answer(True)) as server:
            for names in calls.values():
                names.clear()
            with pytest.raises(AssertionError, match="cap on spending"):  # the loop asserts that all is made
                loop.sync(**model, writer__base_url=server.url, writer__cap_calls="3")
            assert server.given == 3 and not calls["train"]
            ran = loop.sync(**model, writer__base_url=server.url)
            assert server.given == 6, "a first draft and a mended one each, none of them asked for twice"
            assert {one for one in ran if one.startswith("environment[")} != set()
            study = loop.study(**model)
            written = [study.store.read(Environment, name)[0] for name in loop.capabilities()]
            assert {one.writer for one in written} == {"model:m"} and {one.n_versions for one in written} == {
                2
            }
            assert sorted(calls["train"]) == loop.capabilities()
            assert loop.sync(**model, writer__base_url=server.url) == set()
            rows = study.store.read(EnvironmentVersion)
            assert [one.accepted for one in rows] == [False, True] * 3
            moved = loop.sync(**model, writer__base_url="http://127.0.0.1:9/v1", writer__cap_usd="1")
            assert moved == set(), "where the server is and what it may cost changes nothing"
            assert server.given == 6

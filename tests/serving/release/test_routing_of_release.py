"""What a proxy is told by a release, in this process: router, models, costs, the base model's place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.serving.release.manifest import Release
from trace_assets.serving.router.app import open_decider, open_decisions, routing_of_release
from trace_assets.serving.router.decisions import ServedLabels
from trace_assets.serving.router.upstream import Upstream
from trace_assets.study import Study
from trace_assets.workflows.release import write_release

UPSTREAM = Upstream("http://127.0.0.1:9/v1")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def release(study: Study, out: Path) -> Release:
    return write_release(study, out)


def test_a_proxy_is_told_what_was_released(
    release: Release, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BASE_MODEL", raising=False)
    told = routing_of_release(out)
    assert told.router == release.router.router
    assert dict(told.options) == release.router.options and dict(told.models) == release.models
    assert (told.fitted, told.base) == (out / "router", out / release.base.folder)
    assert (told.unneeded_cost, told.set_cost) == (release.router.unneeded_cost, release.choice.set_cost)
    other = next(name for name in ("classifier", "label_logits") if name != release.router.router)
    assert routing_of_release(out, other).router == other  # type: ignore[arg-type]
    monkeypatch.setenv("BASE_MODEL", "/models/own")
    assert routing_of_release(out).base == Path("/models/own")


@pytest.mark.parametrize("name", ["router/router.json", "router/weights.npz", "manifest.json"])
def test_a_router_that_is_not_the_one_released_is_refused(release: Release, out: Path, name: str) -> None:
    with (out / name).open("ab") as file:
        file.write(b" ")
    if name == "manifest.json":
        (out / name).write_text("{")
    with pytest.raises(InputError):
        routing_of_release(out)


def test_a_base_model_that_is_not_in_the_release_has_to_be_named(
    release: Release, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BASE_MODEL", raising=False)
    outside = release.model_copy(update={"base": release.base.model_copy(update={"folder": ""})})
    monkeypatch.setattr("trace_assets.serving.router.app.read_release", lambda folder: outside)
    told = routing_of_release(out, "classifier")
    assert told.base is None
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"set BASE_MODEL to its folder, or use --router label_logits\.$"):
        open_decider(told, UPSTREAM)


def test_labels_are_asked_of_the_base_model_by_the_options_that_were_released(
    release: Release, out: Path
) -> None:
    told = replace(routing_of_release(out, "label_logits"), base=None)
    decider = open_decider(told, UPSTREAM)
    assert isinstance(decider, ServedLabels) and decider.choices[-1] == "none"
    assert decider.version == ServedLabels(UPSTREAM, release.models["none"], release.router.options).version


def test_decisions_are_made_recorded_and_weighed_as_the_release_says(release: Release, out: Path) -> None:
    told = replace(routing_of_release(out, "label_logits"), unneeded_cost=0.3, set_cost=0.7)
    made = open_decisions(told, UPSTREAM, out / "record.jsonl")
    assert made.models == {choice: release.models[choice] for choice in made.models}
    assert (made._unneeded_cost, made._set_cost, made._record) == (0.3, 0.7, out / "record.jsonl")
    with pytest.raises(InputError, match="no adapter that is served"):
        open_decisions(replace(told, models={"none": "base"}), UPSTREAM, None)

"""A finished study: the report's rows in a store, with adapters, a base model and a router on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.conftest import complete, diagnosed  # noqa: F401
from tests.routing.conftest import tiny_folder  # noqa: F401
from trace_assets.records import Label, Lesson
from trace_assets.report.data import ReportData
from trace_assets.routing.classifier import ClassifierRouter
from trace_assets.routing.label_logits import base_fingerprint
from trace_assets.store import Home, folder_version
from trace_assets.study import Study
from trace_assets.training.checkpoints import adapter_id

TAUGHT = ("cancel", "multi", "window")


def make_study(home: Path, data: ReportData) -> Study:
    """Write the rows and files of a finished study whose base model was trained in it."""
    study = Study(Home.open(home))
    base = home / "models" / "base"
    base.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors", "training.json"):
        (base / name).write_text(json.dumps({"of": name}))
    base_id = folder_version(base, ["config.json", "model.safetensors", "tokenizer.json"])
    adapters = []
    for row in data.adapters:
        folder = home / row.path
        folder.mkdir(parents=True)
        (folder / "adapter_config.json").write_text(json.dumps({"r": 8, "of": row.name}))
        (folder / "adapter_model.safetensors").write_bytes(row.name.encode() * 40)
        adapters.append(row.model_copy(update={"adapter_id": adapter_id(folder), "base_id": base_id}))
    lessons = [Lesson.model_validate({name: one for name in Lesson.key}) for one in TAUGHT]
    for rows in (
        adapters,
        lessons,
        [row.model_copy(update={"base_id": base_id}) for row in data.base_models],
        data.capabilities,
        data.contrasts,
        data.environments,
        data.checks,
        data.harm,
        data.summary,
        data.triage,
    ):
        study.store.write(rows, type(rows[0]))  # type: ignore[type-var, arg-type]
    labels = [
        Label(
            trajectory_id=row.trajectory_id,
            capability_id="cancel",
            labelling_pass=number,
            labeller="detectors",
            label=("LACKING" if place % 4 == 0 or number else "PRESENT") if place % 2 == 0 else "NA",
        )
        for place, row in enumerate(data.triage[:40])
        for number in ((0, 1) if place == 2 else (0,))
    ]
    study.store.write(labels, Label)
    fit_router(study, TAUGHT)
    return study


def fit_router(study: Study, names: tuple[str, ...]) -> None:
    """Save a router that always says `none`."""
    base = study.home.path / "models" / "base"
    choices = (*names, "none")
    ClassifierRouter(
        base_dir=base,
        base=base_fingerprint(base),
        choices=choices,
        classes=("none",),
        layer=None,
        unneeded_cost=0.1,
        n_examples=dict.fromkeys(choices, 0),
    ).save(study.home.models / "router")


@pytest.fixture
def study(tmp_path: Path, complete: ReportData) -> Study:  # noqa: F811
    return make_study(tmp_path / "home", complete)

"""A release repeats no figures that another adapter of the same name was judged by."""

from __future__ import annotations

import hashlib
from pathlib import Path

import dagster as dg
import pytest

from trace_assets.cli.serving import refuse_figures_of_others
from trace_assets.errors import InputError
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.planner import POINTER, READ, VERSION
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study


def train(instance: dg.DagsterInstance, version: str) -> None:
    """Note that an adapter was made."""
    instance.report_runless_asset_event(
        dg.AssetMaterialization("adapter", partition="cancel", tags={VERSION: version})
    )


def test_an_adapter_that_was_trained_after_it_was_judged(tmp_path: Path) -> None:
    study = Study(Home.open(tmp_path / "home"), load_settings(None, []))
    refuse_figures_of_others(study)
    with prepare_instance(study.home) as instance:
        instance.add_dynamic_partitions("capability", ["cancel"])
        train(instance, "first")
        read = {
            READ + "adapter": hashlib.sha256(b"first").hexdigest(),
            POINTER + "adapter": "1",
        }
        instance.report_runless_asset_event(
            dg.AssetMaterialization("evaluation", tags={VERSION: "figures", **read})
        )
    refuse_figures_of_others(study)
    with prepare_instance(study.home) as instance:
        train(instance, "second")
    with pytest.raises(
        InputError, match=r"figures of evaluation are those of other adapters \(adapter\[cancel\] changed"
    ):
        refuse_figures_of_others(study)

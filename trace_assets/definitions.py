"""The Dagster door: every asset of the pipeline, for `dagster dev`, `dg` and `trace sync` alike."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import dagster as dg

from trace_assets.assets.asset import Asset, asset_of
from trace_assets.code_versions import remember
from trace_assets.orchestration.configuration import configuration_assets, sandbox_battery
from trace_assets.orchestration.dagster_asset import dagster_asset
from trace_assets.orchestration.declarations import note_down, recalled
from trace_assets.study import Study

ASSETS = (
    *("base_model", "trajectories", "triage", "capability_dictionary", "labels", "contrast"),
    *("selected_capabilities", "failure_causes", "target_contract"),
    *("environment", "environment_audit", "pilot", "adapter"),
    *("joint_adapters", "learnability", "routing", "consolidated", "rounds", "adapter_validation"),
    *("evaluation", "report"),
)
"""Modules of `trace_assets.assets`, in pipeline order: most hold one asset of the same name."""


def load_modules() -> list[ModuleType]:
    """Return the modules of all assets, in pipeline order: with them comes most of the program."""
    return [import_module(f"trace_assets.assets.{name}") for name in ASSETS]


def declared_in(modules: Iterable[ModuleType]) -> list[Asset]:
    """Return the assets that some modules declare."""
    found = {
        one.name: one
        for module in modules
        for value in vars(module).values()
        if (one := asset_of(value)) is not None and value.__module__ == module.__name__
    }
    return list(found.values())


def pipeline() -> list[Asset]:
    """Return the assets as they are declared, in pipeline order.

    Another process has mostly noted down what this source declares: then the module of an asset is imported
    when the asset is made, and a command that only looks what is due imports none.
    """
    known = recalled()
    if known is None:
        known = declared_in(load_modules())
        note_down(known)
    return known


def stage_assets() -> list[dg.AssetsDefinition]:
    """Return Dagster's assets of every stage, in pipeline order."""
    assets = [dagster_asset(one) for one in pipeline()]
    remember()
    return assets


def graph(study: Study) -> dg.Definitions:
    """Return the assets of one study and their checks, which is all that a sync and its workers need.

    Its settings decide the versions of the `config/` assets. The graph of the study that a process works on
    is kept: a command asks for it to look up names, to see what is due, and to make it.
    """
    global _last
    if _last is None or _last[0] is not study:
        _last = study, _definitions(study, [*configuration_assets(study), *stage_assets()])
    return _last[1]


_last: tuple[Study, dg.Definitions] | None = None


def build(study: Study) -> dg.Definitions:
    """Return the definitions of one study: the graph, and what makes it by a press or by itself."""
    from trace_assets.orchestration.automation import (
        automation_sensors,
        watch_sensors,
        with_automation,
        with_freshness,
    )
    from trace_assets.orchestration.jobs import scheduled_rerun, schedules, whole_loop

    settings = study.settings
    assets = with_automation([*configuration_assets(study), *stage_assets()])
    assets = with_freshness(assets, settings.schedule)
    return _definitions(
        study,
        assets,
        jobs=[whole_loop, scheduled_rerun],
        schedules=schedules(settings.schedule),
        sensors=[*automation_sensors(assets, settings.automation), *watch_sensors(study)],
    )


def _definitions(study: Study, assets: Sequence[dg.AssetsDefinition], **others: Any) -> dg.Definitions:
    return dg.Definitions(
        assets=assets,
        asset_checks=[sandbox_battery],
        resources={"study": study},
        # A run is a process of its own, and the daemon's have one step or two: a further process a step would
        # load all this once more. What is to run side by side is launched as several runs.
        executor=dg.in_process_executor,
        **others,
    )


def load() -> tuple[dg.Definitions, Study]:
    """Open the study that the environment names, and build its definitions."""
    study = Study.open()
    return build(study), study


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of the study that `TRACE_HOME`, `TRACE_CONFIG` and `TRACE_SET` name."""
    return load()[0]

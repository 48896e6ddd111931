"""`TraceStudyComponent`: a study inside a Dagster project of your own, as a component of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from trace_assets.errors import InputError
from trace_assets.study import Study
from trace_assets.system.object_address import is_address

OWN_HISTORY = frozenset({"whole_loop", "scheduled_rerun"})
"""Jobs that run `trace sync`, which keeps its history in the study's own Dagster home: left out here."""


class TraceStudyComponent(dg.Component, dg.Model, dg.Resolvable):
    """The assets, checks and sensors of one study, in the history of the project that they stand in.

    Attributes:
        home: Folder of the study; relative to the component's own folder. An object store is none.
        settings: A `trace.toml`, relative likewise; empty takes the defaults.
        overrides: Single settings over it, `section.key=value`.
    """

    home: str
    settings: str = ""
    overrides: Sequence[str] = ()

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the study's definitions."""
        return study_definitions(self.open(Path(context.path)))

    def open(self, folder: Path) -> Study:
        """Open the study, seen from the component's folder.

        Raises:
            InputError: The folder or the settings cannot be used.
        """
        beside = folder if folder.is_dir() else folder.parent
        config = (beside / self.settings).resolve() if self.settings else None
        if config is not None and not config.is_file():
            raise InputError(
                f"the component names settings that are not there: {config}; mend `settings`, relative to "
                f"{beside}, or leave it out to take the defaults."
            )
        if is_address(self.home):  # nothing would fetch it before a run, nor send what the run made
            raise InputError(
                f"the component names the object store {self.home} as its home, and takes folders alone: "
                f"make one with `trace home copy {self.home} FOLDER` and name it in `home`. What runs make "
                f"there is sent back with `trace home copy FOLDER {self.home}`."
            )
        home = (beside / self.home).resolve()
        if not home.parent.is_dir():  # a step too few up would otherwise make a new, empty study there
            raise InputError(
                f"the component names a home in a folder that is not there: {home.parent}; mend `home`, "
                f"relative to {beside}, or make the folder for a new study."
            )
        study = Study.open(home, config, list(self.overrides))
        # Steps run in processes of their own, which are to open the same study.
        os.environ.update(study.environment(config, list(self.overrides)) | _own_history())
        return study


def _own_history() -> dict[str, str]:
    """The project's history is where it was: the study brings none."""
    return {"DAGSTER_HOME": os.environ["DAGSTER_HOME"]} if "DAGSTER_HOME" in os.environ else {}


def study_definitions(study: Study) -> dg.Definitions:
    """Return a study's assets, checks, sensors and resource, to be merged with a project's own.

    Left out are the jobs and the schedule that run `trace sync`, for it keeps a history of its own, and the
    executor: it would be that of all runs of the project, and one with an executor could not be merged.
    """
    from trace_assets.definitions import build
    from trace_assets.orchestration.configuration import in_one_step

    whole = build(study)
    assets = [one for one in whole.assets or () if isinstance(one, dg.AssetsDefinition)]
    sections = [spec for one in assets for spec in one.specs if spec.group_name == "config"]
    stages = [one for one in assets if one.key.path[0] != "config"]
    jobs = [job for job in whole.jobs or () if getattr(job, "name", "") not in OWN_HISTORY]
    return dg.Definitions(
        assets=[in_one_step(study, sections), *stages],
        asset_checks=whole.asset_checks,
        jobs=jobs,
        sensors=[*(whole.sensors or ()), known_batches(study)],
        resources=whole.resources,
    )


def known_batches(study: Study) -> dg.SensorDefinition:
    """Return a sensor that brings the study's task batches into the project's history.

    All become known as partitions. Of those that were ingested, the tasks and trajectories are made once, for
    nobody else would: they are an accelerator's where they are played. The light layers make the rest.
    """
    from trace_assets.orchestration.automation import ASSETS
    from trace_assets.orchestration.instance import register_batches
    from trace_assets.resources.inbox import batches
    from trace_assets.workflows.made_with import live_in_use
    from trace_assets.workflows.watch import pending

    def task_batches(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        known = register_batches(context.instance, study, live=live_in_use(study))
        made = context.instance.get_materialized_partitions(dg.AssetKey("trajectories"))
        watched = {one.batch for one in pending(study, "trajectories")}
        new = sorted(set(batches(study)) - made - watched)
        if not new:
            return dg.SensorResult(skip_reason=f"known task batches: {', '.join(known) or 'none'}")
        requests = [
            # Dagster launches a key once: a run that failed is left to whoever reads its page.
            dg.RunRequest(
                run_key=f"ingested:{batch}",
                partition_key=batch,
                asset_selection=[dg.AssetKey(name) for name in ASSETS],
                tags={"trace/by": "trace_task_batches"},
            )
            for batch in new
        ]
        return dg.SensorResult(run_requests=requests)

    return dg.SensorDefinition(
        name="trace_task_batches",
        evaluation_fn=task_batches,
        target=dg.AssetSelection.assets(*ASSETS),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Makes task batches that were ingested known as partitions, and takes each in once.",
    )

"""A small home, made the way every home is: files ingested, items made by a sync, models put in place."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
import pytest

from tests.assets.stand_in import stand_in
from trace_assets.assets.asset import StageResult
from trace_assets.definitions import build
from trace_assets.orchestration.instance import prepare_instance, register_batches
from trace_assets.orchestration.planner import Planner, Step
from trace_assets.orchestration.sync import sync
from trace_assets.orchestration.sync_run import Synced
from trace_assets.records import TABLES, Adapter, BaseCheckpoint, Record
from trace_assets.settings import load_settings
from trace_assets.store import Home, presence
from trace_assets.store.content import folder_version, frame_version
from trace_assets.store.files import replacing_folder
from trace_assets.store.leases import known_as
from trace_assets.study import Study
from trace_assets.training.checkpoints import CONFIG, WEIGHTS, adapter_id
from trace_assets.workflows.ingest import ingest

SELECTION = ("tasks", "trajectories", "triage", "base_model", "mixed_adapter")
TOLD = {"ledger", "lineage"}
"""Tables whose rows hold times and run ids."""


def simulation_file(path: Path, n: int = 6) -> Path:
    """Write a file of simulations, half of them failures."""
    simulations = [
        {
            "id": f"s{number}",
            "task_id": f"t{number}",
            "trial": 0,
            "seed": 1,
            "termination_reason": "user_stop",
            "reward_info": {
                "reward": float(number % 2),
                "reward_basis": ["DB"],
                "db_check": {"db_match": bool(number % 2)},
            },
            "messages": [
                {"role": "user", "content": f"Cancel order K{number}."},
                {"role": "assistant", "content": f"Order K{number} is cancelled."},
            ],
        }
        for number in range(n)
    ]
    info = {
        "agent_info": {"llm": "a", "implementation": "llm_agent"},
        "user_info": {"llm": "u", "implementation": "user_simulator"},
        "environment_info": {"domain_name": "desk"},
    }
    tasks = [{"id": f"t{number}", "user_scenario": {"instructions": "Cancel it."}} for number in range(n)]
    path.write_text(json.dumps({"info": info, "tasks": tasks, "simulations": simulations}))
    return path


class Small:
    """One home and what is done to it.

    Args:
        folder: The home.
        source: A file of simulations.
        selection: What a sync makes.
    """

    def __init__(self, folder: Path, source: Path, selection: Sequence[str] = SELECTION) -> None:
        self.folder, self.source, self.selection = folder, source, selection
        self._definitions: tuple[Study, dg.Definitions] | None = None

    def study(self) -> Study:
        """Return the study, as a new process would open it."""
        study = Study(Home.open(self.folder), load_settings(None, []))
        if self._definitions is None:
            self._definitions = study, build(study)
        return study

    def definitions(self, study: Study) -> dg.Definitions:
        """Return the graph; it is built once, for it is the same for each state of the home."""
        self.study()
        assert self._definitions is not None
        return dg.Definitions(assets=self._definitions[1].assets, resources={"study": study})

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """Open the home's own history."""
        forget_process()
        with prepare_instance(self.study().home) as instance:
            yield instance

    def work(self) -> Synced:
        """Ingest and sync, as two commands would."""
        study = self.study()
        ingest(study, [self.source])
        return self.sync()

    def sync(self) -> Synced:
        """Bring everything up to date."""
        study = self.study()
        with self.instance() as instance:
            register_batches(instance, study, live=False)
            done = sync(self.definitions(study), instance, study, {}, selection=self.selection, jobs=0)
        for outcome in done.outcomes:
            assert outcome.made, f"{outcome.item}: {outcome.error}"
        return done

    def due(self) -> list[Step]:
        """Return what is due."""
        study = self.study()
        with self.instance() as instance:
            return Planner(self.definitions(study), instance, self.selection).look()

    def versions(self) -> dict[str, str]:
        """Return the content version of every table and model, times left out."""
        study = self.study()
        found = {
            f"{record.table}/{part}": frame_version(study.store.frame(record, part), record)
            for record in TABLES
            if record.table not in TOLD
            for part in study.store.partitions(record)
        }
        for folder in (*study.home.models.glob("base/*"), *study.home.models.glob("adapters/*")):
            found[str(folder.relative_to(study.home.path))] = folder_version(folder)
        return found


def forget_process() -> None:
    """Be another process for those who look who is at work."""
    for (_, home), (_, descriptor, _) in presence._own.items():
        known_as(home, "")
        with suppress(OSError):
            presence._beats().end(descriptor)
    presence._own.clear()


@contextmanager
def quick_models() -> Iterator[None]:
    """Put functions that write models of random bytes in the place of those that train."""
    with pytest.MonkeyPatch.context() as patch:
        stand_in(patch, "trace_assets.assets.base_model.write_base_model", _base_model)
        stand_in(patch, "trace_assets.assets.adapter.train_mixed", _mixed)
        yield


def _base_model(study: Study) -> StageResult:
    folder = study.home.models / "base" / "abc"
    if not folder.is_dir():
        with replacing_folder(folder) as building:
            _fill(building, {"config.json": 300, "model.safetensors": 20_000, "training.json": 100})
    names = ["config.json", "model.safetensors"]
    base = BaseCheckpoint(
        base_id=folder_version(folder, names),
        path=study.home.relative(folder),
        parameters=1,
        steps=1,
        pass_rate=0.5,
        pass_rate_low=0.4,
        pass_rate_high=0.6,
        n=100,
    )
    return StageResult(study.store.write([base], BaseCheckpoint), 1)


def _mixed(study: Study, *_: object) -> StageResult:
    folder = study.home.models / "adapters" / "mixed-1"
    if not folder.is_dir():
        with replacing_folder(folder) as building:
            _fill(building, {CONFIG: 200, WEIGHTS: 9_000, "training_curve.jsonl": 400, "training.json": 300})
    row = Adapter(
        adapter_id=adapter_id(folder),
        name="mixed",
        kind="mixed",
        capability_id=None,
        environment_id=None,
        base_id=study.store.read(BaseCheckpoint)[0].base_id,
        path=study.home.relative(folder),
        iterations=1,
        best_iteration=1,
        rollouts=8,
        validation_before=0.2,
        validation_before_low=0.1,
        validation_before_high=0.3,
        validation_after=0.9,
        validation_after_low=0.8,
        validation_after_high=0.95,
        validation_n=64,
    )
    return StageResult(study.store.write([row], Adapter, "mixed"), 1)


def _fill(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        (folder / name).write_bytes(random.Random(name).randbytes(size))


def rows_of(study: Study, record: type[Record]) -> list[Record]:
    """Return a table's rows."""
    return list(study.store.read(record))

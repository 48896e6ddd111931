"""The real graph on the embedded target, its dear stages played by quick stand-ins.

Diagnosis, contract, environments, firewalls and the report's place in the graph are the program's own. What
needs torch or Docker is replaced by functions that write real rows whose content follows from their inputs,
so that a content version moves exactly when it should.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
import pytest
from filelock import FileLock

from tests.assets.stand_in import stand_in
from tests.scripted_policies import ScriptedPolicy
from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.asset import StageResult
from trace_assets.assets.environment_audit import read_verdict, taught
from trace_assets.assets.routing import examples, usable_adapters
from trace_assets.definitions import build
from trace_assets.diagnosis.candidates import Pool
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.environments.audit.severity import SEVERITIES
from trace_assets.orchestration.forecast import Scope
from trace_assets.orchestration.instance import register_batches
from trace_assets.orchestration.materialization import Outcome
from trace_assets.orchestration.planner import Item, Planner, Step
from trace_assets.orchestration.sync import sync
from trace_assets.orchestration.sync_run import Answer, AtRisk
from trace_assets.policies.protocol import Conversation
from trace_assets.records import (
    Adapter,
    ArmSummary,
    BaseCheckpoint,
    CompositionChoice,
    EnvironmentCheck,
    InterferencePart,
    Message,
    NoHarm,
    Pilot,
    Route,
    Task,
    Trajectory,
)
from trace_assets.resources.contract import read_contract
from trace_assets.resources.policy import base_checkpoint
from trace_assets.resources.sandbox import permutation_for, read_environment
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.store.content import text_version
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.targets.embedded.demonstrations import mistaken
from trace_assets.targets.embedded.desk import case_of, solve
from trace_assets.targets.embedded.generator import Drawn

SMALL = {
    "targets.discovery_tasks": "144",
    "targets.validation_tasks": "8",
    "targets.test_tasks": "8",
    "contrast.resamples": "200",
    "contrast.permutations": "500",
    "discovery.min_support": "5",
    "stability.resamples": "10",
    "stability.shuffles": "10",
}
_TABLES = (
    "SELECT name FROM {}.sqlite_master "
    "WHERE type = 'table' AND name NOT IN ('alembic_version', 'sqlite_sequence')"
)
MISTAKES = {"cancel": 0.6, "multi": 0.5, "window": 0.45}
"""Share of trials in which the scripted agent makes its mistake."""


class Loop:
    """One home, one Dagster history, and settings that are edited.

    Args:
        folder: The home.
        recode: Asset to another code version, as after an edit of its code.
    """

    def __init__(self, folder: Path) -> None:
        self.home = Home.open(folder)
        self.instance = dg.DagsterInstance.ephemeral()
        self.recode: dict[str, str] = {}

    def study(self, **edits: str) -> Study:
        """Return the study under the small settings and some edits, `section__key=value`."""
        values = {**SMALL, **{name.replace("__", "."): value for name, value in edits.items()}}
        return Study(self.home, load_settings(None, [f"{key}={value}" for key, value in values.items()]))

    def definitions(self, study: Study) -> dg.Definitions:
        """Return the real definitions, with the code versions of `recode`."""

        def recoded(spec: dg.AssetSpec) -> dg.AssetSpec:
            code = self.recode.get(spec.key.to_user_string())
            return spec.replace_attributes(code_version=code) if code else spec

        built = build(study)
        assets = [
            one.map_asset_specs(recoded) for one in built.assets or [] if isinstance(one, dg.AssetsDefinition)
        ]
        return dg.Definitions(assets=assets, resources={"study": study})

    def sync(
        self,
        *,
        selection: Sequence[str] | None = None,
        ask: Callable[[Sequence[AtRisk]], Answer] = lambda _: "replace",
        **edits: str,
    ) -> set[str]:
        """Bring everything up to date; return what ran, each item once and all of it foreseen."""
        study = self.study(**edits)
        register_batches(self.instance, study, live=True)
        definitions = self.definitions(study)
        planner = Planner(definitions, self.instance, selection)
        due = planner.look()
        foreseen = {str(step.item) for step in due} | {str(item) for item in planner.items_after(due)}
        known = set(self.capabilities())
        ran: list[str] = []

        def listen(event: str, item: Item, what: Step | Outcome) -> None:
            if isinstance(what, Outcome):
                assert what.made, f"{item}: {what.error}"
                ran.append(str(item))

        done = sync(
            definitions,
            self.instance,
            study,
            {},
            selection=selection,
            jobs=0,
            listen=listen,
            ask=ask,
        )
        assert not done.held_back, done.held_back
        surprises = {
            name for name in set(ran) - foreseen if name.partition("[")[2].rstrip("]") in known | {""}
        }
        assert not surprises, f"not foreseen by the plan: {surprises}"
        assert len(ran) == len(set(ran)), f"made twice: {sorted(ran)}"
        return set(ran)

    def forget(self, batch: str) -> None:
        """Take a task batch away again, and bring everything up to date."""
        for place in ("tables", "inbox", "task_inbox"):
            for path in (self.home.path / place).rglob(f"{batch}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.instance.delete_dynamic_partition("task_batch", batch)
        self.sync()

    def keep(self, folder: Path) -> None:
        """Write down all of it as it is now: the home's files, and Dagster's history."""
        folder.mkdir()
        shutil.copytree(self.home.path, folder / "home")
        for name, content in held(self.instance).items():
            (folder / name).write_bytes(content)

    def put_back(self, folder: Path) -> None:
        """Make it what it was when it was written down, which takes a moment where to make it takes long."""
        shutil.rmtree(self.home.path)
        shutil.copytree(folder / "home", self.home.path)
        announce(self.home)  # the note of this process went with the files
        hold(self.instance, {name: (folder / name).read_bytes() for name in held(self.instance)})

    def record_in(self, instance: dg.DagsterInstance) -> None:
        """Write what this history knows into an empty one that is kept in files."""
        storages: dict[str, Any] = {"runs": instance.run_storage, "events": instance.event_log_storage}
        written = held(self.instance)
        for name, storage in storages.items():
            opened = storage.index_connection() if name == "events" else storage.connect()
            with opened as connection, TemporaryDirectory() as folder:
                (copy := Path(folder, "held.db")).write_bytes(written[name])
                files = connection.connection.dbapi_connection
                files.commit()  # no other database is attached within a transaction
                files.execute("ATTACH ? AS held", [str(copy)])
                known = {table for (table,) in files.execute(_TABLES.format("main"))}
                for (table,) in files.execute(_TABLES.format("held")).fetchall():
                    if table in known:
                        files.execute(f'DELETE FROM main."{table}"')
                        files.execute(f'INSERT INTO main."{table}" SELECT * FROM held."{table}"')
                files.commit()
                files.execute("DETACH held")

    def plan(self, **edits: str) -> list[Step]:
        """Return what is due."""
        study = self.study(**edits)
        return Planner(self.definitions(study), self.instance, standing=Scope(study)).look()

    def capabilities(self) -> list[str]:
        """Return the partition keys of kept capabilities."""
        return sorted(self.instance.get_dynamic_partitions("capability"))


def _databases(instance: dg.DagsterInstance) -> dict[str, sqlite3.Connection]:
    """Return the databases of an instance that has them in memory."""
    storages = {"runs": instance.run_storage, "events": instance.event_log_storage}
    return {name: one._held_conn.connection.dbapi_connection for name, one in storages.items()}  # type: ignore[attr-defined]


def held(instance: dg.DagsterInstance) -> dict[str, bytes]:
    """Return what an instance holds in memory."""
    return {name: database.serialize() for name, database in _databases(instance).items()}


def hold(instance: dg.DagsterInstance, content: Mapping[str, bytes]) -> None:
    """Have an instance hold in memory what another one held, and nothing else."""
    for name, database in _databases(instance).items():
        with closing(sqlite3.connect(":memory:")) as kept:
            kept.deserialize(content[name])
            kept.backup(database)


def finished_loop(factory: pytest.TempPathFactory) -> tuple[Loop, Path]:
    """Return a loop in which all is made, and where it is written down to be put back.

    It is made once in a run of the tests, by whichever worker needs it first, and copied for the others.
    To be called where the stand-ins are in their places.
    """
    base = factory.getbasetemp()
    kept = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished-loop"
    loop = Loop(factory.mktemp("loop"))
    with FileLock(f"{kept}.lock"):
        if not kept.is_dir():
            loop.sync()
            loop.keep(written := factory.mktemp("kept") / "loop")
            written.rename(kept)
        else:
            loop.put_back(kept)
    return loop, kept


@contextmanager
def stand_ins() -> Iterator[dict[str, list[str]]]:
    """Put the quick functions in the places of the dear ones.

    Yields:
        Calls by stage, in order: what was played, audited and trained.
    """
    calls: dict[str, list[str]] = {"audit": [], "train": []}

    def audit(study: Study, capability: str) -> StageResult:
        calls["audit"].append(capability)
        return _audit(study, capability)

    def train(study: Study, capability: str, *_: object) -> StageResult:
        calls["train"].append(capability)
        return _train(study, capability)

    places: Mapping[str, Callable[..., object]] = {
        "trace_assets.assets.base_model.write_base_model": _base_model,
        "trace_assets.assets.trajectories.open_policy": scripted_agent,
        "trace_assets.assets.environment_audit.audit_environment": audit,
        "trace_assets.assets.pilot.write_pilot": _pilot,
        "trace_assets.assets.adapter.train_capability": train,
        "trace_assets.assets.adapter.train_mixed": _train_mixed,
        "trace_assets.assets.joint_adapters.write_interference": _interfere,
        "trace_assets.assets.adapter_validation.validate_adapters": _validate,
        "trace_assets.assets.routing.write_routing": _route,
        "trace_assets.assets.evaluation.write_evaluation": _evaluate,
        "trace_assets.assets.evaluation.write_choice": _choose,
        "trace_assets.assets.report.write_report": _report,
    }
    with pytest.MonkeyPatch.context() as patch:
        for place, quick in places.items():
            stand_in(patch, place, quick)
        patch.setattr(DetectorAnalyst, "pool", _pool)
        yield calls


_POOLS: dict[str, Pool] = {}
_MADE = DetectorAnalyst.pool


def _pool(self: DetectorAnalyst, trajectories: Sequence[Trajectory]) -> Pool:
    """Return what is proposed from trajectories, made once a process: most edits leave these as they are."""
    known = (self._tools, self._policy, [one.name for one in self._families], sorted(self._expected.items()))
    key = text_version(repr(known), *(one.blind().model_dump_json() for one in trajectories))
    if key not in _POOLS:
        _POOLS[key] = _MADE(self, trajectories)
        _POOLS[key].codes.flags.writeable = _POOLS[key].evidence.flags.writeable = False
    return _POOLS[key]


def _pilot(study: Study, capability: str) -> StageResult:
    verdict = read_verdict(study, capability)
    row = Pilot(
        capability_id=capability,
        environment_id=verdict.environment_id,
        outcome="transfers",
        goes_on=verdict.trained_on,
        reason=f"{study.settings.training.fingerprint()} {base_checkpoint(study).base_id}",
    )
    return StageResult(study.store.write([row], Pilot, capability), 1)


def _interfere(study: Study) -> StageResult:
    rows = [
        InterferencePart(
            capability_id=name,
            condition=study.settings.training.fingerprint(),
            n_groups=8,
            live_groups=8,
            n_rollouts=64,
            pass_rate=0.5,
            norm=1.0,
            split_half=1.0,
            reliability=1.0,
        )
        for name in sorted(taught(study))
    ]
    return StageResult(study.store.write(rows, InterferencePart), len(rows))


def _choose(study: Study) -> StageResult:
    return StageResult(study.store.write([], CompositionChoice), 0)


def scripted_agent(study: Study) -> ScriptedPolicy:
    """Return an agent that solves tasks, and makes the planted mistakes by the luck of its trial."""
    tasks = {task.instruction: task for task in study.store.read(Task)}
    base = base_checkpoint(study).base_id

    def say(conversation: Conversation) -> Message:
        asked = next(one for one in conversation.messages if one.role == "user").content or ""
        turn = sum(message.role == "assistant" for message in conversation.messages)
        return _turns(tasks[asked], f"{base}/{conversation.seed}")[turn]

    return ScriptedPolicy(say, name="scripted", version=base)


def _turns(task: Task, luck: str) -> list[Message]:
    skill = task.tags[0]
    drawn = int.from_bytes(hashlib.sha256(luck.encode()).digest()[:4], "big") / 2**32
    if drawn < MISTAKES.get(skill, 0.0):
        case = case_of(task)
        return mistaken(
            Drawn(orders=case.orders, requests=case.requests, skill=skill, text=task.instruction)  # type: ignore[arg-type]
        )
    return solve(case_of(task))


def _base_model(study: Study) -> StageResult:
    base = BaseCheckpoint(
        base_id=text_version(study.settings.base_model.fingerprint(), str(study.settings.targets.seed)),
        path="models/base",
        parameters=1,
        steps=1,
        pass_rate=0.5,
        pass_rate_low=0.4,
        pass_rate_high=0.6,
        n=100,
    )
    (study.home.path / base.path).mkdir(parents=True, exist_ok=True)
    return StageResult(study.store.write([base], BaseCheckpoint), 1)


def _audit(study: Study, capability: str) -> StageResult:
    environment = read_environment(study, capability)
    permutation_for(study, environment.environment_id)
    seen = text_version(
        environment.source,
        read_contract(study).fingerprint(),
        base_checkpoint(study).base_id,
        study.settings.synthesis.fingerprint(),
    )
    checks = [
        EnvironmentCheck(
            environment_id=environment.environment_id,
            capability_id=capability,
            check_id=name,
            level="semantic",
            status="pass",
            severity=severity,
            evidence=seen,
            sandbox_version=study.settings.sandbox.fingerprint(),
        )
        for name, severity in SEVERITIES.items()
    ]
    return StageResult(study.store.write(checks, EnvironmentCheck, capability), len(checks))


def _adapter(study: Study, name: str, environment: str | None, decided_by: str) -> Adapter:
    identity = text_version(
        decided_by, base_checkpoint(study).base_id, study.settings.training.recipe_version()
    )
    (study.home.models / "adapters" / name).mkdir(parents=True, exist_ok=True)
    return Adapter(
        adapter_id=identity,
        name=name,
        kind="mixed" if environment is None else "capability",
        capability_id=None if environment is None else name,
        environment_id=environment,
        base_id=base_checkpoint(study).base_id,
        path=f"models/adapters/{name}",
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


def _train(study: Study, capability: str) -> StageResult:
    assert read_verdict(study, capability).trained_on
    environment = read_environment(study, capability)
    row = _adapter(study, capability, environment.environment_id, environment.source)
    return StageResult(study.store.write([row], Adapter, capability), 1, spent={("rollouts", "episodes"): 8})


def _train_mixed(study: Study, *_: object) -> StageResult:
    row = _adapter(study, "mixed", None, f"{study.target.version}/{len(taught(study))}")
    return StageResult(study.store.write([row], Adapter, "mixed"), 1)


def _validate(study: Study) -> StageResult:
    rows = []
    for adapter in read_adapters(study):
        if adapter.kind == "capability":
            seen = text_version(adapter.adapter_id, str(examples(study, [adapter.name])))
            empty = dict.fromkeys(
                f"{side}_{figure}"
                for side in ("own", "other")
                for figure in ("base", "adapter", "delta", "delta_low", "delta_high")
            )
            rows.append(
                NoHarm(
                    adapter=adapter.name,
                    own_skills=(),
                    own_n=0,
                    other_n=0,
                    verdict="harmless",
                    reason=f"{seen} {study.settings.evaluation.fingerprint()}",
                    **empty,  # type: ignore[arg-type]
                )
            )
    return StageResult(study.store.write(rows, NoHarm), len(rows), spent={("rollouts", "episodes"): 16})


def _route(study: Study) -> StageResult:
    choices = usable_adapters(study)
    seen = text_version(
        str(examples(study, choices)),
        *(one.adapter_id for one in read_adapters(study)),
        study.settings.routing.fingerprint(),
    )
    routes = [
        Route(
            router="classifier",
            task_id=task.task_id,
            choice=choices[0],
            probabilities={choices[0]: 1.0, seen: 0.0},
        )
        for task in study.target.tasks("test")
    ]
    return StageResult(study.store.write(routes, Route), len(routes))


def _evaluate(study: Study) -> StageResult:
    seen = text_version(
        *(route.model_dump_json() for route in study.store.read(Route)),
        *(adapter.adapter_id for adapter in read_adapters(study)),
        study.settings.evaluation.fingerprint(),
    )
    version = text_version(seen, study.store.write([], ArmSummary))
    return StageResult(version, 0)


def _report(study: Study) -> StageResult:
    return StageResult(text_version("page"), 1)

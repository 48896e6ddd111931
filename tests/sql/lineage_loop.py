"""A loop in a few records, in order: what the queries for lineage are tested on."""

from __future__ import annotations

from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

from trace_assets.records import (
    Adapter,
    Capability,
    CapabilitySpec,
    ContractRow,
    Contrast,
    Environment,
    EnvironmentCheck,
    Evaluation,
    Label,
    Record,
    Route,
    SelectedCapability,
    Task,
    Trajectory,
    Triage,
)
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study
from trace_assets.workflows.lineage.edges import record_lineage

R = TypeVar("R", bound=Record)
LIVE = "embedded"
LABELS = {
    "look": {"t0": "PRESENT", "t1": "LACKING", "t2": "NA", "t3": "NA"},
    "ask": {"t0": "NA", "t1": "NA", "t2": "PRESENT", "t3": "LACKING"},
}
"""t0 and t2 passed; t1 and t3 failed by the agent; t4 failed by the user simulator, LACKING in both."""
OUTCOMES = {"t0": True, "t1": False, "t2": True, "t3": False, "t4": False}


def filled(record: type[R], **values: Any) -> R:
    """Return a record whose other required fields hold nothing in particular."""
    for name, field in record.model_fields.items():
        if field.is_required() and name not in values:
            kinds = (
                get_args(field.annotation)
                if get_origin(field.annotation) is UnionType
                else (field.annotation,)
            )
            nothing: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False}
            values[name] = None if type(None) in kinds else nothing.get(kinds[0])
    return record.model_validate(values)


class Loop:
    """A loop in miniature: each step writes the tables of an asset and records its lineage."""

    def __init__(self, home: Home) -> None:
        self.study = Study(home, Settings())

    def done(self, asset: str, *partitions: str) -> None:
        for partition in partitions or ("",):
            record_lineage(self.study, asset, partition)

    def batch(
        self, batch: str, target: str, names: dict[str, bool], labels: dict[str, dict[str, str]]
    ) -> None:
        store = self.study.store
        tasks = [Task(task_id=f"{target}/{name}", target=target, task_batch=batch) for name in names]
        store.write(tasks, Task, batch)
        trajectories = [
            filled(
                Trajectory,
                trajectory_id=name,
                task_id=f"{target}/{name}",
                target=target,
                task_batch=batch,
                success=passed,
            )
            for name, passed in names.items()
        ]
        write_trajectories(store, trajectories, batch)
        store.write(
            [
                Triage(
                    trajectory_id=name,
                    target=target,
                    task_id=f"{target}/{name}",
                    outcome="passed" if passed else "failed",
                    fault=None if passed else "user_simulator" if name == "t4" else "agent",
                    rule="",
                )
                for name, passed in names.items()
            ],
            Triage,
            batch,
        )
        self.done("trajectories", batch)
        self.done("triage", batch)
        self.labels(batch, list(names), labels)

    def labels(self, batch: str, names: list[str], labels: dict[str, dict[str, str]]) -> None:
        rows = [
            filled(
                Label,
                trajectory_id=name,
                capability_id=capability,
                label=own.get(name, "LACKING"),
                evidence=(2,),
            )
            for capability, own in labels.items()
            for name in names
        ]
        self.study.store.write(rows, Label, batch)
        self.done("labels", batch)

    def dictionary(self, *names: str, target: str = LIVE) -> None:
        rows = [filled(Capability, capability_id=name, target=target, proposed_by=("t1",)) for name in names]
        self.study.store.write([*self.study.store.read(Capability), *rows], Capability)
        self.done("capability_dictionary")

    def decide(self, gap: float, target: str = LIVE) -> None:
        store = self.study.store
        own = {row.capability_id: row.target for row in store.read(Capability)}
        store.write(
            [filled(Contrast, capability_id=name, target=of, gap=gap) for name, of in own.items()], Contrast
        )
        self.done("contrast")
        store.write(
            [
                filled(SelectedCapability, capability_id=name, target=of, kept=True, reason=f"gap {gap}")
                for name, of in own.items()
            ],
            SelectedCapability,
        )
        self.done("selected_capabilities")
        for name in (name for name, of in own.items() if of == LIVE):
            store.write([filled(CapabilitySpec, capability_id=name, target=LIVE)], CapabilitySpec, name)
            self.done("capability_spec", name)

    def contract(self, fingerprint: str) -> None:
        self.study.store.write(
            [filled(ContractRow, target=LIVE, fingerprint=fingerprint, contract={})], ContractRow
        )
        self.done("target_contract")

    def teach(self, name: str, environment: str, adapter: str) -> None:
        store = self.study.store
        store.write(
            [filled(Environment, environment_id=environment, capability_id=name, target=LIVE)],
            Environment,
            name,
        )
        self.done("environment", name)
        check = filled(
            EnvironmentCheck,
            environment_id=environment,
            capability_id=name,
            level="static",
            status="pass",
            severity="info",
        )
        store.write([check], EnvironmentCheck, name)
        self.done("environment_audit", name)
        self.train(name, environment, adapter)

    def train(self, name: str, environment: str | None, adapter: str) -> None:
        mixed = name == "mixed"
        row = filled(
            Adapter,
            name=name,
            adapter_id=adapter,
            kind="mixed" if mixed else "capability",
            capability_id=None if mixed else name,
            environment_id=environment,
            base_id="b1",
        )
        self.study.store.write([row], Adapter, name)
        self.done("mixed_adapter" if mixed else "adapter", *([] if mixed else [name]))

    def evaluate(self, *adapters: str) -> None:
        store = self.study.store
        for split, asset in (("validation", "adapter_validation"), ("test", "evaluation")):
            if split == "test":
                odds = {"none": 0.5, **{name: 0.1 for name in adapters if name != "mixed"}}
                routes = [
                    Route(router=router, task_id="x", choice="none", probabilities=odds)
                    for router in ("classifier", "label_logits")
                ]
                store.write(routes, Route)
                self.done("routing")
            own = [name for name in adapters if split == "test" or name != "mixed"]
            store.write(
                [filled(Evaluation, task_id="x", arm=name, adapter=name, split=split) for name in own],
                Evaluation,
                split,
            )
            self.done(asset)

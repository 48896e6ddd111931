"""What every asset was made from, read off the tables right after it was made, and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import (
    NO_ADAPTER,
    Adapter,
    Capability,
    Environment,
    Evaluation,
    Label,
    Lesson,
    LineageEdge,
    LineageMember,
    LineageNode,
    Route,
    Split,
    TrajectoryHead,
)
from trace_assets.store.history import Input, Made, keep
from trace_assets.study import Study
from trace_assets.workflows.lineage.nodes import (
    adapter,
    audit_of,
    base,
    batches_by_target,
    capabilities,
    contracts,
    contrasts,
    environments,
    evaluation_of,
    labels_of,
    members,
    query,
    routings,
    selections,
    some,
    specs,
    trajectories_of,
    triage_of,
)


def made_trajectories(study: Study, batch: str) -> Made:
    """A batch of trajectories: the base model where it was rolled out here."""
    made, node = Made(), trajectories_of(study, batch)
    here = "rollout" in study.store.frame(TrajectoryHead, batch)["source"]
    made.add(node, base(study) if here and study.settings.rollouts.engine != "openai" else [])
    return made


def made_triage(study: Study, batch: str) -> Made:
    """Outcomes of a batch: its trajectories."""
    made = Made()
    made.add(triage_of(study, batch), [Input(trajectories_of(study, batch), "outcomes of")])
    return made


def made_dictionary(study: Study, partition: str) -> Made:
    """Each candidate: the batches of its target, which were read when it was proposed."""
    made, batches = Made(), batches_by_target(study)
    nodes = capabilities(study)
    for row in study.store.read(Capability):
        read = [trajectories_of(study, batch) for batch in batches.get(row.target, [])]
        made.add(nodes[row.capability_id], some(read, "proposed from", direct=False))
    return made


def made_labels(study: Study, batch: str) -> Made:
    """Labels of a batch: its trajectories and the candidates they were labelled for."""
    made, known = Made(), capabilities(study)
    labelled = study.store.frame(Label, batch)["capability_id"].unique().sort()
    made.add(
        labels_of(study, batch),
        [
            Input(trajectories_of(study, batch), "labels of"),
            *some((known.get(name) for name in labelled), "labelled for", direct=False),
        ],
    )
    return made


def made_contrast(study: Study, partition: str) -> Made:
    """Each contrast row: labels and outcomes of its target, down to the trajectories that it counts."""
    made, batches, known = Made(), batches_by_target(study), capabilities(study)
    nodes = contrasts(study)
    for name, (target, node) in nodes.items():
        own = batches.get(target, [])
        made.add(
            node,
            [
                *some((labels_of(study, batch) for batch in own), "labels"),
                *some((triage_of(study, batch) for batch in own), "outcomes"),
                *some([known.get(name)], "definition"),
            ],
        )
    rows = query(
        study,
        """
        SELECT l.capability_id AS id, l.capability_id, l.trajectory_id, t.outcome,
            CASE WHEN count(DISTINCT l.label) = 1 THEN min(l.label) ELSE 'mixed' END AS label,
            bool_or(l.label IN ('PRESENT', 'LACKING')) AS relevant
        FROM labels AS l
        JOIN capabilities AS k USING (capability_id)
        JOIN triage AS t ON t.trajectory_id = l.trajectory_id AND t.target = k.target
        WHERE t.outcome = 'passed' OR (t.outcome = 'failed' AND t.fault = 'agent')
        GROUP BY ALL
        HAVING relevant OR t.outcome = 'failed'
        """,
    )
    made.members = members("contrast", rows, [node for _, node in nodes.values()])
    return made


def made_selection(study: Study, partition: str) -> Made:
    """Each decision: its own contrast row, and those of its rivals, which it was compared with."""
    made, known = Made(), contrasts(study)
    for name, node in selections(study).items():
        if name not in known:
            continue
        target, own = known[name]
        rivals = [other for of, other in known.values() if of == target and other is not own]
        made.add(node, [Input(own, "decided on"), *some(rivals, "compared with", direct=False)])
    return made


def made_spec(study: Study, capability: str) -> Made:
    """The spec of a kept capability: the decision to keep it and its definition."""
    made, node = Made(), specs(study).get(capability)
    if node is not None:
        made.add(
            node,
            [
                *some([selections(study).get(capability)], "selected by"),
                *some([capabilities(study).get(capability)], "definition"),
            ],
        )
    return made


def made_contract(study: Study, partition: str) -> Made:
    """Each target's contract: the discovery trajectories that it was read from, the live one's its own."""
    made, nodes, live = Made(), contracts(study), study.settings.targets.name
    heads = study.store.frame(TrajectoryHead).filter(pl.col("split") == "discovery")
    for target, node in nodes.items():
        batches = heads.filter(pl.col("target") == target)["task_batch"].unique().sort().to_list()
        read = [study.live_batch] if target == live else batches
        made.add(node, [Input(trajectories_of(study, batch), "learned from") for batch in read])
    rows = query(
        study,
        """
        SELECT t.target AS id, '' AS capability_id, t.trajectory_id, coalesce(g.outcome, '') AS outcome,
            '' AS label, true AS relevant
        FROM trajectories AS t
        LEFT JOIN triage AS g USING (trajectory_id)
        WHERE t.split = 'discovery' AND (t.target <> $live OR t.task_batch = $batch)
        """,
        {"batch": study.live_batch, "live": live},
    )
    made.members = members("contract", rows, nodes.values())
    return made


# What environments, adapters, routers and evaluations were made from.


MIXED = "mixed"
JOINT_ADAPTERS = "joint_adapters"
CONSOLIDATED = "consolidated"


def made_base(study: Study, partition: str) -> Made:
    """The base model: nothing that was recorded."""
    made = Made()
    for one in base(study):
        made.add(one.node, [])
    return made


def made_environment(study: Study, capability: str) -> Made:
    """An environment: the spec that it teaches and the contract that it is held to."""
    made, node = Made(), environments(study).get(capability)
    if node is not None:
        target = study.store.read(Environment, capability)[0].target
        made.add(
            node,
            [
                *some([specs(study).get(capability)], "teaches"),
                *some([contracts(study).get(target)], "held to"),
            ],
        )
    return made


def made_audit(study: Study, capability: str) -> Made:
    """An audit: the environment, and the policy that played in it."""
    made, node = Made(), audit_of(study, capability)
    environment = environments(study).get(capability)
    if node is not None and environment is not None:
        held_to = some(contracts(study).values(), "held to")
        made.add(node, [Input(environment, "audit of"), *held_to, *base(study)])
    return made


def made_adapter(study: Study, name: str) -> Made:
    """An adapter: the environment it was trained in; the mixed one: what set its budget."""
    made, known = Made(), environments(study)
    for row in study.store.read(Adapter, name or MIXED):
        if row.kind == "mixed":
            budget = some(specs(study).values(), "share of the budget", direct=False)
            made.add(adapter(row), [*base(study), *budget])
            continue
        environment = known.get(row.capability_id or "")
        made.add(
            adapter(row),
            [
                *some([environment], "trained in"),
                *some([audit_of(study, row.capability_id or "")], "admitted by", direct=False),
                *base(study),
            ],
        )
    return made


def made_joint(study: Study, partition: str) -> Made:
    """Adapters for all capabilities: the environments they were trained in, and what one is added to."""
    made, known = Made(), environments(study)
    own = [known.get(lesson.capability_id) for lesson in study.store.read(Lesson)]
    every = [row for row in study.store.read(Adapter) if row.kind == "capability"]
    for row in study.store.read(Adapter, JOINT_ADAPTERS):
        under = some((adapter(one) for one in every), "trained on top of") if row.kind == "joining" else []
        made.add(adapter(row), [*under, *some(own, "trained in"), *base(study)])
    return made


def made_consolidated(study: Study, partition: str) -> Made:
    """The adapter that the composed agent was distilled into: who acted there, and who sent it tasks."""
    made, known = Made(), environments(study)
    own = [known.get(lesson.capability_id) for lesson in study.store.read(Lesson)]
    every = [row for row in study.store.read(Adapter) if row.kind == "capability"]
    used = routings(study).get(study.settings.routing.router)
    for row in study.store.read(Adapter, CONSOLIDATED):
        teachers = some((adapter(one) for one in every), "taught by")
        made.add(
            adapter(row), [*teachers, *some([used], "routed by"), *some(own, "trained in"), *base(study)]
        )
    return made


def _played(study: Study, split: Split) -> list[Input]:
    """Return the adapters whose episodes the evaluation of a split holds."""
    names = set(study.store.frame(Evaluation, split)["adapter"].drop_nulls().unique())
    return some((adapter(row) for row in study.store.read(Adapter) if row.name in names), "played")


def made_validation(study: Study, partition: str) -> Made:
    """The evaluation on the validation split: the base model and every adapter that played."""
    made = Made()
    made.add(evaluation_of(study, "validation"), [*_played(study, "validation"), *base(study)])
    return made


def made_routing(study: Study, partition: str) -> Made:
    """Each router: the adapters it may choose; for the classifier also the labels it was fitted on."""
    made, target = Made(), study.settings.targets.name
    batches = batches_by_target(study).get(target, [])
    scored = Input(evaluation_of(study, "validation"), "scored against", direct=False)
    every = study.store.read(Adapter)
    nodes, choices = routings(study), _choices(study)
    for router, node in nodes.items():
        own = some((adapter(row) for row in every if row.name in choices[router]), "choice")
        made.add(node, [*own, *base(study), scored])
        if router == "classifier":
            made.add(node, some((labels_of(study, batch) for batch in batches), "fitted on"))
            made.add(node, some((triage_of(study, batch) for batch in batches), "fitted on"))
    rows = query(
        study,
        """
        SELECT 'classifier' AS id, l.capability_id, l.trajectory_id, g.outcome,
            CASE WHEN count(DISTINCT l.label) = 1 THEN min(l.label) ELSE 'mixed' END AS label,
            true AS relevant
        FROM labels AS l
        JOIN triage AS g USING (trajectory_id)
        JOIN tasks AS k USING (task_id)
        WHERE k.split = 'discovery' AND k.target = $target AND g.target = $target
            AND (g.fault IS NULL OR g.fault = 'agent')
            AND list_contains($choices::VARCHAR[], l.capability_id)
        GROUP BY ALL
        """,
        {"target": target, "choices": sorted(choices.get("classifier", ()))},
    )
    made.members = members("routing", rows, nodes.values())
    return made


def _choices(study: Study) -> dict[str, set[str]]:
    """Return the adapters that each router chooses among, as its probabilities name them."""
    routes = study.store.frame(Route).select(
        "router", pl.col("probabilities").str.extract_all(r'"(?:[^"\\]|\\.)*"\s*:').alias("key")
    )
    found: dict[str, set[str]] = {}
    for router, key in routes.explode("key").unique().iter_rows():
        found.setdefault(router, set()).add(str(key).rstrip(": ").strip('"'))
    return {router: names - {NO_ADAPTER} for router, names in found.items()}


def made_evaluation(study: Study, partition: str) -> Made:
    """The evaluation on the test split: every adapter that played, and the router that chose."""
    made = Made()
    used = routings(study).get(study.settings.routing.router)
    made.add(
        evaluation_of(study, "test"),
        [
            *_played(study, "test"),
            *base(study),
            *some([used], "routed by"),
            Input(evaluation_of(study, "validation"), "oracle chosen on", direct=False),
        ],
    )
    return made


RECORDERS: dict[str, Callable[[Study, str], Made]] = {
    "base_model": made_base,
    "trajectories": made_trajectories,
    "triage": made_triage,
    "capability_dictionary": made_dictionary,
    "labels": made_labels,
    "contrast": made_contrast,
    "selected_capabilities": made_selection,
    "capability_spec": made_spec,
    "target_contract": made_contract,
    "environment": made_environment,
    "environment_audit": made_audit,
    "adapter": made_adapter,
    "mixed_adapter": made_adapter,
    "joint_adapters": made_joint,
    "consolidated": made_consolidated,
    "adapter_validation": made_validation,
    "routing": made_routing,
    "evaluation": made_evaluation,
}
"""Asset to what tells what it was made from."""


TABLES = (LineageEdge, LineageMember, LineageNode)


def mend_lineage(study: Study, items: Iterable[tuple[str, str]]) -> list[str]:
    """Record the lineage of items again where records of it were lost or altered.

    Returns:
        The names of the records that are lost for good: those of versions that are no longer in the store.
    """
    store = study.store
    if store.manifest is None:
        return []
    starts = tuple(store.manifest.name(store.folder / record.table) + "/" for record in TABLES)
    lost = store.manifest.problems(name for name in store.manifest.entries() if name.startswith(starts))
    if not lost:
        return []
    with store.manifest.removing(list(lost)):
        for name in lost:
            store.manifest.path(name).unlink(missing_ok=True)
    for asset, partition in items:
        with suppress(InputError):  # what it is read from is lost too: recorded when that is made again
            record_lineage(study, asset, partition)
    return sorted(set(lost) - set(store.manifest.entries()))


def record_lineage(study: Study, asset: str, partition: str = "") -> None:
    """Store what an asset (or one partition of it) has just been made from.

    Args:
        study: The study whose tables the stage has written.
        asset: Name of the asset; one that makes nothing out of trajectories is passed over.
        partition: Its partition, empty for one without.
    """
    if asset in RECORDERS:
        keep(study.store, asset, partition, RECORDERS[asset](study, partition))

"""What the diagnosis was made from: batches, labels and, row by row, the trajectories behind a contrast."""

from __future__ import annotations

import polars as pl

from trace_assets.records import Capability, Label, TrajectoryHead, Triage
from trace_assets.stages.lineage.nodes import (
    base,
    batches_by_target,
    capabilities,
    contracts,
    contrasts,
    labels_of,
    members,
    query,
    selections,
    some,
    specs,
    trajectories_of,
    triage_of,
)
from trace_assets.store.lineage import Input, Made
from trace_assets.study import Study


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
        (Label, Capability, Triage),
        """
        SELECT l.capability_id AS id, l.capability_id, l.trajectory_id, t.outcome,
            CASE WHEN count(DISTINCT l.label) = 1 THEN min(l.label) ELSE 'mixed' END AS label,
            bool_or(l.label <> 'NA') AS relevant
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
        (TrajectoryHead, Triage),
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

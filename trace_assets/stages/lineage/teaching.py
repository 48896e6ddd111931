"""What environments, adapters, routers and evaluations were made from."""

from __future__ import annotations

import polars as pl

from trace_assets.records import (
    NO_ADAPTER,
    Adapter,
    Environment,
    Evaluation,
    Label,
    Route,
    Split,
    Task,
    Triage,
)
from trace_assets.stages.lineage.nodes import (
    adapter,
    audit_of,
    base,
    batches_by_target,
    contracts,
    environments,
    evaluation_of,
    labels_of,
    members,
    query,
    routings,
    some,
    specs,
    triage_of,
)
from trace_assets.store.lineage import Input, Made
from trace_assets.study import Study

MIXED = "mixed"


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
        (Label, Triage, Task),
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

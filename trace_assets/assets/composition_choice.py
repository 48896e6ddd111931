"""The asset `composition_choice`: which way to put the adapters together is released."""

from __future__ import annotations

from trace_assets.assets.adapter_validation import opposed_members
from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.assets.routing import permitted, routes_of, tried_rules
from trace_assets.evaluation.arms import (
    BASE,
    COMPOSED,
    CONSOLIDATED,
    ROUTED,
    SINGLES,
    SUM,
    arm_of,
    compose_rows,
)
from trace_assets.evaluation.choice import choose, chosen_arm, clear, sentence
from trace_assets.evaluation.set_rules import at_scale, cross_fitted
from trace_assets.records import CompositionChoice, Evaluation
from trace_assets.report.asset_report.composition import choice_report
from trace_assets.routing.router import set_name
from trace_assets.study import Study


@asset(
    "composition_choice",
    group="evaluation",
    records=(CompositionChoice,),
    deps=[
        "routing",
        "adapter_validation",
        "interference",
        "joint_adapters",
        "consolidated",
        "config/evaluation",
        "config/routing",
        "config/targets",
    ],
    checks={"choice_is_clear": "What is released passes more validation tasks than the next best way."},
)
def write_choice(study: Study) -> StageResult:
    """Base, routed, composed, the sum of all, or one adapter for all: validation decides what is released."""
    rows, refused = candidates(study)
    section = study.settings.evaluation
    found = choose(rows, refused, resamples=section.resamples, seed=section.seed)
    asset_report = choice_report(found)
    best = next((row for row in found if row.chosen), None)
    figures: dict[str, Figure] = {"chosen": chosen_arm(found), "candidates": len(found)}
    if best is not None and best.pass_rate is not None:
        figures |= {"pass_rate": best.pass_rate, "n": best.n_tasks}
    return StageResult(
        study.store.write(found, CompositionChoice),
        len(found),
        figures,
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=(StageCheck("choice_is_clear", clear(found), sentence(found), "warning"),),
    )


def candidates(study: Study) -> tuple[list[Evaluation], dict[str, str]]:
    """Return the candidates' rows on validation tasks, and which may not be chosen.

    Nothing is played: the router's choices select among episodes that are there. Composed rows are
    cross-fitted, so that the rule's own choice does not flatter them.
    """
    played = [
        row
        for part in ("validation", CONSOLIDATED)
        for row in study.store.read(Evaluation, part)
        if row.split == "validation"
    ]
    may = permitted(study)
    choices = may.choices
    rows = [row for row in played if row.arm == BASE or row.arm in SINGLES]
    if not choices:
        return rows, {}
    tasks = list(study.target.tasks("validation"))
    routes = routes_of(study, tasks)
    rows += compose_rows(ROUTED, {route.task_id: route.choice for route in routes}, played)
    refused: dict[str, str] = {}
    if not study.settings.evaluation.compose or len(choices) < 2:
        return rows, refused
    whole = set_name(choices)
    scaled = at_scale(played, may.rule.scale)
    arms = {row.arm for row in scaled}
    served = [one for one in may.sets if not opposed_members(study, one) and arm_of(set_name(one)) in arms]
    if why := opposed_members(study, choices):
        refused[SUM] = why
        if not served:
            refused[COMPOSED] = why
    elif arm_of(whole) in arms:
        rows += compose_rows(SUM, dict.fromkeys((task.task_id for task in tasks), whole), scaled)
    if served:
        rows += cross_fitted(tried_rules(study, played, routes, choices, may.alone))
    return rows, refused


def chosen(study: Study) -> str:
    """Return which way validation chose; `routed` before it was asked."""
    return chosen_arm(study.store.read(CompositionChoice))

"""The assets `evaluation`, what every arm gained on unseen tasks, and `composition_choice` among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.adapter_validation import opposed_members, play_split, rank_bound, sums_of
from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.assets.rounds import agents_by_round
from trace_assets.assets.routing import Permitted, permitted, routes_of, tried_rules
from trace_assets.errors import CheckFailed, InputError, require_extra
from trace_assets.evaluation.arms import (
    BASE,
    COMPOSED,
    CONSOLIDATED,
    MERGED,
    ORACLE_COMPOSED,
    ROUND,
    ROUTED,
    SINGLES,
    SUM,
    Composed,
    arm_of,
    best_single_choice,
    compose_rows,
    oracle_choice,
)
from trace_assets.evaluation.choice import choose, chosen_arm, clear, sentence
from trace_assets.evaluation.non_inferiority import summarise
from trace_assets.evaluation.set_rules import at_scale, cross_fitted
from trace_assets.evaluation.test_set_log import Configuration, how_often, open_test_split, openings
from trace_assets.records import (
    ArmSummary,
    Capability,
    CompositionChoice,
    Evaluation,
    Route,
    RouterRegret,
)
from trace_assets.report.asset_report.composition import choice_report
from trace_assets.report.asset_report.training import evaluation_report
from trace_assets.resources.policy import base_checkpoint, base_folder, whole_adapter
from trace_assets.routing.router import set_name, sets_of, within
from trace_assets.routing.scores import regret
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.targets.protocol import provenance_of
from trace_assets.workflows.rounds import rounds_of


@asset(
    "evaluation",
    group="evaluation",
    records=(Evaluation, ArmSummary, RouterRegret),
    parts={Evaluation: "test"},
    deps=[
        "routing",
        "adapter",
        "curriculum",
        "mixed_adapter",
        "joint_adapters",
        "consolidated",
        "interference",
        "adapter_validation",
        "rounds",
        "base_model",
        "config/evaluation",
        "config/targets",
    ],
    checks={
        "test_split_opened_once": "One configuration alone was ever shown the test tasks.",
        "routed_better_than_base": "The interval of routed minus base lies above 0.",
        "sums_made": "Every set of adapters that a router may choose can act as its exact sum.",
    },
    kinds=("parquet", "pytorch"),
    pool="gpu",
)
def write_evaluation(study: Study) -> StageResult:
    """Every arm on the test split, with paired intervals against the base model."""
    _wait_for_last_round(study)
    section, target = study.settings.evaluation, study.target
    every = study.store.read(Route)
    routers = sorted({route.router for route in every})
    routes = [route for route in every if route.router == study.settings.routing.router]
    may = permitted(study)
    together = study.store.read(Evaluation, "validation")
    validation = [row for row in together if row.arm in {BASE, *map(arm_of, may.alone)}]
    oracle = oracle_choice(validation, target.tasks("test"))
    merged = _merge(study, may.choices)
    agents, cannot = _agents(study)
    composed, said = _compose(study, may, routes, together)
    lock = study.home.path / "test_split.json"
    open_test_split(
        lock,
        Configuration(
            target=target.version,
            base=base_checkpoint(study).base_id,
            adapters={adapter.name: adapter.adapter_id for adapter in read_adapters(study)}
            | {name: identity for name, (identity, _) in (merged | agents).items()}
            | {arm: text_version(json.dumps(sent, sort_keys=True)) for arm, sent in composed.arms.items()},
            routing=text_version(*(route.model_dump_json() for route in routes)),
        ),
    )
    rows, trajectories = play_split(
        study,
        "test",
        routes,
        oracle,
        {name: folder for name, (_, folder) in (merged | agents).items()},
        composed if composed.arms else None,
    )
    summary = summarise(rows, section)
    single = best_single_choice(validation)
    regrets = [
        row
        for router in routers
        for row in regret(
            rows,
            [route for route in every if route.router == router],
            oracle,
            single,
            resamples=section.resamples,
            seed=section.seed,
        )
    ]
    version = text_version(
        study.store.write(rows, Evaluation, "test"),
        study.store.write(summary, ArmSummary),
        study.store.write(regrets, RouterRegret),
    )
    overall = {row.arm: row for row in summary if row.skill == "all"}
    routed, opened = overall.get("routed"), openings(lock, target.version)
    figures = {f"pass_rate_{arm}": row.pass_rate for arm, row in overall.items() if row.pass_rate is not None}
    if routed is not None and routed.pass_rate is not None:
        figures["pass_rate"] = routed.pass_rate
    if routed is not None and routed.delta is not None:
        figures["delta"] = routed.delta
    asset_report = evaluation_report(summary, regrets, study.store.read(Capability))
    checks = [
        StageCheck("test_split_opened_once", len(opened) <= 1, how_often(opened), severity="warning"),
        StageCheck(
            "routed_better_than_base",
            routed is not None and routed.delta_low is not None and routed.delta_low > 0,
            "the routed arm was not evaluated."
            if routed is None or routed.delta is None or routed.delta_low is None or routed.delta_high is None
            else f"routed minus base is {100 * routed.delta:+.1f} points "
            f"[{100 * routed.delta_low:+.1f}, {100 * routed.delta_high:+.1f}] on {routed.n_tasks} tasks.",
            severity="warning",
        ),
        StageCheck(
            "sums_made",
            "Refused:" not in said and not cannot if composed.arms or agents or cannot else None,
            " ".join([said, *(f"Refused: {why}" for why in cannot)]),
            severity="warning",
        ),
    ]
    return StageResult(
        version,
        len(rows),
        {
            **figures,
            "n": max((row.n_tasks for row in overall.values()), default=0),
            "faults": sum(row.n_faults for row in overall.values()),
            **provenance_of(target),
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=tuple(checks),
        spent={("rollouts", "episodes"): float(len(trajectories))},
    )


def _merge(study: Study, choices: Sequence[str]) -> dict[str, tuple[str, Path]]:
    """Return arm -> id and folder of the adapters that a router may choose, merged as the settings ask."""
    section = study.settings.evaluation
    if not section.merges or len(choices) < 2:
        return {}
    require_extra("torch", "train", "merging adapters")
    from trace_assets.training.composition import merge_adapters

    chosen = {one.name: whole_adapter(study, one) for one in read_adapters(study) if one.name in choices}
    return {
        f"{MERGED}{way}": merge_adapters(
            base_folder(study),
            chosen,
            way,
            study.home.models / "merged",
            density=section.merge_density,
            seed=section.seed,
        )
        for way in section.merges
    }


def _compose(
    study: Study, may: Permitted, routes: Sequence[Route], validation: Sequence[Evaluation]
) -> tuple[Composed, str]:
    """Return the arms in which adapters act together, and what is to be said of them.

    The router's sets are those that validation judged and did not refuse, and that a server would hold.
    """
    choices = may.choices
    section = study.settings.evaluation
    if not section.compose:
        return Composed(), "evaluation.compose is off: no set of adapters was played."
    if len(choices) < 2:
        few = "one adapter" if choices else "no adapter"
        return Composed(), f"a router may choose {few} only, so there is nothing to add up."
    wanted = sets_of(routes, study.settings.routing.unneeded_cost, may.rule.cost)
    tasks = list(study.target.tasks("test"))
    every = {tuple(sorted(members)) for members in wanted.values() if len(members) > 1}
    folders, refused = sums_of(study, [*may.sets, tuple(choices)], rank_bound(study), may.rule.scale)
    whole = set_name(choices)
    served = {name for name in map(set_name, may.sets) if name in folders}
    usable = {BASE, *map(arm_of, [*may.alone, *served])}
    arms: dict[str, dict[str, str]] = {
        COMPOSED: {task_id: within(members, served, may.alone) for task_id, members in wanted.items()},
        ORACLE_COMPOSED: oracle_choice(
            [row for row in at_scale(validation, may.rule.scale) if row.arm in usable], tasks
        ),
    }
    if whole in folders:
        arms[SUM] = dict.fromkeys((task.task_id for task in tasks), whole)
    several = sum(len(members) > 1 for members in wanted.values())
    said = (
        f"the router calls for several adapters on {several} of {len(wanted)} test tasks, in "
        f"{len(every)} different sets; {len(folders)} sums could be made, {len(served)} may act (cost "
        f"{may.rule.cost:g}, scale {may.rule.scale:g})."
    )
    return Composed(folders, arms), " ".join([said, *(f"Refused: {why}" for why in refused)])


def _agents(study: Study) -> tuple[dict[str, tuple[str, Path]], list[str]]:
    """Return the arm of the agent after each round that was taken, with id and folder; and why not."""
    by_round = agents_by_round(study)
    if not by_round:
        return {}, []
    require_extra("torch", "train", "adding adapters up")
    from trace_assets.training.checkpoints import adapter_id
    from trace_assets.training.composition import compose_adapters

    found: dict[str, tuple[str, Path]] = {}
    refused = []
    for number, members in by_round.items():
        folder = next(iter(members.values()))
        try:
            if len(members) > 1:
                folder = compose_adapters(
                    base_folder(study),
                    members,
                    study.home.models / "sums",
                    largest_rank=rank_bound(study),
                )[1]
        except (InputError, CheckFailed) as error:
            refused.append(str(error))
            continue
        found[f"{ROUND}{number}"] = adapter_id(folder), folder
    return found, refused


def _wait_for_last_round(study: Study) -> None:
    """Keep the test tasks sealed while rounds are to come.

    Raises:
        InputError: This is a later round, or the study has rounds to play.
    """
    if study.round > 1:
        raise InputError(
            f"this is round {study.round} of a study: its agent is shown the test tasks from the study's own "
            "home, after the last round."
        )
    rounds = rounds_of(study)
    if study.settings.rounds.most > 1 and not (rounds and rounds[-1].last):
        raise InputError(
            f"rounds.most = {study.settings.rounds.most}, and {len(rounds)} of them are noted down: the test "
            "tasks stay sealed until the last round; run `trace sync` without --select, which plays them."
        )


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

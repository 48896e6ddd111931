"""The asset `routing`: which adapter a task is sent to, decided on its first words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.environment_audit import taught
from trace_assets.errors import InputError, require_extra
from trace_assets.evaluation.arms import choice_of, oracle_choice
from trace_assets.evaluation.non_inferiority import acceptance, excluded
from trace_assets.evaluation.set_effects import admitted
from trace_assets.evaluation.set_effects import sentence as effects_sentence
from trace_assets.evaluation.set_rules import Rule, Tried, at_scale, choose_rule, rule_rows, try_rules
from trace_assets.records import (
    NO_ADAPTER,
    Adapter,
    Capability,
    Evaluation,
    Label,
    NoHarm,
    Route,
    RouterScore,
    RoutingTrial,
    SetEffect,
    SetRule,
    Task,
    Triage,
)
from trace_assets.report.asset_report.composition import effects_report
from trace_assets.report.asset_report.training import routing_report
from trace_assets.report.data import shown_names
from trace_assets.resources.policy import base_folder, whole_router
from trace_assets.routing.router import (
    JOINING,
    WEIGHED,
    RoutingExample,
    candidate_sets,
    joined,
    members_of,
    one_alone,
    set_name,
)
from trace_assets.routing.scores import examples_of_trials, routing_trials, score
from trace_assets.store.content import text_version
from trace_assets.study import Study

if TYPE_CHECKING:
    from trace_assets.routing.classifier import ClassifierRouter


def usable_adapters(study: Study) -> list[str]:
    """Return the names of the adapters that a router may choose: accepted, and not excluded for harm."""
    barred = set(excluded(study.store.read(NoHarm)))
    return [name for name in accepted_adapters(study) if name not in barred]


class Permitted(NamedTuple):
    """What a router may choose.

    Attributes:
        alone: Adapters that may act alone.
        choices: These, and those that act in a sum only.
        sets: Sets of them that may act as their sum, as far as validation tries sets.
        rule: How tasks are sent to sums, and at which scale these act.
    """

    alone: list[str]
    choices: list[str]
    sets: list[tuple[str, ...]]
    rule: Rule


def permitted(study: Study) -> Permitted:
    """Return what a router may choose, alone and together, as validation judged it."""
    rows = study.store.read(SetEffect)
    alone = usable_adapters(study)
    summed = set(admitted(rows))
    if summed:
        summed &= set(accepted_adapters(study))
    choices = sorted({*alone, *summed})
    chosen = [Rule(row.cost, row.scale) for row in study.store.read(SetRule) if row.chosen]
    rule = chosen[0] if chosen else Rule(study.settings.routing.unneeded_cost)
    return Permitted(alone, choices, permitted_sets(rows, choices, alone), rule)


def permitted_sets(
    rows: Sequence[SetEffect], choices: Sequence[str], alone: Collection[str]
) -> list[tuple[str, ...]]:
    """Return the sets of choices that may act; one that was not judged may where each member may alone."""
    judged = {row.choice: row.served for row in rows}
    together = [members_of(choice) for choice, served in judged.items() if served and JOINING in choice]
    return [
        members
        for members in candidate_sets(choices)
        if judged.get(set_name(members), set(members) <= set(alone))
    ] + [members for members in together if set(members) <= {*choices, JOINING}]


def joined_sets(study: Study) -> list[tuple[str, ...]]:
    """Return the set that an adapter was trained on top of, with that adapter; none where none was."""
    if any(one.kind == JOINING for one in read_adapters(study)):
        return [joined(accepted_adapters(study))]
    return []


def accepted_adapters(study: Study) -> list[str]:
    """Return the names of the capability adapters that learned their environment."""
    return sorted(
        adapter.name
        for adapter in read_adapters(study)
        if adapter.kind == "capability" and acceptance(adapter).accepted
    )


def examples(study: Study, choices: Sequence[str]) -> list[RoutingExample]:
    """Return what routers are fitted on: the live target's discovery tasks and their labels."""
    return examples_of_trials(study.store.read(RoutingTrial), choices, study.settings.routing.unneeded_cost)


@asset(
    "routing_trials",
    group="routing",
    records=(RoutingTrial,),
    deps=["curriculum", "labels", "triage", "tasks", "config/targets"],
    light=True,
)
def write_trials(study: Study) -> StageResult:
    """A cut-off: what the live target's discovery trials lacked, which is all that routers are fitted on."""
    target = study.settings.targets.name
    tasks = [task for task in study.store.read(Task) if task.target == target]
    triage = [row for row in study.store.read(Triage) if row.target == target]
    rows = routing_trials(tasks, study.store.read(Label), triage, taught(study))
    version = study.store.write(rows, RoutingTrial)
    return StageResult(version, len(rows), {"n": len({row.task_id for row in rows})})


@asset(
    "routing",
    group="routing",
    records=(Route, RouterScore, SetEffect, SetRule),
    deps=[
        "adapter",
        "adapter_validation",
        "curriculum",
        "routing_trials",
        "base_model",
        "config/routing",
        "config/targets",
    ],
    checks={
        "label_logits_asked": "The base model's context could hold the question of the second router.",
        "sums_help": "No sum of adapters that the router calls for does harm on the tasks it is sent.",
    },
    kinds=("parquet", "pytorch"),
)
def write_routing(study: Study) -> StageResult:
    """The choice of adapter for every test task, by a classifier and by label logits, "none" included.

    Which adapters may act together is judged here too, on the validation tasks that the router sends to them.
    """
    require_extra("torch", "train", "routing")
    validation = [row for row in study.store.read(Evaluation) if row.split == "validation"]
    alone = usable_adapters(study)
    classifier, choices, effects, rules = _fit(study, validation, alone)
    classifier.save(study.home.models / "router")
    tasks = list(study.target.tasks("test"))
    asked, said = _ask_base_model(study, choices, tasks)
    routes = settled(study, [*classifier.route(tasks), *asked], alone)
    wanted = oracle_choice([row for row in validation if _usable(row.arm, alone)], tasks)
    fitted_on = examples(study, choices)
    called_for = {example.task_id: example.choice for example in fitted_on}
    by_router = {name: list(own) for name, own in groupby(routes, key=lambda route: route.router)}
    held_out = "discovery (held out)"
    scores = [
        score(classifier.held_out, called_for, held_out),
        *(score(own, wanted, "test") for own in by_router.values()),
    ]
    names = shown_names(study.store.read(Capability), study.store.read(Adapter))
    asset_report = routing_report(
        {
            f"classifier on {held_out}": (classifier.held_out, called_for),
            **{f"{name} on test tasks": (own, wanted) for name, own in by_router.items()},
        },
        scores,
        names,
    )
    together = effects_report(effects, rules, names)
    version = text_version(
        study.store.write(routes, Route),
        study.store.write(scores, RouterScore),
        study.store.write(effects, SetEffect),
        study.store.write(rules, SetRule),
    )
    figures = {
        f"accuracy_{one.router}_{one.split.split()[0]}": one.accuracy
        for one in scores
        if one.accuracy is not None
    }
    harms = [row for row in effects if row.verdict == "harms"]
    return StageResult(
        version,
        len(routes),
        {**figures, "choices": len(choices) + 1, "n": len(tasks)},
        pages={**asset_report.pages, **together.pages},
        tables={**asset_report.tables, **together.tables},
        checks=(
            StageCheck("label_logits_asked", True if asked else None, said, "warning"),
            StageCheck(
                "sums_help", not harms if effects else None, effects_sentence(effects, names), "warning"
            ),
        ),
    )


class Fitted(NamedTuple):
    """A router, and what is sent to sums by it.

    Attributes:
        classifier: The router that was fitted.
        choices: Adapters that it tells apart.
        effects: What each adapter adds to each sum, by the rule that was chosen.
        rules: The rules that were tried.
    """

    classifier: ClassifierRouter
    choices: list[str]
    effects: list[SetEffect]
    rules: list[SetRule]


def _fit(study: Study, validation: Sequence[Evaluation], alone: Sequence[str]) -> Fitted:
    """Fit the router, judge the sums that it would serve, and leave out what acts nowhere.

    The router is fitted first with every adapter that some sum was played of, since only it can say which
    tasks call for the sum. Where one of them turns out to act nowhere it is fitted once more, without it.
    """
    from trace_assets.routing.classifier import fit_classifier

    base, section = base_folder(study), study.settings.routing
    choices = _may_be_summed(study, validation, alone)
    tasks = list(study.target.tasks("validation"))
    seen: dict[tuple[str, str], SetEffect] = {}
    while True:
        classifier = fit_classifier(base, examples(study, choices), choices, section)
        if section.router == "classifier":
            routes = classifier.route(tasks)
        else:
            routes = _ask_base_model(study, choices, tasks)[0]
        tried = tried_rules(study, validation, routes, choices, alone)
        best = choose_rule(tried)
        seen |= {(row.choice, row.adapter): row for row in best.judged.rows}
        left = sorted({*alone, *admitted(best.judged.rows)})
        if left == choices:
            rules = rule_rows(tried, best, seed=section.seed) if best.judged.rows else []
            return Fitted(classifier, choices, [seen[key] for key in sorted(seen)], rules)
        choices = left


def _may_be_summed(study: Study, validation: Sequence[Evaluation], alone: Sequence[str]) -> list[str]:
    """Return the adapters that may act alone, and those that some sum was played of."""
    in_sums = {name for row in at_scale(validation, 1.0) for name in members_of(choice_of(row.arm) or "none")}
    return sorted({*alone, *(in_sums & set(accepted_adapters(study)))})


def tried_rules(
    study: Study,
    validation: Sequence[Evaluation],
    routes: Sequence[Route],
    choices: Sequence[str],
    alone: Sequence[str],
) -> list[Tried]:
    """Try the rules by which tasks may be sent to sums on validation tasks; that of the settings comes first.

    Args:
        study: The study.
        validation: Rows of all arms on validation tasks.
        routes: Of these tasks, by the router of the settings.
        choices: Adapters that it tells apart.
        alone: Those that may act alone.
    """
    section = study.settings.routing
    # A router is fitted at most once for each of those that may not act alone, and once more.
    times = 1 + len(set(_may_be_summed(study, validation, alone)) - set(alone))
    return try_rules(
        validation,
        routes,
        choices,
        alone,
        section.set_costs,
        section.unneeded_cost,
        times=times,
        seed=section.seed,
    )


def settled(study: Study, routes: Sequence[Route], alone: Sequence[str]) -> list[Route]:
    """Let each route's one choice be one that may act alone."""
    cost = study.settings.routing.unneeded_cost
    return [
        route.model_copy(
            update={
                "choice": one_alone(route.probabilities, alone, cost, weighed=route.router == WEIGHED),
            }
        )
        for route in routes
    ]


def _ask_base_model(study: Study, choices: list[str], tasks: list[Task]) -> tuple[list[Route], str]:
    """Ask the label-logit router; a model with too small a context is shown names alone, or nothing."""
    from trace_assets.routing.label_logits import LabelLogitRouter, option_lines

    named = {row.capability_id: row for row in study.store.read(Capability)}
    reason = ""
    for options, how in (
        (option_lines([named[name] for name in choices]), "one line a capability"),
        ({**{name: named[name].name for name in choices}, NO_ADAPTER: "none of these"}, "names alone"),
    ):
        try:
            return LabelLogitRouter(base_folder(study), options).route(
                tasks
            ), f"the base model was shown {how}."
        except InputError as error:
            reason = str(error)
    return [], reason


def _usable(arm: str, choices: list[str]) -> bool:
    return arm == "base" or arm.removeprefix("adapter:") in choices


def routes_of(study: Study, tasks: Sequence[Task]) -> list[Route]:
    """Return where the router of the settings sends tasks.

    Raises:
        InputError: No router was fitted yet.
    """
    may = permitted(study)
    if study.settings.routing.router == "label_logits":
        return settled(study, _ask_base_model(study, may.choices, list(tasks))[0], may.alone)
    require_extra("torch", "train", "routing")
    from trace_assets.routing.classifier import load_classifier

    routes = load_classifier(whole_router(study), base_folder(study)).route(list(tasks))
    return settled(study, routes, may.alone)

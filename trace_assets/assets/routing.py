"""The asset `routing`: which adapter a task is sent to, decided on its first words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.asset import asset
from trace_assets.assets.curriculum import taught
from trace_assets.assets.interference import opposed
from trace_assets.assets.result import StageCheck, StageResult
from trace_assets.errors import InputError, require_extra
from trace_assets.evaluation.arms import BASE as BASE_ARM
from trace_assets.evaluation.arms import COMPOSED, ROUTED, SINGLES, SUM, oracle_choice
from trace_assets.evaluation.choice import chosen_arm
from trace_assets.evaluation.non_inferiority import acceptance, excluded
from trace_assets.records import (
    NO_ADAPTER,
    Adapter,
    Capability,
    CompositionChoice,
    Evaluation,
    Label,
    NoHarm,
    Route,
    RouterScore,
    RoutingTrial,
    Task,
    Triage,
)
from trace_assets.report.asset_report.training import routing_exhibit
from trace_assets.report.data import shown_names
from trace_assets.resources.model_files import whole_adapter, whole_router
from trace_assets.resources.policy import base_folder
from trace_assets.routing.router import RoutingExample
from trace_assets.routing.scores import examples_of_trials, routing_trials, score
from trace_assets.routing.sets import candidate_sets, models_for, set_name
from trace_assets.serving.server import BASE, largest_rank, served_name
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.training.composition import composition_id, refusal

if TYPE_CHECKING:
    from trace_assets.serving.router.app import RouterName, ServedRouting


def usable_adapters(study: Study) -> list[str]:
    """Return the names of the adapters that a router may choose: accepted, and not excluded for harm."""
    barred = set(excluded(study.store.read(NoHarm)))
    return [name for name in accepted_adapters(study) if name not in barred]


def accepted_adapters(study: Study) -> list[str]:
    """Return the names of the capability adapters that learned their environment."""
    return sorted(
        adapter.name
        for adapter in read_adapters(study)
        if adapter.kind == "capability" and acceptance(adapter).accepted
    )


def examples(study: Study, choices: Sequence[str]) -> list[RoutingExample]:
    """Return what routers are fitted on: the live target's discovery tasks and their labels.

    Args:
        study: The study.
        choices: Adapters that a task may be sent to.
    """
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
    records=(Route, RouterScore),
    deps=[
        "adapter",
        "adapter_validation",
        "curriculum",
        "routing_trials",
        "base_model",
        "config/routing",
        "config/targets",
    ],
    checks={"label_logits_asked": "The base model's context could hold the question of the second router."},
    kinds=("parquet", "pytorch"),
)
def write_routing(study: Study) -> StageResult:
    """The choice of adapter for every test task, by a classifier and by label logits, "none" included."""
    require_extra("torch", "train", "routing")
    from trace_assets.routing.classifier import fit_classifier

    choices, base = usable_adapters(study), base_folder(study)
    fitted_on = examples(study, choices)
    classifier = fit_classifier(base, fitted_on, choices, study.settings.routing)
    classifier.save(study.home.models / "router")
    tasks = list(study.target.tasks("test"))
    asked, said = _ask_base_model(study, choices, tasks)
    routes = [*classifier.route(tasks), *asked]
    validation = [row for row in study.store.read(Evaluation) if row.split == "validation"]
    wanted = oracle_choice([row for row in validation if _usable(row.arm, choices)], tasks)
    called_for = {example.task_id: example.choice for example in fitted_on}
    by_router = {name: list(own) for name, own in groupby(routes, key=lambda route: route.router)}
    held_out = "discovery (held out)"
    scores = [
        score(classifier.held_out, called_for, held_out),
        *(score(own, wanted, "test") for own in by_router.values()),
    ]
    exhibit = routing_exhibit(
        {
            f"classifier on {held_out}": (classifier.held_out, called_for),
            **{f"{name} on test tasks": (own, wanted) for name, own in by_router.items()},
        },
        scores,
        shown_names(study.store.read(Capability), study.store.read(Adapter)),
    )
    version = text_version(study.store.write(routes, Route), study.store.write(scores, RouterScore))
    figures = {
        f"accuracy_{one.router}_{one.split.split()[0]}": one.accuracy
        for one in scores
        if one.accuracy is not None
    }
    return StageResult(
        version,
        len(routes),
        {**figures, "choices": len(choices) + 1, "n": len(tasks)},
        pages=exhibit.pages,
        tables=exhibit.tables,
        checks=(StageCheck("label_logits_asked", True if asked else None, said, "warning"),),
    )


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
    if study.settings.routing.router == "label_logits":
        return _ask_base_model(study, usable_adapters(study), list(tasks))[0]
    require_extra("torch", "train", "routing")
    from trace_assets.routing.classifier import load_classifier

    return load_classifier(whole_router(study), base_folder(study)).route(list(tasks))


def released_arm(study: Study) -> str:
    """Return which way of putting adapters together is served: what validation chose.

    `serving.compose` decides against it where it is set: false keeps sums away, true serves them.
    """
    asked, arm = study.settings.serving.compose, chosen_arm(study.store.read(CompositionChoice))
    if asked is True and arm in (ROUTED, BASE_ARM):
        return COMPOSED
    return ROUTED if asked is False and arm in (COMPOSED, SUM) else arm


def served_sums(study: Study) -> tuple[dict[str, str], list[str]]:
    """Return which sums of adapters this study's server holds beside the adapters themselves.

    Args:
        study: The study; where neither validation nor `serving.compose` is for it there are none.

    Returns:
        Choice, such as `cancel+window`, to the name it is served by, which follows from the members' content;
        and why others are not served.
    """
    served: dict[str, str] = {}
    refused: list[str] = []
    arm, choices = released_arm(study), usable_adapters(study)
    if arm not in (COMPOSED, SUM):
        return served, refused
    own = {row.name: row for row in read_adapters(study)}
    most = largest_rank(study.settings.serving.extra)
    apart = opposed(study)
    for members in candidate_sets(choices):
        if arm == SUM and len(members) < len(choices):
            continue
        why = " ".join(reason for pair, reason in apart.items() if pair <= set(members))
        if why or (why := refusal({name: whole_adapter(study, own[name]) for name in members}, most)):
            refused.append(why)
        else:
            identity = composition_id([own[name].adapter_id for name in members])
            served[set_name(members)] = served_name("sum", identity)
    return served, refused


def routing_of_study(study: Study, router: RouterName | None = None) -> ServedRouting:
    """Return what a router proxy in front of this study's server is told.

    Args:
        study: The study.
        router: Which router; None takes the one of the settings.
    """
    from trace_assets.routing.label_logits import option_lines
    from trace_assets.serving.router.app import ServedRouting

    choices = usable_adapters(study)
    named = {row.capability_id: row for row in study.store.read(Capability)}
    served = {row.name: served_name(row.name, row.adapter_id) for row in read_adapters(study)}
    singles = {name: served[name] for name in SINGLES if name in served}
    return ServedRouting(
        router=router or study.settings.routing.router,
        options=option_lines([named[name] for name in choices]),
        models=models_for(
            released_arm(study),
            {name: served[name] for name in choices},
            served_sums(study)[0],
            singles,
            BASE,
        ),
        fitted=whole_router(study),
        base=base_folder(study),
        unneeded_cost=study.settings.routing.unneeded_cost,
    )


def route_text(study: Study, text: str) -> Route:
    """Say where a task would be sent.

    Raises:
        InputError: No router was fitted yet.
    """
    require_extra("torch", "train", "routing")
    from trace_assets.routing.classifier import load_classifier

    folder = whole_router(study)
    if not folder.is_dir():
        raise InputError(
            "no router was fitted yet; run `trace sync --select routing` (or `trace demo`) first."
        )
    task = Task(task_id="text", target="", task_batch="", instruction=text)
    if not text.strip():
        raise InputError("the task text is empty; give the first user message.")
    return load_classifier(folder, base_folder(study)).route([task])[0]

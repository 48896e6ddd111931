"""The assets `adapter_validation` and `evaluation`: who harms what, and what was gained on unseen tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.asset import asset
from trace_assets.assets.interference import opposed
from trace_assets.assets.result import StageCheck, StageResult
from trace_assets.assets.rounds import agents_by_round
from trace_assets.assets.routing import Permitted, accepted_adapters, examples, joined_sets, permitted
from trace_assets.errors import CheckFailed, InputError, require_extra
from trace_assets.evaluation.arms import (
    BASE,
    COMPOSED,
    CONSOLIDATED,
    MERGED,
    ORACLE_COMPOSED,
    PROCESSES,
    ROUND,
    SINGLES,
    SUM,
    Composed,
    arm_of,
    best_single_choice,
    oracle_choice,
)
from trace_assets.evaluation.non_inferiority import excluded, no_harm, own_skills, summarise
from trace_assets.evaluation.set_rules import at_scale, scaled_name
from trace_assets.evaluation.test_set_log import Configuration, how_often, open_test_split, openings
from trace_assets.evaluation.variants import Limits, PolicyMaker
from trace_assets.records import (
    Adapter,
    ArmSummary,
    Capability,
    Evaluation,
    NoHarm,
    Route,
    RouterRegret,
    Split,
    Task,
    Trajectory,
)
from trace_assets.report.asset_report.training import evaluation_exhibit, harm_exhibit
from trace_assets.report.data import shown_names
from trace_assets.resources.model_files import whole_adapter
from trace_assets.resources.policy import base_checkpoint, base_folder, open_vllm
from trace_assets.routing.scores import regret
from trace_assets.routing.sets import JOINING, candidate_sets, members_of, set_name, sets_of, within
from trace_assets.serving.server import largest_rank
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.targets.protocol import provenance_of
from trace_assets.workflows.rounds import rounds_of


def _play(
    study: Study,
    split: Split,
    routes: list[Route] | None,
    oracle: dict[str, str] | None,
    merged: Mapping[str, Path] | None = None,
    composed: Composed | None = None,
) -> tuple[list[Evaluation], list[Trajectory]]:
    require_extra("torch", "train", "the evaluation")
    from trace_assets.evaluation.arms import evaluate

    adapters: dict[str, Path] = {
        adapter.name: whole_adapter(study, adapter)
        for adapter in read_adapters(study)
        if adapter.kind != JOINING and (split == "test" or adapter.kind not in ("mixed", CONSOLIDATED))
    } | dict(merged or {})
    asked = composed.asked() if composed else {}
    sums = {name: folder for name, folder in (composed.folders if composed else {}).items() if asked[name]}
    engine = _engine(study, {**adapters, **sums})
    rows, trajectories = evaluate(
        study.target,
        base_folder(study),
        adapters,
        routes,
        oracle,
        study.settings.evaluation,
        study.home.journals / "evaluation" / split,
        split=split,
        make_policy=engine,
        # vLLM's engine is one batch, and takes all cores or the accelerator.
        processes=1 if engine is not None else PROCESSES,
        limits=_limits(study),
        composed=composed,
    )
    return [row.model_copy(update={"split": split}) for row in rows], trajectories


def _limits(study: Study) -> Limits:
    section = study.settings.evaluation
    return Limits(section.max_turns, section.max_new_tokens, section.concurrency)


def _engine(study: Study, adapters: Mapping[str, Path]) -> PolicyMaker | None:
    """Return what makes vLLM's engine with all adapters, None for the transformers engine."""
    section, limits = study.settings.evaluation, _limits(study)
    if section.engine == "transformers":
        return None
    return lambda: open_vllm(
        study,
        section,
        adapters,
        max_new_tokens=limits.max_new_tokens,
        concurrency=limits.concurrency,
        seed=section.seed,
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


def sums_of(
    study: Study, sets: Iterable[Sequence[str]], most: int | None, scale: float = 1.0
) -> tuple[dict[str, Path], list[str]]:
    """Make the sums of sets of adapters; those that were made before are only looked up.

    Args:
        study: The study.
        sets: Names of two adapters or more, each.
        most: Largest rank of what serves them; None has no bound.
        scale: What their weight changes are multiplied by; 1 gives the exact sum.

    Returns:
        Choice, such as `cancel+window`, to PEFT folder; and why others are not there.

    Raises:
        InputError: A set holds an adapter that is not there any more, as the router was made before it went.
    """
    require_extra("torch", "train", "adding adapters up")
    from trace_assets.training.composition import compose_adapters, refusal

    own = {one.name: one for one in read_adapters(study)}
    made: dict[str, Path] = {}
    refused = []
    for members in sorted({tuple(sorted(set(names))) for names in sets}):
        if why := opposed_members(study, members):
            refused.append(why)
            continue
        if gone := [name for name in members if name not in own]:
            raise InputError(
                f"the router chooses the adapter '{gone[0]}', which is not there any more; run `trace sync "
                "--select routing_trials --select routing`, then go on."
            )
        folders = {name: whole_adapter(study, own[name]) for name in members}
        if why := refusal(folders, most):
            refused.append(why)
            continue
        try:
            made[set_name(members)] = compose_adapters(
                base_folder(study),
                folders,
                study.home.models / "sums",
                largest_rank=most,
                scale=own[JOINING].scale if JOINING in members else scale,
                on_top=(JOINING,),
            )[1]
        except (InputError, CheckFailed) as error:  # adapters that cannot be added: the other arms stay
            refused.append(str(error))
    return made, refused


def opposed_members(study: Study, members: Iterable[str]) -> str:
    """Return why adapters must not act together; empty where nothing speaks against it."""
    among = set(members)
    return " ".join(why for pair, why in sorted(opposed(study).items(), key=str) if pair <= among)


def allowed_sets(study: Study, choices: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sets that validation tries and no opposed gradients speak against."""
    sets = [*candidate_sets(choices), *joined_sets(study)]
    return [one for one in sets if not opposed_members(study, one)]


def _largest_rank(study: Study) -> int | None:
    """Return the largest rank that the engine of the evaluation takes; None where it has no bound."""
    vllm = study.settings.evaluation.engine == "vllm"
    return largest_rank(study.settings.serving.extra) if vllm else None


def _validate_sums(study: Study, choices: Sequence[str]) -> tuple[list[Evaluation], list[Trajectory]]:
    """Play each pair of adapters, and the sum of all, once on every validation task and at every scale."""
    section = study.settings.evaluation
    if not section.compose:
        return [], []
    folders = {
        scaled_name(choice, scale): folder
        for scale in (1.0, *section.sum_scales)
        for choice, folder in sums_of(study, allowed_sets(study, choices), _largest_rank(study), scale)[
            0
        ].items()
        if scale == 1.0 or JOINING not in members_of(choice)
    }
    if not folders:
        return [], []
    return play_apart(study, folders, "sums", trials=1)


def play_apart(
    study: Study, folders: Mapping[str, Path], journal: str, trials: int = 0
) -> tuple[list[Evaluation], list[Trajectory]]:
    """Play sums, or an adapter for all, on every validation task.

    Args:
        study: The study.
        folders: Choice, such as `cancel+window`, to PEFT folder.
        journal: Folder of the episodes among the evaluation's.
        trials: Episodes a task; 0 takes those of the settings.
    """
    from trace_assets.evaluation.arms import evaluate_sums

    engine, section = _engine(study, folders), study.settings.evaluation
    return evaluate_sums(
        study.target,
        base_folder(study),
        folders,
        section,
        study.home.journals / "evaluation" / journal,
        1 if engine is not None else PROCESSES,
        limits=_limits(study),
        make_policy=engine,
        trials=trials or section.trials,
    )


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
    folders, refused = sums_of(study, [*may.sets, tuple(choices)], _largest_rank(study), may.rule.scale)
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
                    largest_rank=_largest_rank(study),
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
    "adapter_validation",
    group="evaluation",
    records=(NoHarm, Evaluation),
    parts={Evaluation: "validation"},
    deps=[
        "adapter",
        "joint_adapters",
        "interference",
        "curriculum",
        "routing_trials",
        "base_model",
        "config/evaluation",
        "config/targets",
    ],
    checks={
        "no_harm": "No adapter makes other skills worse. One that does, and is not shown to help its own "
        "skills, never acts alone. Stops what follows when no adapter is left, and no sum of them."
    },
    blocking=["no_harm"],
    kinds=("parquet", "pytorch"),
    pool="gpu",
)
def validate_adapters(study: Study) -> StageResult:
    """Every adapter on the validation tasks: what it does to the skills it was not trained for."""
    rows, trajectories = _play(study, "validation", None, None)
    adapters = [adapter.name for adapter in read_adapters(study) if adapter.kind == "capability"]
    singles = [one.name for one in read_adapters(study) if one.name in SINGLES and one.name != CONSOLIDATED]
    discovery = [task for task in study.store.read(Task) if task.split == "discovery"]
    accepted = accepted_adapters(study)
    own = own_skills(examples(study, accepted), discovery)
    own |= {name: frozenset().union(*own.values()) for name in singles}
    harm = no_harm(rows, own, [*adapters, *singles], resamples=study.settings.evaluation.resamples)
    # Also of those that may not act alone: routing judges what they add to a sum.
    together, played = _validate_sums(study, accepted)
    rows, trajectories = [*rows, *together], [*trajectories, *played]
    version = text_version(study.store.write(rows, Evaluation, "validation"), study.store.write(harm, NoHarm))
    harmful, barred = [row for row in harm if row.verdict == "harmful"], excluded(harm)
    exhibit = harm_exhibit(
        harm,
        [row.adapter for row in harm if row.adapter in barred or row.adapter not in accepted],
        shown_names(study.store.read(Capability), study.store.read(Adapter)),
    )
    return StageResult(
        version,
        len(harm),
        {"adapters": len(adapters), "harmful": len(harmful), "excluded": len(barred), "n": len(rows)},
        pages=exhibit.pages,
        tables=exhibit.tables,
        checks=(_no_harm_check(harm, accepted, barred, [row.arm for row in together]),),
        spent={("rollouts", "episodes"): float(len(trajectories))},
    )


def _no_harm_check(
    harm: list[NoHarm], accepted: list[str], barred: list[str], sums: Sequence[str] = ()
) -> StageCheck:
    """Warn of harm; stop where no adapter is left, so that the test split is not opened for nothing.

    Args:
        harm: What each adapter does.
        accepted: Adapters that learned their environment.
        barred: Those that may not act alone.
        sums: Arms of the sums that were played; one of these may still be worth serving.
    """
    said = "; ".join(f"{row.adapter}: {row.reason}" for row in harm) or "no adapter was trained."
    if barred:
        said += f" No router may choose {', '.join(barred)} alone: not shown to help on its own tasks either."
    none_left = bool(accepted) and not set(accepted) - set(barred) and not sums
    if none_left:
        said += " No adapter is left, so nothing is routed and the test split stays closed."
    passed = not any(row.verdict == "harmful" for row in harm)
    return StageCheck("no_harm", passed, said, severity="error" if none_left else "warning")


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
    rows, trajectories = _play(
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
    exhibit = evaluation_exhibit(summary, regrets, study.store.read(Capability))
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
        pages=exhibit.pages,
        tables=exhibit.tables,
        checks=tuple(checks),
        spent={("rollouts", "episodes"): float(len(trajectories))},
    )

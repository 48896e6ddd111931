"""The asset `adapter_validation`: what each adapter does to the skills that it was not trained for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.joint_adapters import opposed
from trace_assets.assets.routing import accepted_adapters, examples, joined_sets
from trace_assets.errors import CheckFailed, InputError, require_extra
from trace_assets.evaluation.arms import CONSOLIDATED, PROCESSES, SINGLES, Composed
from trace_assets.evaluation.non_inferiority import excluded, no_harm, own_skills
from trace_assets.evaluation.set_rules import scaled_name
from trace_assets.evaluation.variants import Limits, PolicyMaker
from trace_assets.records import Adapter, Capability, Evaluation, NoHarm, Route, Split, Task, Trajectory
from trace_assets.report.asset_report.training import harm_report
from trace_assets.report.data import shown_names
from trace_assets.resources.policy import base_folder, open_evaluation_vllm, whole_adapter
from trace_assets.routing.router import JOINING, candidate_sets, members_of, set_name
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.system.vllm import largest_rank


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
    rows, trajectories = play_split(study, "validation", None, None)
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
    asset_report = harm_report(
        harm,
        [row.adapter for row in harm if row.adapter in barred or row.adapter not in accepted],
        shown_names(study.store.read(Capability), study.store.read(Adapter)),
    )
    return StageResult(
        version,
        len(harm),
        {"adapters": len(adapters), "harmful": len(harmful), "excluded": len(barred), "n": len(rows)},
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=(
            _no_harm_check(harm, accepted, barred, [row.arm for row in together], routed=study.round == 1),
        ),
        spent={("rollouts", "episodes"): float(len(trajectories))},
    )


def _no_harm_check(
    harm: list[NoHarm],
    accepted: list[str],
    barred: list[str],
    sums: Sequence[str] = (),
    *,
    routed: bool = True,
) -> StageCheck:
    """Warn of harm; stop where no adapter is left, so that the test split is not opened for nothing.

    Args:
        harm: What each adapter does.
        accepted: Adapters that learned their environment.
        barred: Those that may not act alone.
        sums: Arms of the sums that were played; one of these may still be worth serving.
        routed: Whether a router and the test split follow. A later round has neither: one that leaves nothing
            behind takes nothing, and the agent of the round before stands.
    """
    said = "; ".join(f"{row.adapter}: {row.reason}" for row in harm) or "no adapter was trained."
    if barred:
        said += f" No router may choose {', '.join(barred)} alone: not shown to help on its own tasks either."
    none_left = bool(accepted) and not set(accepted) - set(barred) and not sums
    if none_left and not routed:
        said += " No adapter is left, so this round takes none."
    elif none_left:
        said += " No adapter is left, so nothing is routed and the test split stays closed."
    passed = not any(row.verdict == "harmful" for row in harm)
    return StageCheck("no_harm", passed, said, severity="error" if none_left and routed else "warning")


def _validate_sums(study: Study, choices: Sequence[str]) -> tuple[list[Evaluation], list[Trajectory]]:
    """Play each pair of adapters, and the sum of all, once on every validation task and at every scale."""
    section = study.settings.evaluation
    if not section.compose:
        return [], []
    folders = {
        scaled_name(choice, scale): folder
        for scale in (1.0, *section.sum_scales)
        for choice, folder in sums_of(study, allowed_sets(study, choices), rank_bound(study), scale)[
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


def play_split(
    study: Study,
    split: Split,
    routes: list[Route] | None,
    oracle: dict[str, str] | None,
    merged: Mapping[str, Path] | None = None,
    composed: Composed | None = None,
) -> tuple[list[Evaluation], list[Trajectory]]:
    """Play every arm on the tasks of one split, with the engine of the settings.

    Args:
        study: The study.
        split: Whose tasks.
        routes: What a router chose, None before there is one.
        oracle: Task to the best choice in hindsight, None where it is not played.
        merged: Further adapters, each an arm.
        composed: Arms in which adapters act together.
    """
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
    if study.settings.evaluation.engine == "transformers":
        return None
    return lambda: open_evaluation_vllm(study, adapters)


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


def rank_bound(study: Study) -> int | None:
    """Return the largest rank that the engine of the evaluation takes; None where it has no bound."""
    vllm = study.settings.evaluation.engine == "vllm"
    return largest_rank(study.settings.serving.extra) if vllm else None

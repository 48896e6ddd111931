"""The assets `round_agent` and `rounds`: what each round came to, and all of them beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.asset import Figure, StageCheck, StageResult, TableRow, asset
from trace_assets.assets.routing import accepted_adapters
from trace_assets.assets.trajectories import pass_figures
from trace_assets.errors import require_extra
from trace_assets.evaluation.choice import FOR_ALL, AgentChoice, choose_agent
from trace_assets.records import (
    Capability,
    EnvironmentVerdict,
    Evaluation,
    LedgerEntry,
    Round,
    RoundAgent,
    SelectedCapability,
    TrajectoryHead,
)
from trace_assets.report.data import stage_costs
from trace_assets.report.formatting import percent, points
from trace_assets.resources.policy import base_checkpoint, base_folder, enter, whole_adapter
from trace_assets.stats.intervals import Estimate
from trace_assets.study import Study
from trace_assets.workflows.rounds import SEALED, played_rounds, rounds_of


@asset(
    "round_agent",
    group="evaluation",
    records=(RoundAgent,),
    deps=["adapter", "joint_adapters", "adapter_validation", "base_model"],
    checks={
        "agent_chosen": "Some sum of adapters, or the one for all, passes more validation tasks than the "
        "base model."
    },
    kinds=("pytorch", "huggingface"),
)
def write_round_agent(study: Study) -> StageResult:
    """What validation chooses, a sum of adapters or the one for all, merged: where a next round begins."""
    require_extra("torch", "train", "the agent of a round")
    from trace_assets.training.composition import merge_agent

    base = base_checkpoint(study)
    own = {one.name: one for one in read_adapters(study) if one.kind in ("capability", *FOR_ALL)}
    usable = [*accepted_adapters(study), *(name for name in FOR_ALL if name in own)]
    choice = choose_agent(study.store.read(Evaluation, "validation"), usable)
    identity, path = "", ""
    if choice.members:
        folders = {name: whole_adapter(study, own[name]) for name in choice.members}
        models = study.home.models
        identity, folder = merge_agent(
            base_folder(study), base.base_id, folders, models / "agents", models / "sums"
        )
        enter(study, folder)
        path = study.home.relative(folder)
    row = RoundAgent(
        base_id=base.base_id,
        agent_id=identity,
        members=choice.members,
        adapter_ids=tuple(own[name].adapter_id for name in choice.members),
        path=path,
        **_figures(choice),
        n_candidates=choice.n_candidates,
        harmful=choice.harmful,
        training_rollouts=sum(one.rollouts for one in own.values()),
        warm_started=tuple(sorted(name for name, one in own.items() if one.demonstrations)),
        detail="; ".join([choice.detail, *_untaught(study)]),
    )
    version = study.store.write([row], RoundAgent)
    shown: dict[str, Figure] = {"members": len(row.members), "n": row.n_tasks}
    if row.pass_rate is not None and row.delta is not None:
        shown |= {"pass_rate": row.pass_rate, "delta": row.delta}
    check = StageCheck("agent_chosen", bool(row.members), f"{row.detail}.", "warning")
    return StageResult(version, 1, shown, checks=(check,))


def _untaught(study: Study) -> list[str]:
    """Return which capabilities were kept and have no environment that is trained on, and why."""
    kept = {one.capability_id: one.name for one in study.store.read(SelectedCapability) if one.kept}
    return [
        f"{kept[one.capability_id]} is not taught: {', '.join(one.reasons)}"
        for one in study.store.read(EnvironmentVerdict)
        if one.capability_id in kept and not one.trained_on
    ]


def _figures(choice: AgentChoice) -> dict[str, float | int | None]:
    one, none = choice.compared, Estimate(None, None, None)
    arm, base, delta = (one.arm, one.base, one.delta) if one else (none, none, none)
    return {
        "n_tasks": one.n_tasks if one else 0,
        "pass_rate": arm.value,
        "pass_rate_low": arm.low,
        "pass_rate_high": arm.high,
        "base_rate": base.value,
        "delta": delta.value,
        "delta_low": delta.low,
        "delta_high": delta.high,
    }


@asset(
    "rounds",
    group="evaluation",
    records=(Round,),
    deps=["round_agent", "config/rounds"],
    checks={"rounds_ended": "The last round that was played is the last that there is to play."},
)
def write_rounds(study: Study) -> StageResult:
    """Each round's base model, what was found and taught in it, and by how much validation rose.

    Later rounds lie in homes of their own; what they came to is read from there.
    """
    rows = rounds_now(study)
    version = study.store.write(rows, Round)
    taken = [row for row in rows if row.taken]
    figures: dict[str, Figure] = {"rounds": len(rows), "taken": len(taken)}
    figures |= {"training_rollouts": sum(row.training_rollouts for row in rows)}
    said = "; ".join(f"round {row.round}: {row.detail}" for row in rows) or "no rounds were asked for"
    return StageResult(
        version,
        len(rows),
        figures,
        tables={"rounds": [_shown(row) for row in rows]} if rows else {},
        checks=(StageCheck("rounds_ended", rows[-1].last if rows else None, f"{said}.", "warning"),),
    )


def rounds_now(study: Study) -> list[Round]:
    """Return the rounds as the homes of all of them say now; none where the study plays none."""
    if study.settings.rounds.most < 2:
        return []
    return [_row(study, *one) for one in played_rounds(study)]


def _row(study: Study, now: Study, agent: RoundAgent, why: str) -> Round:
    played = [one for one in now.store.read(TrajectoryHead) if one.task_batch == now.live_batch]
    known = pass_figures(played)
    names = {one.capability_id: one.name for one in now.store.read(Capability)}
    kept = [one for one in now.store.read(SelectedCapability) if one.kept and not one.overridden_by]
    adapters = {one.name: one for one in read_adapters(now)}
    taught = [name for name, one in adapters.items() if one.kind == "capability"]
    taken = bool(agent.members) and (agent.delta or 0.0) >= study.settings.rounds.min_gain
    # What is made of all rounds is booked in the first one's home, and later: it is no cost of that round.
    own = [one for one in now.store.read(LedgerEntry) if one.asset not in SEALED]
    spent = stage_costs(own).values()

    def booked(kind: str) -> float:
        return sum(stage.get(kind, 0.0) for stage in spent)

    def rate(name: str) -> float | None:
        value = known.get(name)
        return float(value) if isinstance(value, float | int) else None

    return Round(
        round=now.round,
        place=study.home.relative(now.home.path) if now.round > 1 else "",
        base_id=agent.base_id,
        n=int(rate("n") or 0),
        pass_rate=rate("pass_rate"),
        pass_rate_low=rate("pass_rate_low"),
        pass_rate_high=rate("pass_rate_high"),
        found=tuple(names.get(one.capability_id, one.capability_id) for one in kept),
        taught=tuple(names.get(name, name) for name in taught),
        warm_started=tuple(names.get(name, name) for name in agent.warm_started),
        agent_id=agent.agent_id,
        members=agent.members,
        adapter_ids=agent.adapter_ids,
        paths=tuple(study.home.relative(now.home.path / adapters[name].path) for name in agent.members),
        n_tasks=agent.n_tasks,
        base_rate=agent.base_rate,
        agent_rate=agent.pass_rate,
        delta=agent.delta,
        delta_low=agent.delta_low,
        delta_high=agent.delta_high,
        taken=taken,
        last=bool(why),
        detail=f"{agent.detail}; {'the last: ' + why if why else 'another follows'}",
        training_rollouts=agent.training_rollouts,
        rollouts=round(booked("rollouts")),
        cpu_seconds=booked("cpu"),
    )


def _shown(row: Round) -> TableRow:
    return {
        "round": row.round,
        "its base model passes": percent(row.pass_rate, row.pass_rate_low, row.pass_rate_high),
        "n": row.n,
        "found": "; ".join(row.found),
        "gain on validation, points": points(row.delta, row.delta_low, row.delta_high),
        "tasks": row.n_tasks,
        "taken": "yes" if row.taken else "no",
        "training rollouts": row.training_rollouts,
        "why": row.detail,
    }


def agents_by_round(study: Study) -> dict[int, dict[str, Path]]:
    """Return for each round that was taken the adapters whose sum is the agent after it.

    Adapters are added to the base model of the first round: what a round merged into the next one's base is
    added once more beside the next one's own, and the sum is the same.

    Raises:
        InputError: A folder is gone, or is not what was recorded.
    """
    found: dict[int, dict[str, Path]] = {}
    so_far: dict[str, Path] = {}
    whole: Mapping[int, Study] = {now.round: now for now, _, _ in played_rounds(study)}
    for row in rounds_of(study):
        if not row.taken or row.round not in whole:
            break
        own = {one.name: one for one in read_adapters(whole[row.round])}
        so_far |= {f"{row.round}:{name}": whole_adapter(whole[row.round], own[name]) for name in row.members}
        found[row.round] = dict(so_far)
    return found

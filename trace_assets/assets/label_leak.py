"""The asset `label_leak`: whether blind transcripts still tell the outcome."""

from __future__ import annotations

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.diagnosis.leak import measure_leak
from trace_assets.records import LabelLeak, Triage
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import Row
from trace_assets.report.plots import Dot, interval_dots, svg_markdown
from trace_assets.resources.analysts import by_target
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study

_SAYS = {
    "opening": "what the user opens with: how hard the task is",
    "replies": "what the user says later",
    "closing": "what follows the agent's last message",
    "results": "what tools answered",
    "shape": "counts and lengths",
    "withheld": "what was withheld from labellers",
}


@asset(
    "label_leak",
    group="diagnosis",
    records=(LabelLeak,),
    deps=["trajectories", "triage"],
    checks={
        "labels_blind": "The outcome cannot be told from what labellers see beside the agent's own behaviour."
    },
)
def write_leak(study: Study) -> StageResult:
    """The leak meter: how well a small classifier tells the outcome from what labellers are shown."""
    triage = study.store.read(Triage)
    rows: list[LabelLeak] = []
    for target, group in by_target(read_trajectories(study.store)).items():
        rows += measure_leak(group, [row for row in triage if row.target == target])
    version = study.store.write(rows, LabelLeak)
    judged = [row for row in rows if row.judged and row.auc is not None]
    worst = max((row.auc for row in judged if row.auc is not None), default=None)
    return StageResult(
        version,
        len(rows),
        {"n": len(triage), "channels_that_leak": sum(row.leaks for row in judged)}
        | ({"worst_auc": worst} if worst is not None else {}),
        pages={f"leak meter of {target}": _page(rows, target) for target in sorted({r.target for r in rows})},
        tables={"channels": [_row(row) for row in rows]},
        checks=(_check(rows),),
    )


def _check(rows: list[LabelLeak]) -> StageCheck:
    judged = [row for row in rows if row.judged and row.auc is not None]
    if not rows:
        return StageCheck("labels_blind", None, "there are no judged trajectories", "warning")
    leaks = [row for row in judged if row.leaks]
    shown = "; ".join(f"{row.target}, {_SAYS[row.channel]}: AUC {_auc(row)}" for row in leaks or judged)
    if not judged:
        shown = "labellers see nothing beside the agent's behaviour and what tools answered"
    said = "the outcome can be told from" if leaks else "the outcome cannot be told:"
    return StageCheck("labels_blind", not leaks, f"{said} {shown}.", "warning")


def _auc(row: LabelLeak) -> str:
    pairs = f"{row.n_pairs} pairs of trials of one task" if row.within_task else f"{row.n_pairs} pairs"
    return f"{formatting.share(row.auc, row.auc_low, row.auc_high)} (n = {pairs})"


def _row(row: LabelLeak) -> Row:
    return {
        "target": row.target,
        "channel": row.channel,
        "AUC": formatting.share(row.auc, row.auc_low, row.auc_high),
        "pairs": row.n_pairs,
        "within a task": row.within_task,
        "failures": row.n_failed,
        "successes": row.n_passed,
        "judged": row.judged,
    }


def _page(rows: list[LabelLeak], target: str) -> str:
    dots = [
        Dot(
            label=_SAYS[row.channel],
            value=row.auc,
            low=row.auc if row.auc_low is None else row.auc_low,
            high=row.auc if row.auc_high is None else row.auc_high,
            text=formatting.share(row.auc, row.auc_low, row.auc_high),
            note=f"n = {row.n_pairs} pairs",
            tone="strong" if row.judged else "",
        )
        for row in rows
        if row.target == target and row.auc is not None
    ]
    about = (
        "How well a small classifier tells success from failure, out of fold, by what labellers see beside "
        "the agent's own behaviour: 50 % tells nothing. Strong: should tell nothing. Tool answers and "
        "lengths follow what the agent did and may tell honestly."
    )
    if not dots:
        return f"{about}\n\nNothing varies in any channel."
    plot = interval_dots(dots, title=f"leak meter of {target}", reference=0.5)
    own = [row for row in rows if row.target == target]
    n = f"n = {own[0].n_failed} failures and {own[0].n_passed} successes of {own[0].n_tasks} tasks."
    return f"{svg_markdown(plot, 'area under the ROC curve')}\n\n{about} {n}"

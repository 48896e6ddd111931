"""The asset `pilot`: whether a capability's environment is worth its full run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trace_assets.assets.asset import StageCheck, StageResult, TableRow, asset
from trace_assets.assets.environment_audit import read_verdict
from trace_assets.diagnosis.detectors import FAMILIES, Detector, Transcript
from trace_assets.diagnosis.detectors.protocol import label_with
from trace_assets.environments.learnability import decide, stalls
from trace_assets.records import CapabilitySpec, Pilot, PilotPoint, Trajectory
from trace_assets.resources.contract import training_obstacle
from trace_assets.resources.policy import base_checkpoint, base_folder
from trace_assets.resources.sandbox import read_environment, seeds_fingerprint, training_target
from trace_assets.stats.intervals import Estimate
from trace_assets.stats.paired import Gain, correlation, gain
from trace_assets.store.content import text_version
from trace_assets.store.files import write_text
from trace_assets.study import Study
from trace_assets.targets.protocol import Advising

if TYPE_CHECKING:
    from trace_assets.training.hint_gate import Gate, Hinted, Words
    from trace_assets.training.pilot import Piloted


_KEYS = ("pilot_share", "pilot_steps", "pilot_rate", "pilot_tasks", "pilot_search")
"""Settings that decide what is measured; the others decide what is made of it."""


@asset(
    "pilot",
    group="training",
    records=(Pilot, PilotPoint),
    deps=[
        "capability_spec",
        "environment",
        "environment_verdict",
        "base_model",
        "config/training",
        "config/targets",
    ],
    partitions="capability",
    checks={"pilot_transfers": "In a small training the target's pass rate rises with the reward."},
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def write_pilot(study: Study, capability_id: str) -> StageResult:
    """A small share of the training run, made beforehand to see whether the target gains with the reward.

    A cut-off: only its decision enters the version, so other figures train nothing anew.
    """
    why_not, goes_on = _left_out(study, capability_id)
    if why_not:
        row = Pilot(
            capability_id=capability_id,
            environment_id="",
            outcome="not made",
            goes_on=goes_on,
            reason=why_not,
        )
        study.store.write([], PilotPoint, capability_id)
        check = StageCheck("pilot_transfers", None, f"{why_not}.")
        return StageResult(study.store.write([row], Pilot, capability_id), 1, checks=(check,))
    measured, made = _measured(study, capability_id)
    rose = gain(measured.rewards[-1] - measured.rewards[0])
    followed = gain(measured.target[-1] - measured.target[0]) if measured.target.shape[1] else None
    section = study.settings.training
    gate, hinted, played = _gate(study, capability_id)
    decision = decide(rose, followed, section.pilot_min_transfer, needed=measured.tasks_are == "needed")
    together = (
        correlation(measured.rewards, measured.target) if followed is not None else Estimate(None, None, None)
    )
    # Two negatives stop it: neither words nor a little training move the target.
    both = gate is not None and gate.verdict == "neither"
    goes_on = decision.outcome != "stopped" or (section.pilot == "warn" and not both)
    row = _row(study, capability_id, measured, rose, followed, together)
    row = row.model_copy(
        update={
            "outcome": decision.outcome,
            "goes_on": goes_on,
            "reason": decision.reason,
            "stalls": stalls(rose, followed),
        }
    )
    row = row.model_copy(update=_hint_figures(gate, hinted))
    points = _points(capability_id, measured)
    study.store.write(points, PilotPoint, capability_id)
    version = study.store.write([row], Pilot, capability_id)
    word = {"transfers": "the full run follows", "undecided": "undecided, the full run follows"}.get(
        decision.outcome, "the full run is not made" if not goes_on else "the full run follows all the same"
    )
    figures = {
        "outcome": decision.outcome,
        "n": row.n_tasks,
        "reward_gain": row.reward_gain,
        "target_gain": row.target_gain,
        "correlation": row.correlation,
        "budget_share": row.budget_share,
        "isolation_level": row.isolation_level or None,
        "hint": row.hint_verdict or None,
    }
    return StageResult(
        version,
        1,
        {name: value for name, value in figures.items() if value is not None},
        tables={"checkpoints": _table(points)},
        checks=(
            StageCheck(
                "pilot_transfers",
                decision.outcome == "transfers",
                f"{word}: {decision.reason}; {_said(together, len(points))}."
                + (f" In words: {row.hint_verdict}; {row.hint_reason}." if row.hint_verdict else ""),
                "warning",
            ),
        ),
        spent={
            ("rollouts", "episodes"): float(
                (row.rollouts if made else 0) + (row.hint_rollouts if played else 0)
            )
        },
    )


def read_pilot(study: Study, capability_id: str) -> Pilot | None:
    """Return what the pilot of one capability came to; None when there is none."""
    rows = study.store.read(Pilot, capability_id)
    return rows[0] if rows else None


def would_measure(study: Study, capability_id: str) -> bool:
    """Whether a pilot would train and play now: one is made, and none of this kind was made before."""
    return not _left_out(study, capability_id)[0] and _read(_file(study, capability_id)[0]) is None


def _left_out(study: Study, capability_id: str) -> tuple[str, bool]:
    """Return why no pilot is made (empty when one is), and whether the run follows without."""
    verdict = read_verdict(study, capability_id)
    if not verdict.trained_on:
        return f"its environment was rejected ({'; '.join(verdict.reasons)})", False
    if study.settings.training.pilot == "off":
        return "training.pilot is off", True
    environment = read_environment(study, capability_id)
    if obstacle := training_obstacle(study, environment.target):
        return obstacle, True
    if environment.target != study.settings.targets.name:
        return f"'{environment.target}' is no live target here, so nothing can be compared with", True
    return "", True


def _measured(study: Study, capability_id: str) -> tuple[Piloted, bool]:
    """Return what the pilot measured, from its file or by making it, and whether it was made."""
    from trace_assets.training.pilot import run_pilot

    section, environment = study.settings.training, read_environment(study, capability_id)
    file, needs = _file(study, capability_id)
    kept = _read(file)
    if kept is not None:
        return kept, False
    with training_target(study, environment) as target:
        piloted = run_pilot(
            name=capability_id,
            target=target,
            live=study.target,
            needs=needs,
            base_dir=base_folder(study),
            section=section,
            folder=file.with_name(f".{file.stem}.partial"),
        )
    _write(file, piloted)
    return piloted, True


def _file(study: Study, capability_id: str) -> tuple[Path, Callable[[Trajectory], bool] | None]:
    """Return where a pilot's figures lie or would lie, and what tells which tasks need the capability."""
    section = study.settings.training
    needs, rule = _needs(study, capability_id)
    environment_id = read_environment(study, capability_id).environment_id
    key = text_version(
        environment_id,
        base_checkpoint(study).base_id,
        study.target.version,
        rule,
        section.unaided().recipe_version(),
        json.dumps({name: getattr(section, name) for name in _KEYS}),
        seeds_fingerprint(study, environment_id),
    )
    return study.home.models / "pilots" / f"{capability_id}-{key}.json", needs


def _gate(study: Study, capability_id: str) -> tuple[Gate | None, Hinted | None, bool]:
    """Return what words come to, where that is asked: verdict, figures, and whether they were played now."""
    from trace_assets.training.hint_gate import Gate, Hinted, judge, run_hint_gate

    section = study.settings.training
    if not section.pilot_hint:
        return None, None, False
    spec = study.store.read(CapabilitySpec, capability_id)[0]
    detector = next((one for one in FAMILIES if one.name == spec.detector), None)
    words = _words(study, spec)
    if detector is None:
        return Gate("undecided", "no detector tells which runs lack it"), None, False
    if isinstance(words, str):
        return Gate("undecided", words), None, False
    key = text_version(
        base_checkpoint(study).base_id,
        study.target.version,
        json.dumps([spec.detector, spec.detector_args, vars(words)], sort_keys=True),
        json.dumps([section.seed, section.temperature, section.max_turns, section.max_new_tokens]),
        json.dumps([section.pilot_tasks, section.pilot_search]),
    )
    file = study.home.models / "pilots" / f"{capability_id}-hint-{key}.json"
    if file.is_file():
        found = Hinted.read(file.read_text(encoding="utf-8"))
        return judge(found), found, False
    found = run_hint_gate(
        live=study.target,
        label=lambda episode: label_with(detector, Transcript(episode.blind()), spec.detector_args).label,
        words=words,
        base_dir=base_folder(study),
        section=section,
        folder=file.with_name(f".{file.stem}.partial"),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, found.text())
    return judge(found), found, True


def _words(study: Study, spec: CapabilitySpec) -> Words | str:
    """Return what the base model is told, or why nothing is."""
    from trace_assets.policies.protocol import reads_system
    from trace_assets.training.hint_gate import Words, policy_sentence

    target = study.target
    if isinstance(target, Advising):
        hint, other = target.advice(spec)
        return Words(hint, other, "user") if hint else "its agent was shown no advice on this"
    if not reads_system(base_folder(study)):
        return "the base model's chat template leaves system messages out, so it would not read the words"
    about = [one for one in re.findall(r"\w+", f"{spec.name} {spec.description}".lower()) if len(one) > 3]
    return Words(spec.description, policy_sentence(target.policy, spec.description, about), "system")


def _hint_figures(gate: Gate | None, hinted: Hinted | None) -> dict[str, Any]:
    if gate is None:
        return {}
    figures: dict[str, Any] = {"hint_verdict": gate.verdict, "hint_reason": gate.reason}
    if hinted is not None:
        figures |= {"n_hint_tasks": len(hinted.hint), "hint_rollouts": hinted.rollouts}
    if gate.rescue is not None:
        rescue = gate.rescue
        figures |= {"hint_gain": rescue.value, "hint_gain_low": rescue.low, "hint_gain_high": rescue.high}
        figures |= {"hint_p": rescue.p}
    if gate.control is not None:
        control = gate.control
        figures |= {"hint_control": control.value, "hint_control_low": control.low}
        figures |= {"hint_control_high": control.high, "n_hint_control": control.n}
    return figures


def _needs(study: Study, capability_id: str) -> tuple[Callable[[Trajectory], bool] | None, str]:
    """Return what tells whether an episode's task needs a capability, and its text for the key.

    It is the detector that found the capability, and it sees no outcome. One that a language model found has
    none: then nothing tells, and all kinds of tasks are taken.
    """
    spec = study.store.read(CapabilitySpec, capability_id)[0]
    detector = next((one for one in FAMILIES if one.name == spec.detector), None)
    if detector is None:
        return None, ""
    rule = json.dumps([spec.detector, spec.detector_args], sort_keys=True)
    return partial(_is_relevant, detector, spec), rule


def _is_relevant(detector: Detector, spec: CapabilitySpec, episode: Trajectory) -> bool:
    return label_with(detector, Transcript(episode.blind()), spec.detector_args).label != "NA"


def _row(
    study: Study,
    capability_id: str,
    measured: Piloted,
    rose: Gain,
    followed: Gain | None,
    together: Estimate,
) -> Pilot:
    section = study.settings.training
    whole = section.iterations * section.tasks_per_iteration * section.group_size
    target: dict[str, Any] = (
        {}
        if followed is None
        else {
            "target_gain": followed.value,
            "target_gain_low": followed.low,
            "target_gain_high": followed.high,
            "target_p": followed.p,
            "n_tasks": followed.n,
        }
    )
    return Pilot(
        capability_id=capability_id,
        environment_id=read_environment(study, capability_id).environment_id,
        outcome="undecided",
        goes_on=True,
        reason="",
        rollouts=measured.rollouts[-1],
        budget_share=measured.rollouts[-1] / whole,
        n_checkpoints=len(measured.rollouts),
        correlation=together.value,
        correlation_low=together.low,
        correlation_high=together.high,
        reward_gain=rose.value,
        reward_gain_low=rose.low,
        reward_gain_high=rose.high,
        n_seeds=rose.n,
        tasks_are=measured.tasks_are,
        seconds=measured.seconds,
        isolation_level=measured.isolation_level,
        sandbox_version=measured.sandbox_version,
        **target,
    )


def _points(capability_id: str, measured: Piloted) -> list[PilotPoint]:
    n_tasks = measured.target.shape[1]
    return [
        PilotPoint(
            capability_id=capability_id,
            checkpoint=number,
            rollouts=rollouts,
            reward=float(measured.rewards[number].mean()),
            success_rate=float(measured.successes[number].mean()),
            n_seeds=measured.rewards.shape[1],
            target_rate=float(measured.target[number].mean()) if n_tasks else None,
            n_tasks=n_tasks,
            n_episodes=n_tasks * measured.trials,
        )
        for number, rollouts in enumerate(measured.rollouts)
    ]


def _table(points: list[PilotPoint]) -> list[TableRow]:
    return [
        {
            "optimizer steps": point.checkpoint,
            "training rollouts": point.rollouts,
            "reward in the environment": f"{point.reward:.3f} (n = {point.n_seeds} seeds)",
            "success there": f"{point.success_rate:.3f}",
            "pass rate on the target": "none needs it"
            if point.target_rate is None
            else f"{point.target_rate:.3f} (n = {point.n_tasks} tasks, {point.n_episodes} episodes)",
        }
        for point in points
    ]


def _said(together: Estimate, n: int) -> str:
    if together.value is None:
        return f"no correlation can be given over {n} checkpoints"
    if together.low is None or together.high is None:
        return f"correlation {together.value:.2f} over {n} checkpoints"
    return f"correlation {together.value:.2f} [{together.low:.2f}, {together.high:.2f}] over {n} checkpoints"


_ARRAYS = ("rewards", "successes", "target")


def _write(file: Path, measured: Piloted) -> None:
    values = {**vars(measured), **{name: getattr(measured, name).tolist() for name in _ARRAYS}}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(values))


def _read(file: Path) -> Piloted | None:
    from trace_assets.training.pilot import Piloted

    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        n = len(values["rollouts"])
        arrays = {name: np.array(values[name], dtype=np.float64).reshape(n, -1) for name in _ARRAYS}
        return Piloted(**{**values, **arrays, "rollouts": tuple(values["rollouts"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None

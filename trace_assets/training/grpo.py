"""Train one LoRA adapter with GRPO on the episodes of a target environment."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

from trace_assets.errors import InputError, Unavailable, require_extra
from trace_assets.records import Adapter, AdapterKind, TrainingPoint
from trace_assets.settings import Training
from trace_assets.store.files import replace_folder
from trace_assets.store.unfinished import SAMPLER
from trace_assets.system.progress import Bar, progress
from trace_assets.targets.protocol import Solving, Target
from trace_assets.training.checkpoints import (
    RunDirectory,
    adapter_id,
    lora_tensors,
    read_curve,
    write_adapter,
)
from trace_assets.training.demonstrations import NOTHING, Rehearsed, demonstrating, rehearsal_rows
from trace_assets.training.distributed import join_process_group
from trace_assets.training.episodes import Player, Row
from trace_assets.training.joint import Teacher
from trace_assets.training.plan import Job, make_plan
from trace_assets.training.sampler import open_sampler
from trace_assets.training.validation import split_held_out
from trace_assets.training.warm_start import (
    PROCEDURE,
    WarmStart,
    find_demonstrations,
    shortened,
    stored_warm_start,
)

CURVE = "training_curve.jsonl"
"""The learning curve beside the weights."""
RECORD = "training.json"
"""What the weights were trained by, and how they did: a finished run is not made again."""


def train_adapter(
    name: str,
    kind: AdapterKind,
    target: Target,
    job: Job,
    *,
    capability_id: str | None = None,
    rejected: str = "",
    start: Path | None = None,
    warm_start: bool = False,
    rehearsed: Rehearsed = NOTHING,
    teacher: Teacher | None = None,
) -> tuple[Adapter, list[TrainingPoint]]:
    """Train an adapter on a target's discovery tasks and keep its best checkpoint on the validation tasks.

    TRL's GRPO (Shao et al. 2024, arXiv 2402.03300) with the advantage (r - mean) / (std + 1e-4) of each
    group, on the ids that the sampler saw and on the policy's own tokens alone. An episode that breaks is
    played once more; when it breaks again it has no part in its group's mean nor in the loss, and is never a
    reward of 0.

    A run that was killed goes on from its last checkpoint when it is called again with the same arguments:
    everything meanwhile lies in `.<folder name>.work` beside the folder. On one machine the same arguments
    give the same adapter, interrupted or not. A run that was finished is read from its folder.

    Checkpoints are compared on `section.validation_seeds` tasks. The two figures of the record come from
    other tasks (where there are enough) and fresh episodes, one a task, so that they do not carry the luck of
    the chosen checkpoint.

    With `section.processes` above 1 each of so many processes (`trace_assets.training.distributed`) calls
    this with the same arguments, and all get the same result; the first one writes and calls `on_point`.

    Args:
        name: The adapter's name; also the name of its points.
        kind: Whether it is a capability's adapter, the mixed arm, or one for several capabilities.
        target: Where episodes are played.
        job: The model, the settings, where the adapter goes.
        capability_id: The capability, None where there is not one.
        rejected: Why the environment was rejected and is trained on all the same, for the record.
        start: PEFT folder of an adapter of the same shape that is trained on; None begins with one that
            changes nothing. The figure before training is the base model's all the same.
        warm_start: Begin with demonstrations of tasks that are never solved, see
            `trace_assets.training.warm_start`; they are paid from the run's own rollouts. The weights that
            come of it are a checkpoint like the others, of iteration 0.
        rehearsed: Stored successes of the base model on the target, learned beside them.
        teacher: Whose distributions are learned on the run's own episodes, in place of GRPO; see
            `trace_assets.training.joint`.

    Returns:
        The adapter, and the curve with every iteration once.

    Raises:
        InputError: The target has no tasks, the budget is no whole number of iterations, or there are not as
            many processes as the settings say.
        Unavailable: The train extra is not installed, or so many episodes broke that a batch says nothing.
    """
    for module in ("torch", "transformers", "trl", "peft", "datasets"):
        require_extra(module, "train", "training an adapter")
    base_dir, section, folder = job.base_dir, job.section, job.folder
    require_trackers(section)
    plan = make_plan(target.tasks("discovery"), section, job.rollout_budget)
    held_out = target.tasks("validation")
    if not held_out:
        raise InputError(f"{target.name} has no validation tasks to compare checkpoints on; ask for more.")
    compare_on, report_on = split_held_out(held_out, section.validation_seeds, section.validation_episodes)
    fingerprint = {
        "name": name,
        "base": job.base_id,
        # Which sandbox holds an environment is no part of what is learned in it.
        "target": job.environment_id or target.version,
        "section": section.recipe(),
        "iterations": plan.iterations,
        **({"start": adapter_id(start)} if start is not None else {}),
        **({"warm_start": PROCEDURE, "rehearsed": rehearsed.version} if warm_start else {}),
        **({"teacher": teacher.version} if teacher is not None else {}),
    }
    if teacher is not None and section.shard:
        raise InputError(
            "an agent is not distilled into a model that is divided among processes: set "
            "training.shard = false, or leave 'consolidated' out of training.single_arms."
        )
    if warm_start and section.shard:
        raise InputError(
            "demonstrations are not learned by a model that is divided among processes: set "
            "training.shard = false."
        )
    whose = {
        "kind": kind,
        "capability_id": capability_id,
        "environment_id": job.environment_id,
        "rejected": rejected,
        "path": job.path or folder.name,
    }
    # Before the processes meet: a step reads alone what several have made.
    if (found := finished_run(folder, fingerprint)) is not None:
        if os.environ.get("RANK", "0") == "0":
            RunDirectory(folder, fingerprint).clear()
        return found.model_copy(update=whose), read_curve(folder / CURVE)
    process_group = join_process_group(section)
    run_directory = process_group.once(lambda: RunDirectory(folder, fingerprint))
    began = time.perf_counter()
    asked = section.demonstrate or (warm_start and isinstance(target, Solving))
    title = f"training {name}"
    drawn = progress(title, plan.iterations) if process_group.first else nullcontext(Bar(title, None, None))
    with calm(), drawn as bar:
        from trace_assets.training.run import Run

        with (
            tracked(section, name),
            open_sampler(base_dir, section, run_directory.path / SAMPLER, process_group) as policy,
            Player(
                target,
                policy,
                seed=section.seed,
                max_turns=section.max_turns,
                concurrency=section.concurrency,
                process_group=process_group,
            ) as player,
            demonstrating(player, base_dir, section, asked) as shown,
        ):
            warm, rows = (WarmStart(0, 0), list[Row]())
            finished_warm = (
                process_group.once(lambda: stored_warm_start(run_directory.path)) if warm_start else None
            )
            if finished_warm is not None:
                warm = finished_warm
            elif warm_start:
                warm, rows = find_demonstrations(shown, plan, section)
            plan = shortened(plan, warm.rollouts)
            run = Run(
                name=name,
                base_dir=base_dir,
                section=section,
                plan=plan,
                compare_on=compare_on,
                player=player,
                policy=policy,
                run_directory=run_directory,
                on_point=job.on_point,
                bar=bar,
                teacher=teacher,
                demonstrations=shown if section.demonstrate else None,
            )
            before = process_group.once(lambda: run_directory.stored_rate("before"))
            if before is None:
                before = run.measure(report_on, "held-out figures")
                if process_group.first:
                    run_directory.store_rate("before", before)
            if start is not None:
                run.begin_with(start)
            if warm_start:
                again = rehearsal_rows(rehearsed, base_dir) if rows else []
                warm = run.warm_up(warm, rows, again, finished=finished_warm is not None)
            run.train()
            best = run.load_best()
            after = run.measure(report_on, "held-out figures")
        points, spent = run.curve.points, run.rollouts + warm.rollouts
        finished = run_directory.path / "adapter"
        called = job.base_id if Path(base_dir).is_dir() else str(base_dir)
        tensors = lora_tensors(run.model)
        identity = process_group.once(lambda: write_adapter(run.model, finished, called, tensors))
    adapter = Adapter(
        adapter_id=identity,
        name=name,
        **whose,
        base_id=job.base_id,
        iterations=len(points),
        best_iteration=best,
        rollouts=spent,
        demonstrations=warm.demonstrations + run.shown,
        warm_rollouts=warm.rollouts,
        rehearsed=warm.rehearsed,
        not_demonstrated=warm.unable,
        validation_before=before.rate,
        validation_before_low=before.interval[0],
        validation_before_high=before.interval[1],
        validation_after=after.rate,
        validation_after_low=after.interval[0],
        validation_after_high=after.interval[1],
        validation_n=min(before.n, after.n),
        isolation_level=getattr(target, "isolation_level", ""),
        sandbox_version=getattr(target, "sandbox_version", ""),
        seconds=time.perf_counter() - began,
    )

    def keep() -> Adapter:
        shutil.copyfile(run_directory.curve, finished / CURVE)
        record = {"run": fingerprint, "adapter": adapter.model_dump(mode="json")}
        (finished / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        folder.parent.mkdir(parents=True, exist_ok=True)
        replace_folder(finished, folder)
        run_directory.clear()
        return adapter

    return process_group.once(keep), points


def finished_run(folder: Path, fingerprint: Mapping[str, object]) -> Adapter | None:
    """Return the record of a run that ended in this folder, when it is this run and its weights are whole."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        adapter = Adapter.model_validate(record["adapter"])
        run = {**record["run"]}
        if adapter.environment_id is not None:
            run["target"] = adapter.environment_id  # earlier versions wrote the sandbox's version with it
        same = all(run[name] == value for name, value in json.loads(json.dumps(fingerprint)).items())
        return adapter if same and adapter_id(folder) == adapter.adapter_id else None
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None


@contextmanager
def calm() -> Iterator[None]:
    """Use one CPU thread (faster below some million parameters) and keep the libraries' chatter away."""
    import datasets
    import torch
    import transformers

    threads = torch.get_num_threads()
    verbosity = transformers.logging.get_verbosity()
    loggers = [logging.getLogger(name) for name in ("trl", "accelerate", "peft", "datasets")]
    levels = [logger.level for logger in loggers]
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(trl|transformers|peft|torch|accelerate)\b.*")
            yield
    finally:
        torch.set_num_threads(threads)
        transformers.logging.set_verbosity(verbosity)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


FOLDER = "runs"
"""In the working folder, which is the study's: where TensorBoard looks by habit."""
TENSORBOARD = "TENSORBOARD_LOGGING_DIR"


def require_trackers(section: Training) -> None:
    """Make sure that the package of every tracker is there, before anything is played.

    Raises:
        Unavailable: One is not installed.
    """
    missing = [name for name in section.report_to if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"training.report_to names {', '.join(missing)}, not installed beside this interpreter: run "
            f"`pip install {' '.join(missing)}`, or leave it out of training.report_to."
        )


@contextmanager
def tracked(section: Training, name: str) -> Iterator[None]:
    """Say for the body where what is reported goes, where the tracker's own variable does not.

    TensorBoard's files would otherwise lie in the trainer's folder, which goes when the training is done.
    The others have variables of their own (`WANDB_PROJECT`, `MLFLOW_TRACKING_URI`, `TRACKIO_PROJECT`).
    """
    if "tensorboard" not in section.report_to or TENSORBOARD in os.environ:
        yield
        return
    os.environ[TENSORBOARD] = str(Path(FOLDER, name).absolute())
    try:
        yield
    finally:
        del os.environ[TENSORBOARD]

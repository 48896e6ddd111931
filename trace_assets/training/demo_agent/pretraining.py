"""The base model: the tiny agent trained until it is what the pipeline needs, or any model named."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_assets.code_versions import code_version
from trace_assets.errors import CheckFailed, InputError, require_extra
from trace_assets.records import BaseCheckpoint
from trace_assets.settings import BaseModelSection
from trace_assets.store.content import folder_version, text_version
from trace_assets.store.files import replacing_folder
from trace_assets.system.progress import progress
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.targets.protocol import Target
from trace_assets.training.demo_agent.base_check import check_base, desk_of, wanted_of
from trace_assets.training.demo_agent.base_run import BaseRun

RECIPE_FILE = "training.json"
"""In the model's folder: what it was trained by, and how its check came out."""


def _run_version(target: Target, section: BaseModelSection) -> str:
    """Return the content version of what decides each training step; what ends the training is not in it."""
    said = f"{section.seed}/{section.steps}/{section.head_dim}/{section.size}"
    return text_version(code_version("demo agent"), target.version, said)


def recipe_version(target: Target, section: BaseModelSection) -> str:
    """Return the content version of everything that decides a trained base model."""
    return text_version(_run_version(target, section), section.fingerprint())


def train_base(target: Target, section: BaseModelSection, folder: Path) -> BaseCheckpoint:
    """Make sure that the base model is there, training it when it is not.

    The tiny agent is trained for `section.steps` optimizer steps and checked on validation tasks; while the
    check fails it is trained half as long again, up to `section.max_steps`. An interrupted training goes on
    from its last pool of demonstrations. `folder` appears whole or not at all.

    Args:
        target: The embedded target (its validation tasks are the check's). Not used for a model named by
            `section.path`.
        section: Seed, budget and what the check demands; `path` names a model instead.
        folder: Where the trained model goes. Not used for a model named by `section.path`.

    Returns:
        The checkpoint's record: `path` is `folder`, or `section.path` as it is.

    Raises:
        InputError: The target is not the embedded one, or `section.path` is no model.
        CheckFailed: The model is still not as wanted after `section.max_steps` steps.
        Unavailable: The packages of the extra `train` are not installed.
    """
    require_extra("torch", "train", "the base model")
    require_extra("transformers", "train", "the base model")
    if section.path:
        from trace_assets.training.demo_agent.model import describe_model

        return describe_model(section.path)
    if target.name != "embedded":
        raise InputError(
            f"no base model can be trained for the target '{target.name}': name one with base_model.path."
        )
    recipe = recipe_version(target, section)
    found = finished_base(target, section, folder)
    if found is not None:
        shutil.rmtree(
            _scratch(target, section, folder), ignore_errors=True
        )  # of a run killed at its very end
        return found
    started = time.monotonic()
    with _one_thread():
        _train(target, section, folder, recipe, started)
    made = finished_base(target, section, folder)
    assert made is not None
    return made


def _scratch(target: Target, section: BaseModelSection, folder: Path) -> Path:
    return folder.parent / ".training" / _run_version(target, section)


def finished_base(target: Target, section: BaseModelSection, folder: Path) -> BaseCheckpoint | None:
    """Return what was trained into a folder by these settings and this code; None where nothing was."""
    try:
        stored = json.loads((folder / RECIPE_FILE).read_text(encoding="utf-8"))
        if stored["recipe"] != recipe_version(target, section):
            return None
        names = [file.name for file in folder.iterdir() if file.is_file() and file.name != RECIPE_FILE]
        return BaseCheckpoint(base_id=folder_version(folder, names), path=str(folder), **stored["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _train(target: Target, section: BaseModelSection, folder: Path, recipe: str, started: float) -> None:
    from trace_assets.training.demo_agent.model import agent_shape, save_agent

    scratch = _scratch(target, section, folder)
    wanted = wanted_of(target, section)
    hints = isinstance(target, EmbeddedTarget) and target.options.hints
    run = BaseRun(section.seed, scratch / "run.pt", agent_shape(section), desk_of(target), hints)
    # Of a run that was resumed in a later leg, the checks of the earlier ones have failed before.
    stops = [stop for stop in _stops(section) if stop >= run.leg[1]] or [run.step]
    with progress("Training the base model", total=stops[-1]) as bar:
        bar.advance(run.step)
        for stop in stops:
            run.train(stop, bar)
            candidate = scratch / "candidate"
            save_agent(run.model, run.tokenizer, candidate)
            check = check_base(candidate, target, section)
            problems = check.problems(wanted)
            if not problems:
                break
            bar.advance(0, note=problems[0])
        else:
            raise CheckFailed(
                f"the base model with seed {section.seed} is not as wanted after {run.step} steps: "
                f"{'; '.join(problems)}. Raise base_model.max_steps to train it on from there, or choose "
                "another base_model.seed."
            )
    low, high = check.interval
    result = {
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "steps": run.step,
        "pass_rate": check.rate,
        "pass_rate_low": low,
        "pass_rate_high": high,
        "n": check.n,
        "seconds": round(time.monotonic() - started, 1),
    }
    skills = {name: {"passed": check.passed.get(name, 0), "n": n} for name, n in check.played.items()}
    with replacing_folder(folder) as building:
        save_agent(run.model, run.tokenizer, building)
        text = json.dumps({"recipe": recipe, "result": result, "skills": skills}, indent=1, sort_keys=True)
        (building / RECIPE_FILE).write_text(text, encoding="utf-8")
    shutil.rmtree(scratch, ignore_errors=True)


def _stops(section: BaseModelSection) -> Iterator[int]:
    stop = section.steps
    while stop < section.max_steps:
        yield stop
        stop += max(1, section.steps // 2)
    yield max(section.max_steps, section.steps)


@contextmanager
def _one_thread() -> Iterator[None]:
    """At this size a second thread costs more than it brings, and sums would depend on the cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

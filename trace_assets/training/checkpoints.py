"""The folder of a training run that is under way: what a killed run leaves for the next one."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.records import TrainingPoint
from trace_assets.settings import Training
from trace_assets.store.files import (
    make_folder,
    replace_folder,
    replacing_file,
    sync_file,
    sync_folder,
    sync_tree,
    write_text,
)
from trace_assets.store.lines import append_lines, read_lines, sealed
from trace_assets.store.manifest import MANIFEST, Manifest
from trace_assets.store.unfinished import COMPLETE, run_directory_of
from trace_assets.training.validation import Rate

if TYPE_CHECKING:
    from peft import LoraConfig


def mark_complete(folder: Path) -> None:
    """Say of a checkpoint that it is written to its end, once it is on the disk."""
    sync_tree(folder)
    marker = folder / COMPLETE
    marker.unlink(missing_ok=True)
    Manifest(marker, folder).build(file for file in sorted(folder.rglob("*")) if file.is_file())
    sync_file(marker)
    sync_folder(folder)


def is_complete(folder: Path) -> bool:
    """Whether a checkpoint was written to its end, and is as it was written."""
    marker = folder / COMPLETE
    if not marker.is_file():
        return False
    lines, manifest = read_lines(marker), Manifest(marker, folder)
    return not (lines.torn or lines.altered or manifest.problems(manifest.entries()))


class RunDirectory:
    """Checkpoints, curve and candidate weights of one run, beside the folder of its result.

    A run with another fingerprint (other settings, base, tasks) finds an empty run_directory.

    Args:
        folder: Where the finished adapter will be.
        fingerprint: Everything that decides the run's result.
    """

    def __init__(self, folder: Path, fingerprint: dict[str, Any]) -> None:
        self.path = run_directory_of(folder)
        described = self.path / "run.json"
        text = json.dumps(fingerprint, indent=2, sort_keys=True)
        if not described.is_file() or described.read_text(encoding="utf-8") != text:
            shutil.rmtree(self.path, ignore_errors=True)
            make_folder(self.path)
            write_text(described, text)

    @property
    def curve(self) -> Path:
        """The learning curve so far."""
        return self.path / "curve.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The trainer's output folder."""
        return self.path / "checkpoints"

    def candidate(self, iteration: int) -> Path:
        """Weights that were validated after an iteration."""
        return self.path / f"candidate-{iteration}.safetensors"

    def last_checkpoint(self) -> tuple[Path, int] | None:
        """Return the latest checkpoint that is as it was written, to its end, and its iteration."""
        found = [
            (int(marker.parent.name.rpartition("-")[2]), marker.parent)
            for marker in self.checkpoints.glob(f"checkpoint-*/{COMPLETE}")
        ]
        for iteration, path in sorted(found, reverse=True):
            if is_complete(path):
                return path, iteration
        return None

    def whole_candidate(self, iteration: int) -> Path:
        """Return the weights that were validated after an iteration.

        Raises:
            InputError: They are not what was written.
        """
        path = self.candidate(iteration)
        manifest = self._manifest()
        if said := manifest.problem(path.name):
            raise InputError(f"{path} {said}; remove {self.path} and run again to train it anew.")
        return path

    @contextmanager
    def keeping_candidate(self, iteration: int) -> Iterator[Path]:
        """Write the weights that were validated after an iteration: to the path that the body is given."""
        path, manifest = self.candidate(iteration), self._manifest()
        with replacing_file(path, lambda partial: manifest.placing(path.name, partial)) as partial:
            yield partial

    def _manifest(self) -> Manifest:
        return Manifest(self.path / MANIFEST, self.path)

    def stored_rate(self, name: str) -> Rate | None:
        """Return a measurement that an earlier attempt finished."""
        path = self.path / f"{name}.json"
        return Rate(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def store_rate(self, name: str, rate: Rate) -> None:
        """Keep a measurement for later attempts."""
        text = json.dumps({"successes": rate.successes, "n": rate.n, "reward": rate.reward})
        write_text(self.path / f"{name}.json", text)

    def clear(self) -> None:
        """Remove the folder: the result is in its place."""
        shutil.rmtree(self.path, ignore_errors=True)


def clear_run_directory(folder: Path) -> None:
    """Remove what is left beside the folder of a finished result."""
    shutil.rmtree(run_directory_of(folder), ignore_errors=True)


# A LoRA adapter as a folder: ordinary PEFT files, written whole or not at all, named by their content.


CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files that decide what the adapter does, as PEFT and vLLM read them."""


def lora_config(section: Training) -> LoraConfig:
    """Return the LoRA that the settings ask for: every linear layer, no dropout, B = 0 at the start."""
    from peft import LoraConfig

    return LoraConfig(
        r=section.lora_rank,
        lora_alpha=section.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def lora_tensors(model: Any) -> dict[str, Any]:
    """Return a model's LoRA by the model's own names, whole and in the host's memory.

    Of a model that is divided among processes every process must ask: each holds a part.

    Args:
        model: A `PeftModel`.
    """
    from trace_assets.training.fsdp import whole

    return {
        name: whole(value.detach()).cpu() for name, value in model.state_dict().items() if "lora_" in name
    }


def lora_state(model: Any) -> dict[str, Any]:
    """Return what `lora_tensors` does, by PEFT's names: as in an adapter's file, and for `load_lora`."""
    from peft import get_peft_model_state_dict

    found = get_peft_model_state_dict(model, state_dict=lora_tensors(model), save_embedding_layers=False)
    return {name: value.contiguous() for name, value in found.items()}


def load_lora(model: Any, weights: dict[str, Any]) -> None:
    """Put weights, as `lora_state` returns them, into a LoRA; each process its part of a divided one."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    from trace_assets.training.fsdp import part_of

    present = get_peft_model_state_dict(model, save_embedding_layers=False)
    set_peft_model_state_dict(model, {name: part_of(value, present[name]) for name, value in weights.items()})


def write_adapter(model: Any, folder: Path, base_name: str, tensors: dict[str, Any] | None = None) -> str:
    """Write the active LoRA of a PEFT model, replacing the folder in one step.

    PEFT's own configuration names the local folder of the base model and lists layers in the order of a set:
    both are made the same on every machine, so that equal weights have equal names.

    Args:
        model: A `PeftModel`.
        folder: Where the adapter shall be.
        base_name: Name of the base model to write into the configuration.
        tensors: What `lora_tensors` has returned where the model is divided among processes, of which one
            writes; None asks the model.

    Returns:
        The adapter's id, as `adapter_id` gives it.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model.save_pretrained(str(partial), save_embedding_layers=False, state_dict=tensors)
    for path in partial.iterdir():
        if path.name not in (CONFIG, WEIGHTS):
            path.unlink()
    config = json.loads((partial / CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base_name
    # Every linear layer was asked for, so the layers' last names say it all, as in adapters found elsewhere.
    config["target_modules"] = sorted({layer.rpartition(".")[2] for layer in config["target_modules"]})
    if config.get("target_parameters"):  # the experts of a mixture, which are no modules of their own
        config["target_parameters"] = sorted(config["target_parameters"])
    (partial / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    replace_folder(partial, folder)
    return adapter_id(folder)


def adapts_experts(folder: Path) -> bool:
    """Say whether an adapter moves a mixture's experts, which PEFT writes as one matrix a layer.

    vLLM expects a matrix an expert unless it is told.
    """
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return bool(config.get("target_parameters"))


def adapter_id(folder: Path) -> str:
    """Return the content hash of an adapter: 16 hexadecimal digits over its configuration and weights.

    Raises:
        InputError: The folder is not a PEFT adapter.
    """
    digest = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        path = folder / name
        if not path.is_file():
            raise InputError(f"{folder} is not a PEFT adapter: it has no {name}; train it again.")
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


# The learning curve on disk: one JSON line an iteration, so that a killed run keeps what it had.


class Curve:
    """An append-only file of training points, in order of iteration, each iteration once.

    Args:
        path: The JSON-lines file; made on the first point.
        upto: Keep only the points up to this iteration: those after the checkpoint that training resumes
            from will be made again. None keeps all.
        writes: Whether the file is this process's to write; one of several only keeps the points in mind.
    """

    def __init__(self, path: Path, upto: int | None = None, writes: bool = True) -> None:
        self.path, self._writes = path, writes
        self.points = [point for point in read_curve(path) if upto is None or point.iteration <= upto]
        if writes and path.exists():
            with replacing_file(path) as partial:
                partial.write_bytes(b"".join(sealed(point.model_dump_json()) for point in self.points))

    def append(self, point: TrainingPoint) -> None:
        """Add the next point and make sure that it survives a crash.

        Raises:
            ValueError: The iteration is not later than the last one.
        """
        if self.points and point.iteration <= self.points[-1].iteration:
            raise ValueError(f"iteration {point.iteration} is not later than {self.points[-1].iteration}")
        self.points.append(point)
        if not self._writes:
            return
        make_folder(self.path.parent)
        append_lines(self.path, [point.model_dump_json()])


def read_curve(path: Path) -> list[TrainingPoint]:
    """Read a curve file; a line that was altered or torn by a crash, and what follows it, is left out.

    Args:
        path: The JSON-lines file; none gives no points.
    """
    points: list[TrainingPoint] = []
    lines = read_lines(path)
    for number, text in lines.whole:
        if lines.altered and number > lines.altered[0]:
            break
        try:
            points.append(TrainingPoint.model_validate_json(text))
        except ValidationError:
            break
    return points


def sandbox_shares(points: Sequence[TrainingPoint]) -> tuple[float | None, float | None]:
    """Return the share of an adapter's training time that went into calls into the sandbox.

    Returns:
        Wall time in calls, waiting included, and CPU time of the training process in calls, both over the
        wall time of all iterations; None where no sandbox was used.
    """
    seconds = sum(point.seconds for point in points)
    if not seconds or any(point.sandbox_seconds is None for point in points):
        return None, None
    wall = sum(point.sandbox_seconds or 0.0 for point in points)
    cpu = sum(point.sandbox_cpu_seconds or 0.0 for point in points)
    return wall / seconds, cpu / seconds

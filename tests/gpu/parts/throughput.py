"""Tokens a second of sampler and trainer, minutes an iteration, and the memory that both take together.

Every figure is of the product's own training (`train_adapter`) with its own sampler, on plain talk.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import Any

from tests.gpu.results import Asked
from tests.gpu.shapes import model_folder, shape_of
from tests.gpu.talk import Length, TalkTarget
from tests.gpu.watch import Watch, settle
from trace_assets.settings import Training
from trace_assets.training.plan import Job
from trace_assets.training.presets import GIB, load_preset, step_memory


@dataclass(frozen=True)
class Case:
    """A model and how it is trained.

    Attributes:
        name: Of the model.
        wants: Seconds it may need.
        length: Of its episodes.
        changes: Training settings that differ from the common ones.
        preset: The preset whose full run is extrapolated.
    """

    name: str
    wants: float
    length: Length
    changes: dict[str, Any]
    preset: str


SHORT, LONG = Length(128, 4, 32), Length(1024, 4, 256)
BIG = {"gradient_checkpointing": True, "micro_batch": 8, "bf16": True}
CASES = (
    Case("agent-0.4m", 25, SHORT, {"iterations": 3}, "tiny-cpu"),
    Case("agent-40m", 25, SHORT, {"iterations": 3, "bf16": True}, "tiny-cpu"),
    Case("qwen3-4b", 110, LONG, {"iterations": 1, **BIG, "micro_batch": 4}, "qwen3-4b-1gpu"),
    Case("qwen3-0.6b", 50, LONG, {"iterations": 1, **BIG}, "qwen3-4b-1gpu"),
)


def run(asked: Asked) -> None:
    """Train each model for an iteration or a few."""
    for case in CASES:
        if asked.enough(case.wants, f"{case.name}"):
            with asked.trying(case.name):
                _case(asked, case)


def section_of(asked: Asked, case: Case) -> Training:
    """Return the training settings of a case: 16 groups of 8 rollouts, LoRA of rank 16."""
    common: dict[str, Any] = {
        "lora_rank": 16,
        "lora_alpha": 16,
        "learning_rate": 1e-5,
        "tasks_per_iteration": 16,
        "group_size": 8,
        "concurrency": 128,
        "max_turns": case.length.turns,
        "max_new_tokens": 192,
        "validate_every": 99,
        "validation_seeds": 8,
        "validation_episodes": 8,
        "save_every": 99,
    }
    toy = {"tasks_per_iteration": 2, "group_size": 4, "concurrency": 8, "iterations": 1}
    changes = {**case.changes, **(toy if asked.rehearse else {})}
    if "micro_batch" in changes and asked.rehearse:
        changes["micro_batch"] = 2
    return Training(**{**common, **changes})


def _case(asked: Asked, case: Case) -> None:
    length = Length(24, 2, 8) if asked.rehearse else case.length
    section, target = section_of(asked, case), TalkTarget(length)
    folder = model_folder(asked, case.name)
    name = case.name
    speeds: dict[int, float] = {}
    for in_flight in sorted({16, section.concurrency}):
        speeds[in_flight] = _sampler(asked, name, folder, section, target, in_flight)
    _training(asked, case, folder, section, target, speeds)
    if asked.device == "cuda":
        import gc

        import torch

        gc.collect()
        torch.cuda.empty_cache()
        asked.row(f"{name}: left in memory after the training", torch.cuda.memory_allocated() / GIB, "GiB")


def _sampler(asked: Asked, name: str, folder: Any, section: Training, target: Any, in_flight: int) -> float:
    """Play one batch with the sampler alone, warm, and return its tokens a second."""

    from trace_assets.training.episodes import Player
    from trace_assets.training.sampler import open_sampler

    few = 4 if asked.rehearse else in_flight
    tasks = list(target.tasks("test"))
    with (
        open_sampler(folder, section, asked.scratch / "none") as policy,
        Player(target, policy, seed=1, max_turns=section.max_turns, concurrency=in_flight) as player,
    ):
        player.play(tasks[:2], "warm")
        settle()
        began = time.perf_counter()
        played = player.play(tasks[:few], "timed")
        settle()
        seconds = time.perf_counter() - began
    traces = [one.tokens for one in played if one.tokens]
    sampled = sum(sum(trace.mask) for trace in traces)
    asked.row(
        f"{name}: sampler, {in_flight} in flight",
        sampled / seconds,
        "tokens/s",
        f"{sampled:,} sampled, {sum(len(trace.ids) for trace in traces):,} in all, {seconds:.1f} s, "
        f"{'bf16' if section.bf16 else 'fp32'}",
    )
    return sampled / seconds


def _training(
    asked: Asked, case: Case, folder: Any, section: Training, target: Any, speeds: dict[int, float]
) -> None:
    from trace_assets.policies.transformers_engine import TransformersPolicy
    from trace_assets.training.grpo import train_adapter

    name, watch = case.name, Watch()
    out = asked.scratch / f"{name}-adapter"
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    with watch.on(TransformersPolicy):
        _, points = train_adapter(name, "capability", target, Job(folder, name, section, out))
    whole = time.perf_counter() - began
    sampling, learning, loading = watch.sampling, watch.learning, watch.loading
    episodes = section.tasks_per_iteration * section.group_size * len(points)
    tokens = sampling.read // episodes
    each = f"{section.tasks_per_iteration} x {section.group_size} episodes of {tokens:,} tokens"
    iteration = (sampling.seconds + learning.seconds) / len(points) + loading.seconds / loading.times
    asked.row(
        f"{name}: iteration", iteration / 60, "min",
        f"{each}; the whole training with three looks at 8 held-out tasks {whole:.0f} s",
    )  # fmt: skip
    asked.row(
        f"{name}: sampler in the training", sampling.tokens / sampling.seconds, "tokens/s",
        f"{sampling.seconds / len(points):.1f} s an iteration",
    )  # fmt: skip
    asked.row(
        f"{name}: trainer", learning.tokens / learning.seconds, "tokens/s",
        f"{learning.tokens:,} tokens of live episodes, {learning.seconds / len(points):.1f} s an iteration",
    )  # fmt: skip
    asked.row(
        f"{name}: adapter to the sampler", loading.seconds / loading.times, "s", f"{loading.times} times"
    )
    last = points[-1]
    asked.row(
        f"{name}: KL(sampler, trainer)", last.sampler_kl, "nats a token",
        f"largest difference {last.sampler_difference or 0:.2g}, "
        f"outside the clip range {last.outside_clip or 0:.2g}",
    )  # fmt: skip
    if name == "agent-0.4m" or section.iterations > 1:
        asked.row(f"{name}: gradient norm", last.grad_norm, note=f"learning rate {section.learning_rate:g}")
    _memory(asked, case, section, sampling, learning)
    _preset(asked, case, section, speeds, learning.tokens / learning.seconds)


def _memory(asked: Asked, case: Case, section: Training, sampling: Any, learning: Any) -> None:
    if asked.device != "cuda":
        return
    expected = step_memory(shape_of(asked, case.name), section, sampling.longest)
    cache = expected.weights + expected.engine + expected.cache + expected.adapter // 4
    asked.row(
        f"{case.name}: peak while sampling", sampling.peak / GIB, "GiB", f"arithmetic {cache / GIB:.1f}"
    )
    asked.row(
        f"{case.name}: peak while learning", learning.peak / GIB, "GiB",
        f"arithmetic {expected.total / GIB:.1f} with the longest episode of {sampling.longest:,} tokens",
    )  # fmt: skip
    import torch

    asked.row(f"{case.name}: reserved by the allocator", torch.cuda.max_memory_reserved() / GIB, "GiB")


def _preset(asked: Asked, case: Case, section: Training, speeds: dict[int, float], learns: float) -> None:
    """Extrapolate the preset's full run from speeds at this length, and say what was assumed."""
    if asked.rehearse:
        return
    preset = load_preset(case.preset)
    episodes = preset.iterations * preset.tasks_per_iteration * preset.group_size
    in_flight = min(speeds, key=lambda one: abs(one - preset.concurrency))
    length, own = (300, 100) if case.length is SHORT else (4096, 512)
    seconds = episodes * (own / speeds[in_flight] + length / learns)
    asked.row(
        f"{case.name}: full run of {case.preset}", seconds / 60, "min",
        f"extrapolated: {episodes:,} episodes of {length:,} tokens, {own} of them sampled, {in_flight} in "
        "flight, every group live; held-out episodes not counted",
    )  # fmt: skip

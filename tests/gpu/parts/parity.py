"""Do sampler and trainer say the same on this device, in fp32 and in bf16?

The product's engine plays whole conversations with an adapter; every token that it sampled is then scored by
transformers' own forward pass under PEFT, as the trainer computes it (bf16 weights, LoRA in fp32, autocast).
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from tests.gpu.results import Asked
from tests.gpu.scores import score, tell, trainers_model
from tests.gpu.shapes import model_folder, random_adapter
from tests.gpu.talk import Length, TalkTarget
from tests.gpu.watch import settle

CASES = (("agent-0.4m", 15.0), ("qwen3-4b", 80.0), ("qwen3-0.6b", 30.0))


def run(asked: Asked) -> None:
    """Compare at each size and precision; then see whether equal trainings are equal to the bit."""
    for name, seconds in CASES:
        if asked.enough(seconds, name):
            with asked.trying(name):
                _case(asked, name)
        if name == "agent-0.4m":
            with asked.trying("equal trainings"):
                _twice(asked)


def _case(asked: Asked, name: str) -> None:
    folder = model_folder(asked, name)
    adapter = random_adapter(folder, asked.scratch / f"{folder.name}-lora", asked.device)
    exact = _compare(asked, name, folder, adapter, "float32", None)
    _compare(asked, name, folder, adapter, "bfloat16", exact)


def _compare(asked: Asked, name: str, folder: Path, adapter: Path, dtype: str, exact: Any) -> Any:
    """Play in one precision, and score what was played in it and by `exact`; return the trainer's model."""
    import gc

    import torch

    from trace_assets.policies.transformers_engine import TransformersPolicy
    from trace_assets.training.episodes import Player

    length = Length(24, 2, 8) if asked.rehearse else Length(256, 3, 48)
    target, episodes = TalkTarget(length), 4 if asked.rehearse else 24

    policy = TransformersPolicy(folder, adapters={"a": adapter}, max_new_tokens=96, dtype=dtype)

    def play(policy: Any, temperature: float) -> list[Any]:
        policy.temperature = temperature
        with Player(
            target, policy, seed=0, max_turns=length.turns, concurrency=episodes, adapter="a"
        ) as player:
            played = player.play(list(target.tasks("test"))[:episodes], "parity")
        found = [one.tokens for one in played if one.tokens and 1 in one.tokens.mask]
        if not found:
            raise RuntimeError(f"no episode: {played[0].trajectory.error}")
        return found

    traces, greedy = play(policy, 1.0), play(policy, 0.0)
    del policy
    gc.collect()
    if asked.device == "cuda":
        torch.cuda.empty_cache()
    model = trainers_model(folder, adapter, dtype, asked.device)
    trained, _ = score(model, traces, dtype)
    _, agreed = score(model, greedy, dtype)
    settle()
    sampled = [value for one in traces for value, own in zip(one.logprobs, one.mask, strict=True) if own]
    tell(asked, f"{name} {dtype}: sampler and trainer", sampled, trained)
    what = f"{name} {dtype}: greedy tokens that are"
    asked.row(f"{what} the trainer's too", fmean(agreed), note=f"of {len(agreed):,}")
    if exact is not None:
        truth, _ = score(exact, traces, "float32")
        _, likeliest = score(exact, greedy, "float32")
        tell(asked, f"{name} {dtype}: sampler, and the trainer in float32", sampled, truth, judged=False)
        tell(asked, f"{name} {dtype}: trainer, and itself in float32", trained, truth, judged=False)
        asked.row(f"{what} float32's too", fmean(likeliest), note=f"of {len(likeliest):,}")
    return model


def _twice(asked: Asked) -> None:
    """Make one small training twice: on a CPU they are one to the bit, on a GPU nobody has promised it."""
    import tempfile

    from safetensors.torch import load_file

    from tests.training import word_target

    with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
        base = word_target.write_base(Path(folder) / "base")
        section = word_target.SECTION.model_copy(update={"iterations": 4, "validate_every": 4})
        made = [
            word_target.train(base, Path(folder) / name / "words", section=section) for name in ("a", "b")
        ]
        asked.row("two equal trainings are equal to the bit", made[0][0].adapter_id == made[1][0].adapter_id)
        one, other = (
            load_file(Path(folder) / name / "words" / "adapter_model.safetensors") for name in ("a", "b")
        )
        apart = max(float((one[name] - other[name]).abs().max()) for name in one)
        asked.row("two equal trainings: largest difference of a weight", apart)
        rates = [points[-1].success_rate for _, points in made]
        asked.row("two equal trainings: success in their last iteration", f"{rates[0]:.2f}, {rates[1]:.2f}")
        before = made[0][1][0].success_rate
        asked.row("success in the first iteration, and in the last", f"{before:.2f}, {rates[0]:.2f}")

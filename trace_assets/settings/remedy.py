"""How environments are written and audited, adapters trained, tasks routed, and all of it evaluated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trace_assets.settings.section import Section


class SandboxSection(Section):
    """Where generated code runs."""

    backend: Literal["docker", "bubblewrap", "auto", "unsafe-subprocess"] = "docker"
    memory_mb: int = Field(256, ge=64)
    cpus: float = Field(1.0, gt=0)
    deadline_seconds: float = Field(5.0, gt=0)


class Synthesis(Section):
    """How environments are written and audited."""

    added = frozenset(
        {"model", "temperature", "seed", "mend_rounds", "mend_with_base"}
        | {"excerpts", "excerpt_tokens", "contract_tokens"}
    )

    writer: Literal["recipe", "model", "auto"] = "recipe"
    """`auto`: a recipe where one fits, otherwise the model. The model's server is that of `[writer]`."""
    model: str = ""
    """The model that writes."""
    temperature: float = Field(1.0, ge=0, le=2)
    seed: int = 0
    """Another one asks the same questions anew; equal questions are answered from memory."""
    mend_rounds: int = Field(5, ge=0, le=5)
    """How often the failed checks go back to the model before it is given up."""
    mend_with_base: bool = True
    """Where nothing else is wrong, also mend what rollouts of the base policy show (too easy, too hard)."""
    excerpts: int = Field(3, ge=0, le=12)
    """Transcripts that lack the capability which the model is shown, and as many that show it."""
    excerpt_tokens: int = Field(1500, ge=200)
    """Longest of them; a longer one is compacted by the rule that its reader is told."""
    contract_tokens: int = Field(12000, ge=1000)
    """Of the target's contract in the prompt; tools and policy are always shown whole."""
    audit_seeds: int = Field(64, ge=8)
    audit_rollouts: int = Field(8, ge=2)
    """Base-policy episodes a seed, for the pass band and the dead groups."""
    pass_low: float = 0.05
    pass_high: float = 0.80
    max_dead_groups: float = 0.60


class Training(Section):
    """GRPO. Defaults suit the tiny agent; presets for real models are in `trace_assets/training/presets/`."""

    lora_rank: int = Field(8, ge=1)
    lora_alpha: int = Field(16, ge=1)
    learning_rate: float = Field(8e-3, gt=0)
    warmup_iterations: int = Field(3, ge=0)
    iterations: int = Field(22, ge=1)
    tasks_per_iteration: int = Field(16, ge=1)
    group_size: int = Field(8, ge=2)
    temperature: float = Field(1.0, gt=0)
    max_turns: int = Field(12, ge=1)
    max_new_tokens: int = Field(64, ge=1)
    """Of one assistant message."""
    concurrency: int = Field(128, ge=1)
    """Episodes in flight at once."""
    epsilon: float = Field(0.2, gt=0)
    beta: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    loss_type: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = "dapo"
    micro_batch: int = Field(0, ge=0)
    """Episodes a forward pass; 0 takes the whole iteration at once. Divides tasks x group."""
    validate_every: int = Field(6, ge=1)
    validation_seeds: int = Field(64, ge=8)
    """Held-out tasks on which checkpoints are compared."""
    validation_episodes: int = Field(256, ge=8)
    """Held-out tasks, one fresh episode each, behind each of the two figures before and after training."""
    save_every: int = Field(6, ge=1)
    mixed_arm: bool = True
    """Also train one adapter on the target itself with the same number of rollouts, for comparison."""
    bf16: bool = False
    gradient_checkpointing: bool = False
    seed: int = 0


class Routing(Section):
    """How a task finds its adapter."""

    router: Literal["classifier", "label_logits"] = "classifier"
    """The one whose choices the `routed` arm follows; both are scored."""
    unneeded_cost: float = Field(0.1, gt=0, le=1)
    """What applying an adapter costs where the base model lacks nothing, relative to what is lost where an
    adapter is needed and not applied. 0.1 routes to an adapter above a need of one in eleven."""
    seed: int = 0


class EvaluationSection(Section):
    """How arms are compared on the test split."""

    trials: int = Field(4, ge=1)
    resamples: int = Field(2000, ge=100)
    temperature: float = Field(1.0, ge=0)
    seed: int = 0

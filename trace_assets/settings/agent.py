"""What the agent is, and where it is rolled out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from trace_assets.settings.section import MOST_TRIALS, Section


class Targets(Section):
    """Which environment the agent is rolled out in, and how many tasks of it."""

    expert = frozenset({"processes", "call_seconds", "seed"})

    added = frozenset({"options"})
    apart = frozenset({"path", "python", "processes", "call_seconds"})

    name: str = "embedded"
    """A live target; trajectories that were ingested carry their own target's name. `trace targets list`."""
    path: str = ""
    """Your own target's module, such as `library/target.py`; it must call itself by `name`."""
    python: str = ""
    """The interpreter that has its packages; empty: this one, or the one it was installed with."""
    options: dict[str, Any] = {}
    """Handed to the target's describe(), such as which simulated user takes part; for `embedded` the desk:
    `{desk = "b"}` sets tasks that need several lacking skills."""
    processes: int = Field(0, ge=0)
    """Processes of a target of its own interpreter, one an episode in the air; 0: one a core."""
    call_seconds: float = Field(60.0, gt=0)
    """Deadline of one answer of such a process; then it is killed and the episode is a fault."""
    seed: int = 0
    """Draws the tasks; another seed draws others."""
    discovery_tasks: int = Field(400, ge=1)
    """Tasks on which the agent is diagnosed and adapters are trained."""
    validation_tasks: int = Field(200, ge=1)
    """Tasks for checks beside them, such as of the base model and of what is served."""
    test_tasks: int = Field(400, ge=1)
    """Tasks on which arms are compared; nothing is chosen on them."""

    @field_validator("options")
    @classmethod
    def _first_desk(cls, options: dict[str, Any]) -> dict[str, Any]:
        """The desk that it comes as leaves no trace, so that naming it makes nothing due."""
        return {} if options == {"desk": "a"} else options


class BaseModelSection(Section):
    """The policy that is diagnosed: trained from scratch for the embedded target, or any HF folder."""

    expert = frozenset(
        {
            "steps",
            "max_steps",
            "pass_rate_low",
            "pass_rate_high",
            "taught_rate",
            "lacking_rate",
            "check_tasks",
            "head_dim",
        }
    )

    added = frozenset({"lacking_rate", "head_dim", "size"})

    path: str = ""
    """HF folder or hub name; empty: train the tiny agent on the embedded target's demonstrations."""
    seed: int = 0
    """Of the initial weights, the demonstrations and their order."""
    steps: int = Field(1000, ge=1)
    """First budget of optimizer steps; retrained longer when the check on the result fails."""
    max_steps: int = Field(3000, ge=1)
    """Most optimizer steps that retraining may take."""
    pass_rate_low: float = Field(0.40, ge=0, le=1)
    """Least pass rate on validation tasks for the check on the result."""
    pass_rate_high: float = Field(0.65, ge=0, le=1)
    """Greatest pass rate on validation tasks: above it too little is left to find."""
    taught_rate: float = Field(0.90, ge=0, le=1)
    """What every well-taught skill must reach on validation tasks."""
    lacking_rate: float = Field(0.10, ge=0, le=1)
    """What a skill with a planted deficit must still reach: of what never succeeds nothing can be learned."""
    check_tasks: int = Field(400, ge=20)
    """Validation tasks played for that check."""
    head_dim: Literal[24, 32] = 24
    """Width of the tiny agent's attention heads; vLLM's CPU build serves 32 only."""
    size: Literal["tiny", "small"] = "tiny"
    """Of the agent that is trained: 0.4 million parameters, or 40 million, which wants a GPU."""


class Rollouts(Section):
    """How the base policy is rolled out on the discovery tasks."""

    expert = frozenset(
        {"dtype", "max_context", "concurrency", "seed", "retries", "timeout_seconds", "check_model"}
    )

    added = frozenset({"check_model", "dtype", "max_context"})
    idle = frozenset({"concurrency", "retries", "timeout_seconds"})

    engine: Literal["transformers", "vllm", "openai"] = "transformers"
    """`vllm` is vLLM's engine in this process, with `serving.kv_cache_gib` and `serving.extra`; `openai` any
    server."""
    dtype: str = "auto"
    """For `vllm` and `transformers`: `float32`, `bfloat16`; `auto` takes the model's own, on a CPU
    `transformers` then computes in float32."""
    max_context: int = Field(0, ge=0)
    """For `vllm`: longest conversation in tokens; 0 takes the model's own limit, for which the cache needs
    room."""
    base_url: str = ""
    """For `openai`: the server, such as http://127.0.0.1:8000/v1; several, separated by commas, share the
    load. The key comes from OPENAI_API_KEY."""
    model: str = ""
    """For `openai`: name of the model to ask for."""
    trials: int = Field(2, ge=1, le=MOST_TRIALS)
    """Episodes a task."""
    temperature: float = Field(1.0, ge=0)
    """Of sampling; 0 takes the likeliest token."""
    max_turns: int = Field(12, ge=1)
    """Assistant messages after which an episode is stopped."""
    max_new_tokens: int = Field(64, ge=1)
    """Longest assistant message, in tokens."""
    concurrency: int = Field(128, ge=1)
    """Episodes in flight at once."""
    seed: int = 0
    """Of sampling; each episode draws its own from it."""
    retries: int = Field(4, ge=0)
    """For `openai`: further attempts at a request that met passing trouble."""
    timeout_seconds: float = Field(60.0, gt=0)
    """For `openai`: longest wait for one answer, in seconds."""
    check_model: bool = True
    """For `openai`: an answer under another model's name than was asked for is a fault. false for gateways
    whose names are not their models'."""

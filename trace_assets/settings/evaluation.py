"""How tasks are routed, agents evaluated and served, and whether another round follows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from trace_assets.settings.section import MOST_TRIALS, Section


class Routing(Section):
    """How a task finds its adapter."""

    expert = frozenset({"set_costs", "seed"})

    added = frozenset({"set_costs"})

    router: Literal["classifier", "label_logits"] = "classifier"
    """The one whose choices the `routed` arm follows; both are scored."""
    unneeded_cost: float = Field(0.1, gt=0, le=1)
    """What applying an adapter costs where the base model lacks nothing, relative to what is lost where an
    adapter is needed and not applied. 0.1 routes to an adapter above a need of one in eleven."""
    set_costs: tuple[float, ...] = (0.3, 0.05, 0.02)
    """Costs that validation tries beside `unneeded_cost` where it decides which adapters act together; one of
    them is taken where it is ahead by more than one standard error. None of them: ()."""
    seed: int = 0
    """Of the training of the router."""

    @field_validator("set_costs")
    @classmethod
    def _costs_are_shares(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < cost <= 1 for cost in value):
            raise ValueError("each cost must lie above 0 and be 1 at most")
        return value


class EvaluationSection(Section):
    """How arms are compared on the test split."""

    expert = frozenset(
        {
            "max_turns",
            "max_new_tokens",
            "concurrency",
            "resamples",
            "temperature",
            "seed",
            "merges",
            "merge_density",
            "sum_scales",
            "engine",
            "dtype",
            "max_context",
        }
    )

    added = frozenset(
        {
            "merges",
            "merge_density",
            "engine",
            "dtype",
            "max_context",
            "compose",
            "sum_scales",
            "max_turns",
            "max_new_tokens",
        }
    )
    apart = frozenset({"concurrency"})

    trials: int = Field(4, ge=1, le=MOST_TRIALS)
    """Episodes a test task and arm."""
    max_turns: int = Field(12, ge=1)
    """Assistant messages after which an episode is stopped; as `rollouts.max_turns`."""
    max_new_tokens: int = Field(64, ge=1)
    """Longest assistant message, in tokens; as `rollouts.max_new_tokens`."""
    concurrency: int = Field(256, ge=1)
    """Episodes in flight at once, of each process."""
    resamples: int = Field(2000, ge=100)
    """Bootstrap resamples of tasks behind each interval."""
    temperature: float = Field(1.0, ge=0)
    """Of sampling; 0 takes the likeliest token."""
    seed: int = 0
    """Of sampling and resamples."""
    merges: tuple[Literal["linear", "ties", "dare_linear", "dare_ties"], ...] = ()
    """Ways to merge the adapters that a router may choose into one; each is an arm `merged:<way>` on the test
    tasks. Needs two adapters."""
    merge_density: float = Field(0.5, gt=0, le=1)
    """Share of an adapter's values that the ways other than `linear` keep."""
    compose: bool = True
    """Also play sums of adapters, where there are two or more: on validation tasks each pair and the sum of
    all, once a task; on test tasks the sets that the router and the oracle choose, and the sum of all."""
    sum_scales: tuple[float, ...] = ()
    """Scales of the summed weight changes that validation tries beside 1, the exact sum, such as .75 and .5:
    an episode a sum and validation task each."""
    engine: Literal["transformers", "vllm"] = "transformers"
    """Who plays the arms; `vllm` is vLLM's engine in this process, with `serving.kv_cache_gib` and
    `serving.extra`."""
    dtype: str = "auto"
    """As `rollouts.dtype`."""
    max_context: int = Field(0, ge=0)
    """For `vllm`, as `rollouts.max_context`."""

    @field_validator("sum_scales")
    @classmethod
    def _scales_are_positive(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < scale <= 2 for scale in value):
            raise ValueError("each scale must lie above 0 and be 2 at most")
        return tuple(scale for scale in dict.fromkeys(value) if scale != 1.0)


# How models are served over HTTP.


class Serving(Section):
    """How `trace serve` starts vLLM. It decides nothing that is stored: no asset hangs on it.

    Where vLLM plays inside the process (`rollouts.engine`, `evaluation.engine`), `kv_cache_gib` and `extra`
    hold for it as well: where and how fast it computes.
    """

    expert = frozenset(
        {
            "command",
            "dtype",
            "max_num_seqs",
            "tool_parser",
            "kv_cache_gib",
            "extra",
            "start_seconds",
            "parity_tasks",
            "tolerance",
        }
    )

    command: str = ""
    """vLLM's program; empty looks beside this interpreter, then on the PATH."""
    host: str = "127.0.0.1"
    """Address that the server listens at."""
    port: int = Field(8000, ge=1, le=65535)
    """Port that the server listens at."""
    dtype: str = "auto"
    """`float32` for the tiny model on a CPU; `auto` takes the model's own."""
    max_model_len: int = Field(0, ge=0)
    """Longest conversation in tokens; 0: what the model allows."""
    max_num_seqs: int = Field(64, ge=1)
    """Sequences that vLLM computes at once."""
    tool_parser: str = "hermes"
    """As `vllm serve --tool-call-parser` names them; empty leaves calls in the text."""
    kv_cache_gib: int = Field(1, ge=1)
    """Key/value cache of a CPU build."""
    extra: tuple[str, ...] = ()
    """Further arguments of `vllm serve`, such as `--tensor-parallel-size=2`."""
    compose: bool | None = None
    """Whether sums of adapters are served too: each pair that a router may choose, and the sum of all. The
    router of the study then sends an opening to one where it calls for several. Their ranks add up. Unset:
    where validation chose so."""
    start_seconds: float = Field(900.0, gt=0)
    """Longest wait until the server answers, in seconds."""
    parity_tasks: int = Field(16, ge=1)
    """Validation tasks played per adapter to compare the server with the trained model."""
    tolerance: float = Field(0.0, ge=0)
    """Largest difference of a log-probability, in nats; 0: 0.001 for float32, 0.25 for shorter floats."""


# Whether what was taught is the base policy of another round.


FIXED = ("targets", "base_model", "rounds")
"""Sections that a round cannot have of its own: all play one target, and each begins where the last ended."""


class Rounds(Section):
    """How often what was taught is taken for the base policy, played, diagnosed and taught on top of."""

    apart = frozenset({"most", "rollouts", "settings"})

    most: int = Field(1, ge=1, le=20)
    """Rounds at most; 1 plays none but the study itself."""
    min_gain: float = Field(0.01, ge=0, le=1)
    """A round whose agent passes less than this more of the validation tasks than the one before is the last,
    and is not taken."""
    rollouts: int = Field(0, ge=0)
    """No round is begun once so many training rollouts were spent by all; 0 sets no bound."""
    settings: dict[str, dict[str, dict[str, Any]]] = {}
    """What a later round has otherwise, by its number: `[rounds.settings.2.selection]`, then keys as in
    `[selection]`."""

    @field_validator("settings")
    @classmethod
    def _later_rounds(cls, value: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Any]:
        for number, sections in value.items():
            if not number.isascii() or not number.isdigit() or int(number) < 2 or number[0] == "0":
                raise ValueError(f"'{number}' is no later round: the first one has the settings of the study")
            for name in sections:
                if name in FIXED:
                    raise ValueError(f"round {number} cannot have its own [{name}]")
        return value

"""The agent: what it is, where it is rolled out, how it is routed, evaluated and served; further rounds."""

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

"""One TOML file, one section a stage, one fingerprint a section.

A section is all that its stage may be told: the Dagster graph has one `config/<section>` asset each, so
an edit re-computes only the stages that read the section.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trace_assets.cron import cron_error
from trace_assets.errors import InputError


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    added: ClassVar[frozenset[str]] = frozenset()
    """Keys that came with a later version: at their defaults they leave the fingerprint, and what was made
    before them, as it was."""

    def fingerprint(self) -> str:
        """Return a hash of the section's values, the same on every machine."""
        values = self.model_dump(mode="json")
        for name in self.added:
            if getattr(self, name) == type(self).model_fields[name].default:
                del values[name]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Targets(Section):
    """Which environment the agent is rolled out in, and how many tasks of it."""

    name: str = "embedded"
    """A live target; trajectories that were ingested carry their own target's name."""
    seed: int = 0
    discovery_tasks: int = Field(400, ge=1)
    validation_tasks: int = Field(200, ge=1)
    test_tasks: int = Field(400, ge=1)


class BaseModelSection(Section):
    """The policy that is diagnosed: trained from scratch for the embedded target, or any HF folder."""

    added = frozenset({"lacking_rate"})

    path: str = ""
    """HF folder or hub name; empty: train the tiny agent on the embedded target's demonstrations."""
    seed: int = 0
    steps: int = Field(1000, ge=1)
    """First budget of optimizer steps; retrained longer when the check on the result fails."""
    max_steps: int = Field(3000, ge=1)
    pass_rate_low: float = 0.40
    pass_rate_high: float = 0.65
    taught_rate: float = 0.90
    """What every well-taught skill must reach on validation tasks."""
    lacking_rate: float = Field(0.10, ge=0, le=1)
    """What a skill with a planted deficit must still reach: of what never succeeds nothing can be learned."""
    check_tasks: int = Field(400, ge=20)


class Rollouts(Section):
    """How the base policy is rolled out on the discovery tasks."""

    engine: Literal["transformers", "openai"] = "transformers"
    base_url: str = ""
    """For `openai`: the server, such as http://127.0.0.1:8000/v1. The key comes from OPENAI_API_KEY."""
    model: str = ""
    trials: int = Field(2, ge=1)
    temperature: float = Field(1.0, ge=0)
    max_turns: int = Field(12, ge=1)
    max_new_tokens: int = Field(64, ge=1)
    concurrency: int = Field(128, ge=1)
    seed: int = 0
    retries: int = Field(4, ge=0)
    timeout_seconds: float = Field(60.0, gt=0)


class Analyst(Section):
    """The server behind a model analyst, its prices and limits: nothing here changes a result.

    Which model is asked, and how, is said in `[discovery]` and `[labels]`. The key is in the environment.
    """

    base_url: str = ""
    """An OpenAI-compatible server, such as http://127.0.0.1:8000/v1."""
    key_variable: str = Field("OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    """Name of the environment variable that holds the key, never the key."""
    concurrency: int = Field(8, ge=1, le=512)
    """Requests in flight at once."""
    timeout_seconds: float = Field(120.0, gt=0)
    retries: int = Field(5, ge=0)
    """Further attempts at a request that met passing trouble; rate limits are waited for beside these."""
    pause_seconds: float = Field(0.5, ge=0)
    """Before the second attempt; each further pause is twice as long, up to eight seconds."""
    longest_wait_seconds: float = Field(300.0, ge=0)
    """Longest Retry-After that is kept to."""
    repairs: int = Field(4, ge=0)
    """How often an unusable answer is sent back with what is wrong about it."""
    reply_tokens: int = Field(8192, ge=64)
    """Longest reply; one that is cut off there is asked for in two halves."""
    prompt_usd: float = Field(0.0, ge=0)
    """Price of a million prompt tokens, in USD."""
    cached_usd: float | None = Field(None, ge=0)
    """The same for tokens that the server took from its prompt cache; None: as `prompt_usd`."""
    completion_usd: float = Field(0.0, ge=0)
    """Price of a million completion tokens, in USD."""
    cap_usd: float | None = Field(None, ge=0)
    """Most that this home may spend on model calls in all; then work stops, and what is finished is kept."""
    cap_calls: int | None = Field(None, ge=0)
    """The same in requests."""


class Discovery(Section):
    """Which capabilities are proposed."""

    added = frozenset(
        {"model", "temperature", "passes", "failures", "successes", "transcript_tokens", "seed", "split"}
    )

    analyst: Literal["detectors", "model", "both"] = "detectors"
    """Who proposes: `both` puts the candidates of detectors and of the model side by side."""
    min_support: int = Field(8, ge=1)
    """Trajectories that must show a deficit before it is proposed."""
    max_candidates: int = Field(24, ge=1)
    """Per target, by evidence."""
    split: Literal["none", "half"] = "none"
    """`half`: candidates come from one half of the tasks, and the contrast is estimated on the other. Needs
    twice the tasks; what a model proposes from outcomes it has read is honestly tested in no other way."""
    model: str = ""
    """The model that proposes, where `analyst` is `model` or `both`."""
    temperature: float = Field(1.0, ge=0, le=2)
    passes: int = Field(6, ge=1)
    """Batches that the model reads, each drawn anew."""
    failures: int = Field(6, ge=1)
    """Failed trajectories a batch."""
    successes: int = Field(6, ge=1)
    """Passed ones beside them, of the same tasks or else of similar ones."""
    transcript_tokens: int = Field(3000, ge=200)
    """Longest transcript in a batch; a longer one is compacted by the rule that its reader is told."""
    seed: int = 0


class TriageSection(Section):
    """To whom failures are put down."""

    model: str = ""
    """A model that looks again at failures which the rules leave to the agent; empty: the rules decide."""
    transcript_tokens: int = Field(24000, ge=200)


class Labels(Section):
    """How trajectories are labelled. Detectors are deterministic: one pass of theirs says all."""

    added = frozenset({"model", "temperature", "transcript_tokens"})

    model: str = ""
    """The model that labels. Empty: detectors alone label. Otherwise it labels every capability, those of
    detectors too, so that the two can be compared."""
    passes: int = Field(2, ge=2)
    """Independent passes of the model, each with the capabilities in another order."""
    temperature: float = Field(0.0, ge=0, le=2)
    transcript_tokens: int = Field(24000, ge=200)
    """Longest transcript; a longer one is compacted by the rule that its reader is told."""


class ContrastSection(Section):
    """How the contrast is estimated."""

    resamples: int = Field(1000, ge=100)
    permutations: int = Field(2000, ge=100)
    confidence: float = Field(0.95, gt=0.5, lt=1)
    seed: int = 0


class Selection(Section):
    """Which capabilities are worth an environment and an adapter."""

    added = frozenset(
        {"min_gap_low", "min_coverage_low", "min_varying_tasks", "override_agreement"}
        | {"cost", "cost_group_size", "prices"}
    )

    min_gap: float = Field(0.20, ge=-1, le=1)
    min_gap_low: float = Field(0.0, ge=-1, le=1)
    """What the lower bound of the gap must reach."""
    min_coverage: float = Field(0.10, ge=0, le=1)
    min_coverage_low: float = Field(0.05, ge=0, le=1)
    """What the lower bound of the coverage must reach."""
    max_q: float = Field(0.05, gt=0, le=1)
    min_relevant: int = Field(10, ge=1)
    """Relevant (not NA) trajectories required among failures and among successes."""
    min_marginal_coverage: float = Field(0.05, ge=0, le=1)
    """What it must cover beyond those already taken: two names of one deficit are not both bought."""
    min_alpha: float = Field(0.6, ge=-1, le=1)
    """Agreement between labellers or passes below which nothing is selected."""
    override_agreement: bool = False
    """Select in spite of too low an agreement; the reason then says so."""
    min_varying_tasks: int = Field(10, ge=2)
    """Tasks whose trials differ in label and outcome from which a candidate is rejected when the lacking
    trials of these tasks do not fail more often: then hard tasks are behind the gap, not the lack."""
    max_capabilities: int = Field(6, ge=1)
    cost: Literal["equal", "signal"] = "equal"
    """What greedy coverage is divided by: nothing, or the rollouts it takes to get a training signal."""
    cost_group_size: int = Field(8, ge=2)
    """Rollouts a group in `cost = "signal"`."""
    prices: dict[str, float] = {}
    """Price of one training by capability id or detector family, in any unit; 1 where none is given."""

    @field_validator("prices")
    @classmethod
    def _positive(cls, prices: dict[str, float]) -> dict[str, float]:
        for name, price in prices.items():
            if not price > 0:
                raise ValueError(f"the price of '{name}' must be above 0")
        return prices


class StabilitySection(Section):
    """How often the diagnosis is repeated to see what it would find in another study, and by chance."""

    resamples: int = Field(50, ge=10)
    """Studies on tasks drawn with replacement."""
    shuffles: int = Field(50, ge=10)
    """Studies with outcomes shuffled within the target."""
    seed: int = 0


class SandboxSection(Section):
    """Where generated code runs."""

    backend: Literal["docker", "bubblewrap", "auto", "unsafe-subprocess"] = "docker"
    memory_mb: int = Field(256, ge=64)
    cpus: float = Field(1.0, gt=0)
    deadline_seconds: float = Field(5.0, gt=0)


class Synthesis(Section):
    """How environments are written and audited."""

    writer: Literal["recipe"] = "recipe"
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


class Watch(Section):
    """Folders that are looked at for new files. Changes no result: it only says where they come from."""

    tasks: str = ""
    """Folder of task files (JSON lines); empty: `watch/tasks` in the home. Relative to the home."""
    trajectories: str = ""
    """Folder of trajectory files in any known format; empty: `watch/trajectories` in the home."""
    interval_seconds: int = Field(30, ge=1)
    """Between two looks."""
    settle_seconds: float = Field(2.0, ge=0)
    """A file that was touched more recently may still be growing and is left for the next look."""


class Schedule(Section):
    """When diagnosis and evaluation are brought up to date by themselves. Changes no result."""

    cron: str = ""
    """Five fields, such as `0 2 * * *` for every night at two; empty: never."""
    timezone: str = "UTC"

    @field_validator("cron")
    @classmethod
    def _cron_is_right(cls, value: str) -> str:
        if value.strip() and (problem := cron_error(value)) is not None:
            raise ValueError(f"this is not a cron expression: {problem}")
        return value.strip()

    @field_validator("timezone")
    @classmethod
    def _timezone_is_known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("no such time zone; give a name such as 'Europe/Berlin' or 'UTC'") from error
        return value


class Automation(Section):
    """What the Dagster daemon makes by itself. Changes no result, only when it is there."""

    gpu: bool = False
    """Also the layers that take a GPU or minutes of training; they wait for `trace sync` otherwise."""
    interval_seconds: int = Field(30, ge=1)
    """Between two looks at what changed."""


class Settings(Section):
    """The whole of `trace.toml`."""

    targets: Targets = Targets()
    base_model: BaseModelSection = BaseModelSection()
    rollouts: Rollouts = Rollouts()
    triage: TriageSection = TriageSection()
    discovery: Discovery = Discovery()
    labels: Labels = Labels()
    contrast: ContrastSection = ContrastSection()
    selection: Selection = Selection()
    stability: StabilitySection = StabilitySection()
    sandbox: SandboxSection = SandboxSection()
    synthesis: Synthesis = Synthesis()
    training: Training = Training()
    routing: Routing = Routing()
    evaluation: EvaluationSection = EvaluationSection()
    analyst: Analyst = Analyst()
    watch: Watch = Watch()
    schedule: Schedule = Schedule()
    automation: Automation = Automation()

    def section(self, name: str) -> Section:
        """Return one section by name."""
        value = getattr(self, name)
        assert isinstance(value, Section)
        return value


SERVICES = ("analyst", "watch", "schedule", "automation")
"""Sections that say when or by whom something is done and change no result: no asset hangs on them."""

SECTIONS: tuple[str, ...] = tuple(name for name in Settings.model_fields if name not in SERVICES)
"""Sections that feed a stage: one asset `config/<section>` each."""


def load_settings(path: Path | None = None, overrides: Sequence[str] = ()) -> Settings:
    """Read `trace.toml` and apply dotted overrides.

    Args:
        path: The file; None reads `trace.toml` in the working directory when there is one.
        overrides: Items such as `selection.min_gap=0.3`; values are TOML, bare words are strings.

    Raises:
        InputError: The file is not there or not TOML, or a key or value is not known.
    """
    file = path or Path("trace.toml")
    data: dict[str, Any] = {}
    if file.is_file():
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{file} is not valid TOML: {error}; mend the line it names.") from error
    elif path is not None:
        raise InputError(f"there is no configuration file {path}; leave --config away to use the defaults.")
    for item in overrides:
        _override(data, item)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        got = "what was given is not shown" if where.endswith("key_variable") else f"got {first['input']!r}"
        raise InputError(f"setting '{where}' in {file} or --set is not usable: {said} ({got}).") from error


def _override(data: dict[str, Any], item: str) -> None:
    name, equals, text = item.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot or not key:
        raise InputError(
            f"--set {item!r} is not of the form section.key=value, such as selection.min_gap=0.3."
        )
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table = data.setdefault(section, {})
    if not isinstance(table, dict):
        raise InputError(
            f"'{section}' in the configuration is a value, not a section: --set {item!r} has no place."
        )
    table[key] = value

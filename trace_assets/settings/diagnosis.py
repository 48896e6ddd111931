"""How failures are put down to faults, capabilities proposed, labelled, contrasted and selected."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from trace_assets.settings.section import Section, require_reasons

OWN_FIELDS = frozenset(
    {"model", "messages", "max_tokens", "max_completion_tokens", "n", "best_of", "stream", "stream_options"}
)
"""Fields of a request that no setting names."""


class Analyst(Section):
    """The server behind a model analyst, its prices and limits: nothing here changes a result.

    `model` is the one that triage, discovery and labels ask where their own sections name none; how each asks
    is said there. The key is in the environment.
    """

    expert = frozenset(
        {
            "concurrency",
            "timeout_seconds",
            "retries",
            "pause_seconds",
            "longest_wait_seconds",
            "repairs",
            "reply_tokens",
            "extra_body",
            "stream",
            "check_model",
            "cached_usd",
            "cap_calls",
        }
    )

    model: str = ""
    """The model of every stage that reads runs, where it names none of its own: it stands in `triage.model`,
    `discovery.model` (with `discovery.analyst = "both"`) and `labels.model`, and in `writer.model`."""
    base_url: str = ""
    """An OpenAI-compatible server, such as http://127.0.0.1:8000/v1."""
    key_variable: str = Field("OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    """Name of the environment variable that holds the key, never the key."""
    concurrency: int = Field(8, ge=1, le=512)
    """Requests in flight at once."""
    timeout_seconds: float = Field(600.0, gt=0)
    """Longest wait for one answer, which comes whole: 8,192 tokens take minutes on many servers. An answer
    that was not waited for is billed by most, and booked at its highest price."""
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
    effort: str = Field("", pattern=r"^[A-Za-z_-]{0,20}$")
    """Reasoning effort (`reasoning_effort`: `low`, `medium`, `high`), for models that know it; its tokens
    count in `reply_tokens`. Empty: nothing is said of it."""
    extra_body: dict[str, Any] = {}
    """Further fields of every request, for servers that want some: such as `{top_k = 20}`."""
    stream: bool = False
    """Have answers sent as they are written: `timeout_seconds` is then the longest pause within one, and no
    answer takes twenty of them."""
    check_model: bool = True
    """An answer under another model's name than was asked for ends the stage, for it would be remembered as
    the model's own. false for gateways whose names are not their models'."""
    recording: str = ""
    """File of a model's answers by the hash of their prompts. With `base_url` answers are added to it,
    without it they are replayed from it, with no key, at no cost; a prompt that is not in it is reported."""
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

    @field_validator("extra_body")
    @classmethod
    def _leaves_ours(cls, body: dict[str, Any]) -> dict[str, Any]:
        own = sorted(set(body) & OWN_FIELDS)
        if own:
            raise ValueError(f"'{own[0]}' is said by the program itself; a cap could not hold otherwise")
        return body


class WriterServer(Analyst):
    """The server behind the model that writes environments: nothing here changes a result.

    What is not said in `[writer]` is as in `[analyst]`. Both are paid from the home's one account, so a cap
    counts what the other has spent. How it is asked is said in `[synthesis]`.
    """

    model: str = ""
    """The model that writes environments and judges them, where `[synthesis]` names none: it stands in
    `synthesis.model` (with `synthesis.writer = "auto"`) and `synthesis.judge`."""
    timeout_seconds: float = Field(1800.0, gt=0)
    """As for the analyst; a whole module takes as long as many answers."""
    reply_tokens: int = Field(32768, ge=64)
    """As for the analyst; modules took 16,000 tokens, and reasoning counts too. A server that allows less is
    asked for less."""


class TriageSection(Section):
    """To whom failures are put down."""

    expert = frozenset({"transcript_tokens"})

    added = frozenset({"suspect_tasks", "lucky_passes", "policy", "run_overrides", "task_overrides"})

    model: str = ""
    """A model that looks again at failures which rules leave to the agent, or put down to a user who left;
    empty: the rules decide."""
    transcript_tokens: int = Field(24000, ge=200)
    """Longest transcript that the model reads; a longer one is compacted."""
    suspect_tasks: Literal["aside", "keep"] = "aside"
    """`aside`: runs of tasks whose ground truth is wrong by the records or the policy enter neither discovery
    nor contrast. `keep`: they enter them; failures on just what is wrong stay the ground truth's."""
    lucky_passes: tuple[Literal["no_write_needed", "against_policy", "another_state"], ...] = ()
    """Kinds of lucky passes that are left out of ER+ and of all that follows: those whose task asks for no
    change, those that broke the policy, those whose changes are not the expected ones. None by default: left
    out, they take lacking successes along, so a gap is wider than it is (docs/results.md)."""
    policy: str = ""
    """Policy whose runs alone enter discovery and contrast, by its name or how that begins; empty: all, each
    compared with itself. An adapter is named beside its policy: `policy + adapter`."""
    run_overrides: dict[str, str] = {}
    """Run id to `FAULT: why`, where you read a run and its failure is another's than the rules or the model
    say: `agent`, `user_simulator`, `ground_truth`, `environment`, `infrastructure`. `unjudged: why` takes out
    a run, passed or failed, whose reward is not to be trusted. Tables name the rule `override`."""
    task_overrides: dict[str, str] = {}
    """Task id to `sound: why` or `aside: why`, where you read a task: of a sound one no doubt counts, runs of
    one that is put aside enter no rate."""

    @field_validator("run_overrides")
    @classmethod
    def _says_whose_fault(cls, said: dict[str, str]) -> dict[str, str]:
        faults = ("agent", "user_simulator", "ground_truth", "environment", "infrastructure", "unjudged")
        require_reasons(said, faults)
        return said

    @field_validator("task_overrides")
    @classmethod
    def _says_whether_sound(cls, said: dict[str, str]) -> dict[str, str]:
        require_reasons(said, ("sound", "aside"))
        return said


class Discovery(Section):
    """Which capabilities are proposed."""

    expert = frozenset(
        {"split", "temperature", "passes", "failures", "successes", "transcript_tokens", "seed"}
    )

    added = frozenset(
        {"model", "temperature", "passes", "failures", "successes", "transcript_tokens", "seed", "split"}
        | {"size", "further"}
    )

    analyst: Literal["detectors", "model", "both"] = "detectors"
    """Who proposes: `both` puts the candidates of detectors and of the model side by side."""
    min_support: int | None = Field(None, ge=1)
    """Trajectories that must show a deficit before it is proposed. Unset: a tenth of the agent's failures, as
    selection asks for, but never fewer than three nor more than eight."""
    max_candidates: int = Field(24, ge=1)
    """Per target, by evidence."""
    split: Literal["none", "half"] = "none"
    """`half`: candidates come from one half of the tasks, and the contrast is estimated on the other. Needs
    twice the tasks; what a model proposes from outcomes it has read is honestly tested in no other way."""
    model: str = ""
    """The model that proposes, where `analyst` is `model` or `both`."""
    size: Literal["habit", "case"] = "habit"
    """What the model proposes. `case`: one rule, step or kind of fact that one environment can teach, resting
    on a sentence of the policy or a tool that is looked up; the policy's own rules are read first, in a
    request of their own, so that the candidates fit failures which nobody has read. `habit`: whatever is as
    general as its cause, which may fit nearly any failure."""
    further: int = Field(1, ge=0)
    """How often a failure that no candidate explains, by labels and causes, is read again for what did decide
    it: a request for every `failures` of them, and labels with what is new. A reading without a new candidate
    is the last of its failures; 0 leaves them unexplained."""
    temperature: float = Field(1.0, ge=0, le=2)
    """Of the model's sampling."""
    passes: int = Field(6, ge=1)
    """Batches that the model reads, each drawn anew."""
    failures: int = Field(6, ge=1)
    """Failed trajectories a batch."""
    successes: int = Field(6, ge=1)
    """Passed ones beside them, of the same tasks or else of similar ones."""
    transcript_tokens: int = Field(3000, ge=200)
    """Longest transcript in a batch; a longer one is compacted by the rule that its reader is told."""
    seed: int = 0
    """Of the draws: batches, and the halves of `split`."""

    def support(self, n_failed: int) -> int:
        """Return how many trajectories must show a deficit, in a study with so many failures of the agent.

        >>> [Discovery().support(n) for n in (6, 48, 500)], Discovery(min_support=9).support(6)
        ([3, 5, 8], 9)
        """
        return min(8, max(3, -(-n_failed // 10))) if self.min_support is None else self.min_support


class Labels(Section):
    """How trajectories are labelled. Detectors are deterministic: one pass of theirs says all."""

    expert = frozenset({"temperature", "transcript_tokens"})

    added = frozenset({"model", "temperature", "transcript_tokens", "causes", "overrides"})

    causes: bool = True
    """Have the model that labels say of each failed run which of its lacks decided the end: a request a
    run, after the labels, which stay blind."""
    model: str = ""
    """The model that labels. Empty: detectors alone label. Otherwise it labels every capability, those of
    detectors too, so that the two can be compared."""
    passes: int = Field(2, ge=2)
    """Independent passes of the model, each with the capabilities in another order."""
    temperature: float = Field(0.0, ge=0, le=2)
    """Of the model's sampling."""
    transcript_tokens: int = Field(24000, ge=200)
    """Longest transcript; a longer one is compacted by the rule that its reader is told."""
    overrides: dict[str, dict[str, str]] = {}
    """Capability (id or name) to run id to `LABEL: why`, where you read a run and its label is another:
    `NA`, `PRESENT` or `LACKING`. It stands in the place of every pass's, which then agree."""

    @field_validator("overrides")
    @classmethod
    def _says_which_label(cls, said: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for runs in said.values():
            require_reasons(runs, ("NA", "PRESENT", "LACKING"))
        return said


class ContrastSection(Section):
    """How the contrast is estimated."""

    expert = frozenset({"resamples", "permutations", "seed", "accept_empty"})

    added = frozenset({"accept_empty"})

    resamples: int = Field(1000, ge=100)
    """Bootstrap resamples of tasks behind each interval."""
    permutations: int = Field(2000, ge=100)
    """Permutations of outcomes behind each p-value."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Level of the intervals."""
    seed: int = 0
    """Of resamples and permutations."""
    accept_empty: bool = False
    """Select also on a model's labels whose ER+ is exactly 0, after reading them; the check then says so."""


class Selection(Section):
    """Which capabilities are worth an environment and an adapter."""

    expert = frozenset(
        {
            "min_gap_low",
            "min_coverage_low",
            "max_chance",
            "min_marginal_coverage",
            "min_alpha",
            "override_agreement",
            "min_varying_tasks",
            "cost",
            "cost_group_size",
            "prices",
        }
    )

    added = frozenset(
        {"min_gap_low", "min_coverage_low", "min_varying_tasks", "override_agreement"}
        | {"cost", "cost_group_size", "prices", "min_decisive", "max_chance", "overrides"}
    )

    min_gap: float = Field(0.20, ge=-1, le=1)
    """Least contrastive gap, ER- minus ER+."""
    min_gap_low: float = Field(0.0, ge=-1, le=1)
    """What the lower bound of the gap must reach."""
    min_coverage: float = Field(0.10, ge=0, le=1)
    """Least share of failures that lack the capability."""
    min_coverage_low: float = Field(0.05, ge=0, le=1)
    """What the lower bound of the coverage must reach."""
    max_q: float = Field(0.05, gt=0, le=1)
    """Greatest q-value (Benjamini-Hochberg) of the gap."""
    max_chance: float = Field(0.01, gt=0, le=1)
    """Greatest share of studies with shuffled outcomes in which anything as clear as the clearest candidate
    is found: in so many studies of nothing at all something is kept. 1 does not ask."""
    min_relevant: int = Field(10, ge=1)
    """Relevant (not NA) trajectories required among failures and among successes. Five are enough where
    `max_chance` holds: where tasks need several lacking skills, hardly any that needs one passes."""
    min_marginal_coverage: float = Field(0.05, ge=0, le=1)
    """What it must cover beyond those already taken: two names of one deficit are not both bought. Less will
    do for what is as frequent where those taken are in order: tasks may need several at once."""
    min_alpha: float = Field(0.6, ge=-1, le=1)
    """Agreement between labellers or passes below which nothing is selected."""
    override_agreement: bool = False
    """Select in spite of too low an agreement; the reason then says so."""
    min_varying_tasks: int = Field(10, ge=2)
    """Tasks whose trials differ in label and outcome from which a candidate is rejected when the lacking
    trials of these tasks do not fail more often: then hard tasks are behind the gap, not the lack."""
    min_decisive: float = Field(0.10, ge=-1, le=1)
    """Least decisive share beyond that of placebo repairs. Applied only where `min_relevant` failed runs or
    more could be repaired and replayed, and repairs are whole: nothing is rejected for want of a measure."""
    max_capabilities: int = Field(6, ge=1)
    """Most capabilities that are kept."""
    overrides: dict[str, str] = {}
    """Capability (id or name) that is kept whatever its figures say, with the reason in words. It stands in
    every table and in the report as kept by override, and is never counted as found."""
    cost: Literal["equal", "signal"] = "equal"
    """What greedy coverage is divided by: nothing, or the rollouts it takes to get a training signal."""
    cost_group_size: int = Field(8, ge=2)
    """Rollouts a group in `cost = "signal"`."""
    prices: dict[str, float] = {}
    """Price of one training by capability id or detector family, in any unit; 1 where none is given. What was
    measured comes in here, when you take it over (`trace sql training_prices`; docs/selection-costs.md)."""

    @field_validator("overrides")
    @classmethod
    def _reasons_are_given(cls, value: dict[str, str]) -> dict[str, str]:
        for name, reason in value.items():
            if len(reason.split()) < 2:
                raise ValueError(f"say in a few words why '{name}' is kept")
        return value

    @field_validator("prices")
    @classmethod
    def _positive(cls, prices: dict[str, float]) -> dict[str, float]:
        for name, price in prices.items():
            if not price > 0:
                raise ValueError(f"the price of '{name}' must be above 0")
        return prices


class RepairsSection(Section):
    """What may be spent on finding out whether a lack decides failures."""

    go_on: int = Field(0, ge=0)
    """Most episodes a batch in which the base policy itself goes on from a repaired run, where putting calls
    in or taking them out cannot tell; half of them are controls. 0 asks no model. Each costs what is left of
    a rollout."""


class StabilitySection(Section):
    """How often the diagnosis is repeated to see what it would find in another study, and by chance."""

    expert = frozenset({"seed"})

    resamples: int = Field(50, ge=10)
    """Studies on tasks drawn with replacement."""
    shuffles: int = Field(50, ge=10)
    """Studies with outcomes shuffled within the target."""
    seed: int = 0
    """Of the draws and shuffles."""

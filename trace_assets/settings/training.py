"""How environments are written and audited, and adapters trained in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from trace_assets.settings.section import Section


class SandboxSection(Section):
    """Where generated code runs."""

    expert = frozenset({"deadline_seconds", "recompute_share"})

    added = frozenset({"recompute_share"})
    apart = frozenset({"runtime"})
    idle = frozenset({"backend"})

    backend: Literal["docker", "bubblewrap", "auto", "unsafe-subprocess"] = "auto"
    """`auto` takes Docker where a daemon answers, otherwise bubblewrap, with a warning. Results are the same,
    and which it was is stored with them. `unsafe-subprocess` isolates nothing."""
    runtime: str = ""
    """Docker's runtime for sandboxes, such as `runsc` (gVisor) where the daemon has it; empty: its default.
    With one named, no other sandbox than Docker's is taken."""
    memory_mb: int = Field(256, ge=64)
    """Memory of one sandbox, in MiB."""
    cpus: float = Field(1.0, gt=0)
    """CPU cores of one sandbox."""
    deadline_seconds: float = Field(5.0, gt=0)
    """Longest time for one call into generated code, in seconds; then it is killed."""
    recompute_share: float = Field(0.02, ge=0, le=1)
    """Share of the episodes in generated environments that are played again in a fresh sandbox; a verdict
    that is not confirmed there rejects the environment and ends its training."""

    def deciding(self) -> dict[str, Any]:
        """Return the values that decide a result: whether anything is isolated is one of them."""
        unsafe = {"backend": self.backend} if self.backend == "unsafe-subprocess" else {}
        return super().deciding() | unsafe


class Synthesis(Section):
    """How environments are written and audited."""

    expert = frozenset(
        {
            "temperature",
            "seed",
            "mend_with_base",
            "excerpts",
            "excerpt_tokens",
            "contract_tokens",
            "audit_seeds",
            "audit_rollouts",
            "pass_low",
            "pass_high",
            "max_dead_groups",
        }
    )

    added = frozenset(
        {"model", "temperature", "seed", "mend_rounds", "mend_with_base", "judge", "no_verdict"}
        | {"excerpts", "excerpt_tokens", "contract_tokens"}
    )

    writer: Literal["recipe", "model", "auto"] = "recipe"
    """`auto`: a recipe where one fits, otherwise the model. The model's server is that of `[writer]`."""
    model: str = ""
    """The model that writes."""
    temperature: float = Field(1.0, ge=0, le=2)
    """Of the model's sampling."""
    seed: int = 0
    """Another one asks the same questions anew; equal questions are answered from memory."""
    mend_rounds: int = Field(5, ge=0, le=5)
    """How often the failed checks go back to the model before it is given up."""
    mend_with_base: bool = True
    """Where nothing else is wrong, also mend what rollouts of the base policy show (too easy, too hard)."""
    judge: str = ""
    """A model that is asked of each environment that nothing else rejects whether it pays what the policy and
    the capability ask for; empty: nobody is asked. Its server is that of `[writer]`."""
    no_verdict: Literal["warn", "reject"] = "warn"
    """What becomes of an environment of which the judge was asked something and gave no verdict (the cap, a
    refusal, answers that contradict each other): it may be trained on, with a warning, or it is rejected."""
    excerpts: int = Field(3, ge=0, le=12)
    """Transcripts that lack the capability which the model is shown, and as many that show it."""
    excerpt_tokens: int = Field(1500, ge=200)
    """Longest of them; a longer one is compacted by the rule that its reader is told."""
    contract_tokens: int = Field(12000, ge=1000)
    """Of the target's contract in the prompt; tools and policy are always shown whole."""
    audit_seeds: int = Field(64, ge=8)
    """Seeds of an environment that its audit tries."""
    audit_rollouts: int = Field(8, ge=2)
    """Base-policy episodes a seed, for the pass band and the dead groups."""
    pass_low: float = Field(0.05, ge=0, le=1)
    """Least pass rate of the base policy that the audit accepts."""
    pass_high: float = Field(0.80, ge=0, le=1)
    """Greatest pass rate of the base policy that the audit accepts."""
    max_dead_groups: float = Field(0.60, ge=0, le=1)
    """Greatest share of seeds on which all rollouts of the base policy end alike."""


class Training(Section):
    """GRPO. Defaults suit the tiny agent; presets for real models are in `trace_assets/training/presets/`."""

    expert = frozenset(
        {
            "lora_alpha",
            "warmup_iterations",
            "temperature",
            "concurrency",
            "epsilon",
            "beta",
            "max_grad_norm",
            "loss_type",
            "micro_batch",
            "validate_every",
            "validation_seeds",
            "validation_episodes",
            "save_every",
            "mixed_rollouts",
            "interference",
            "gradient_checkpointing",
            "redraws",
            "sampler_url",
            "sampler_command",
            "sampler_arguments",
            "sampler_gpus",
            "python",
            "image",
            "mounts",
            "processes",
            "shard",
            "accept_rejected",
            "pilot_share",
            "pilot_steps",
            "pilot_rate",
            "pilot_tasks",
            "pilot_search",
            "pilot_min_transfer",
            "pilot_hint",
            "wanted_signal",
        }
    )

    added = frozenset(
        {"accept_rejected", "pilot", "pilot_share", "pilot_steps", "pilot_rate", "pilot_tasks"}
        | {"pilot_search", "pilot_min_transfer", "pilot_hint", "wanted_signal", "redraws"}
        | {"sampler", "sampler_arguments", "single_arms", "interference", "warm_start", "mixed_rollouts"}
        | {"mixed_always", "demonstrate"}
    )
    came: ClassVar[Mapping[str, Any]] = {"warm_start": "never"}
    apart = frozenset(
        {"launcher", "python", "processes", "shard", "image", "gpus", "mounts"}
        | {"sampler_url", "sampler_command", "sampler_gpus", "report_to"}
    )
    beforehand: ClassVar[frozenset[str]] = added - {"redraws", "sampler", "sampler_arguments", "demonstrate"}
    """Keys that decide whether something is trained, and not how."""

    lora_rank: int = Field(8, ge=1)
    """Rank of the LoRA matrices."""
    lora_alpha: int = Field(16, ge=1)
    """LoRA scale; updates count alpha over rank."""
    learning_rate: float = Field(8e-3, gt=0)
    """Of the optimizer, after the warm-up."""
    warmup_iterations: int = Field(3, ge=0)
    """Iterations in which the learning rate rises to its value."""
    iterations: int = Field(22, ge=1)
    """Rounds of sampling and updating."""
    tasks_per_iteration: int = Field(16, ge=1)
    """Groups an iteration, one task each."""
    group_size: int = Field(8, ge=2)
    """Rollouts a group, whose mean reward is the baseline."""
    temperature: float = Field(1.0, gt=0)
    """Of sampling."""
    max_turns: int = Field(12, ge=1)
    """Assistant messages after which an episode is stopped."""
    max_new_tokens: int = Field(64, ge=1)
    """Of one assistant message."""
    concurrency: int = Field(128, ge=1)
    """Episodes in flight at once, of each process."""
    epsilon: float = Field(0.2, gt=0)
    """Clipping range of the probability ratio."""
    beta: float = Field(0.0, ge=0)
    """Weight of the KL penalty towards the base model; 0 leaves it out."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Norm to which gradients are clipped."""
    loss_type: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = "dapo"
    """How TRL's GRPO loss averages over tokens."""
    micro_batch: int = Field(0, ge=0)
    """Episodes a forward pass; 0 takes the whole iteration at once. Divides tasks x group."""
    validate_every: int = Field(6, ge=1)
    """Iterations between two looks at the held-out seeds."""
    validation_seeds: int = Field(64, ge=8)
    """Held-out tasks on which checkpoints are compared."""
    validation_episodes: int = Field(256, ge=8)
    """Held-out tasks, one fresh episode each, behind each of the two figures before and after training."""
    save_every: int = Field(6, ge=1)
    """Iterations between two checkpoints from which an interrupted training goes on."""
    mixed_arm: bool = True
    """Also train one adapter on the target itself with the same number of rollouts, for comparison."""
    mixed_rollouts: int = Field(0, ge=0)
    """Most rollouts of that adapter, which is one run however many machines there are. 0: as many as all
    capabilities have together, of eight of them at most, and those of later rounds."""
    mixed_always: bool = False
    """Train that adapter also where nothing is taught, with the rollouts of one capability: a tournament
    does, so that worlds without a capability are compared like any other."""
    single_arms: tuple[Literal["joint", "sequential", "together", "consolidated", "joining"], ...] = ()
    """Also train one adapter for all capabilities: with as many rollouts as theirs together in their
    environments at once (`joint`), in one after another (`sequential`), or in one that asks for all of them
    at once (`together`); or, with the rollouts of one of them, taught by the composed agent
    (`consolidated`). `joining` is one that acts in the sum of all alone:
    trained on top of it, with as many rollouts as they had together, so that what was learned apart acts
    together; GRPO on the target then has as many more. Needs two capabilities."""
    interference: bool = True
    """Compare the capabilities' policy gradients before any is trained, where there are two or more: one
    iteration's worth of rollouts each. Where two pull apart their adapters are never added up."""
    bf16: bool = False
    """Compute in bfloat16, on devices that can."""
    gradient_checkpointing: bool = False
    """Compute activations anew in the backward pass: less memory, more time."""
    warm_start: Literal["never", "when_dead"] = "when_dead"
    """`when_dead`: where a tenth of an environment's seeds never succeeds, or a pilot's GRPO moved nothing,
    the environment's oracle demonstrates tasks before GRPO, for half of the run's own rollouts. Elsewhere,
    and where nobody can demonstrate, training begins with GRPO; `never`: everywhere (docs/training.md)."""
    demonstrate: bool = False
    """In each group of which no episode succeeds the environment's oracle plays one in the place of the last:
    of a success rate of 0 nothing is amplified. What is played for it comes out of the run's own rollouts.
    Not where adapters are trained on the target itself, which has nobody to ask."""
    redraws: int = Field(0, ge=0, le=8)
    """How often an iteration draws other tasks in the place of groups without variance (DAPO's dynamic
    sampling). What that costs comes out of the run's own rollouts: it then ends some iterations earlier."""
    sampler: Literal["transformers", "server", "colocate"] = "transformers"
    """Who plays the episodes: the engine of this package; a vLLM server that is given the adapter before
    every batch (`server`); or vLLM in the training's own process (`colocate`)."""
    sampler_url: str = ""
    """For `server`: address of a running vLLM, or several separated by commas, that can read the training's
    folder; empty starts one for the length of the training."""
    sampler_command: str = ""
    """vLLM's program where one is started; empty looks beside the interpreter, then on the PATH."""
    sampler_arguments: tuple[str, ...] = ()
    """Further arguments of that program, such as `--tensor-parallel-size`, `4`."""
    sampler_gpus: str = ""
    """GPUs that the program started sees, such as `4,5,6,7`; empty shows it those of the training."""
    launcher: Literal["in_process", "pipes", "docker"] = "in_process"
    """Where adapters are trained: in the step's own process, or by Dagster Pipes in another interpreter
    (`pipes`), or in a container (`docker`). What was started there ends with the step, whatever ends that."""
    python: str = ""
    """Interpreter for `pipes` and `docker`, with this package and its train extra; empty takes the present
    one, in a container `python3`."""
    image: str = ""
    """Image for `docker`, with this package and its train extra: `sandboxes/trainer.Dockerfile` makes one."""
    gpus: str = ""
    """GPUs that a container is given: `all`, or numbers or ids such as `0,1`; empty gives none."""
    mounts: tuple[str, ...] = ()
    """Further folders and files that a container sees, at the same path and read-only. The home, and the
    model that `base_model.path` names, it sees anyway."""
    processes: int = Field(1, ge=1)
    """Processes that train together, one a GPU, each on its share of the tasks of an iteration; they must
    divide `tasks_per_iteration`. The adapter is the same up to the rounding of sums. Not with launcher
    `in_process`."""
    shard: bool = False
    """Divide the model among the processes (FSDP) instead of holding all of it in each: for a model that does
    not fit one device."""
    report_to: tuple[Literal["trackio", "wandb", "mlflow", "tensorboard"], ...] = ()
    """Experiment trackers that are sent the trainer's figures, each with its own package and variables; some
    send them to a server elsewhere. TensorBoard's files go to `runs/`. No result hangs on it."""
    seed: int = 0
    """Of initial weights, draws and sampling."""
    accept_rejected: dict[str, str] = {}
    """Capability (id or name) whose environment its audit rejected and which is trained on all the same, with
    the reason in words. The override stands in the verdict, and with whatever was trained so."""
    pilot: Literal["gate", "warn", "off"] = "gate"
    """Whether a pilot goes before an adapter's run. `gate`: one that shows that the reward buys nothing on
    the target keeps the run from being made; `warn` only says so: for targets whose tasks mostly need several
    skills at once, where one alone passes hardly any."""
    pilot_share: float = Field(0.02, gt=0, le=0.25)
    """Of the run's rollouts."""
    pilot_steps: int = Field(3, ge=2)
    """Optimizer steps, each followed by a look at the environment and the target."""
    pilot_rate: float = Field(2.0, gt=0)
    """Learning rate of the pilot over that of the run."""
    pilot_tasks: int = Field(64, ge=8)
    """Held-out seeds, and discovery tasks of the target that need the capability, at each look."""
    pilot_search: int = Field(288, ge=8)
    """Discovery tasks that are played once to find those."""
    pilot_min_transfer: float = Field(0.25, ge=0, le=1)
    """Share of the reward's gain that the target must be able to show, given its interval."""
    pilot_hint: bool = False
    """Before the pilot, tell the base model in words what it lacks, and on the same failed tasks something
    else of equal length: whether the lack is a cause, and whether words alone mend it. Where neither these
    words nor the pilot show anything, no run is made, also with `pilot = "warn"`."""
    wanted_signal: float = Field(0.5, gt=0, lt=1)
    """Share of groups with both outcomes for which the needed group size is reported."""

    @field_validator("accept_rejected")
    @classmethod
    def _reasons_are_given(cls, value: dict[str, str]) -> dict[str, str]:
        for name, reason in value.items():
            if len(reason.split()) < 2:
                raise ValueError(f"say in a few words why '{name}' is trained on a rejected environment")
        return value

    @property
    def begins_warm(self) -> bool:
        """Whether demonstrations may come before GRPO: a model divided among processes learns none."""
        return self.warm_start == "when_dead" and not self.shard

    def unaided(self) -> Training:
        """Return the settings of a training in which no oracle is asked, as on the target itself."""
        return self.model_copy(update={"demonstrate": False})

    def recipe(self) -> dict[str, Any]:
        """Return the values that decide how an adapter is trained; later keys only where they are set."""
        fields = type(self).model_fields
        return {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if name not in self.beforehand | self.apart
            and not (name in self.added and getattr(self, name) == fields[name].default)
        }

    def recipe_version(self) -> str:
        """Return a hash of `recipe`."""
        text = json.dumps(self.recipe(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

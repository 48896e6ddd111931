"""What an arm of its own is: what it needs, whether it applies to a world, how it is made and booked."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trace_assets.errors import InputError
from trace_assets.evaluation.arms import PROCESSES, ROUND, ROUTED, compose
from trace_assets.evaluation.test_set_log import Configuration, open_test_split
from trace_assets.evaluation.variants import Limits, PolicyMaker, play_variants, transformers_policy
from trace_assets.records import NO_ADAPTER, Adapter, Evaluation, SelectedCapability, Task, Trajectory
from trace_assets.resources.policy import base_checkpoint, base_folder, open_evaluation_vllm
from trace_assets.store.files import make_folder, write_text
from trace_assets.study import Study
from trace_assets.targets.protocol import Target

if TYPE_CHECKING:
    from trace_assets.training.episodes import Player
    from trace_assets.training.run import TrainablePolicy


KINDS = ("training", "discovery", "audits", "pilots", "gradient probe", "checkpoint looks", "validation")
"""Kinds of rollouts, as `spending_by_arm` has them, in its order."""
VERDICTS = "verdicts of the target"
"""Those of all of them that the target judged, and no environment."""


@dataclass(frozen=True)
class PlayedWorld:
    """A world whose loop is finished: what an arm is made from.

    Attributes:
        number: Of the world.
        study: Its home and settings. Nothing is written there but that the test split was opened.
        items: Its settings, each `section.key=value`.
        ours: The arm that the study is for.
    """

    number: int
    study: Study
    items: Sequence[str]
    ours: str = ROUTED

    @property
    def budget(self) -> int:
        """Training rollouts of all that the arm acts with: what a rival may spend.

        Of an agent after several rounds they are those of all rounds, as GRPO on the target is given them.
        """
        kinds: tuple[str, ...] = ("capability",) if self.ours == ROUTED else ("capability", "joining")
        if self.ours.startswith(ROUND):
            kinds = ("mixed",)
        return sum(row.rollouts for row in self.study.store.read(Adapter) if row.kind in kinds)

    @property
    def unfunded(self) -> str:
        """Why a rival has no rollouts to be equal to, empty where it has: nothing was trained."""
        if self.budget:
            return ""
        return "no adapter was trained in this world, so there are no rollouts to be equal to"

    @contextmanager
    def base_player(self, target: Target, folder: Path) -> Iterator[tuple[TrainablePolicy, Player]]:
        """Open the base model as training samples from it, and who plays with it."""
        from trace_assets.training.episodes import Player
        from trace_assets.training.sampler import open_sampler

        section = self.study.settings.training
        with (
            open_sampler(base_folder(self.study), section, folder) as policy,
            Player(
                target,
                policy,
                seed=section.seed,
                max_turns=section.max_turns,
                concurrency=section.concurrency,
            ) as player,
        ):
            yield policy, player

    def compared_on(self, target: Target) -> Sequence[Task]:
        """Return the validation tasks of a target on which training compares checkpoints."""
        from trace_assets.training.validation import split_held_out

        section = self.study.settings.training
        return split_held_out(
            target.tasks("validation"), section.validation_seeds, section.validation_episodes
        )[0]

    def candidates(self, *, kept: bool) -> list[str]:
        """Return the capabilities of the world's own target that its diagnosis kept, or that it rejected."""
        rows = self.study.store.read(SelectedCapability)
        name = self.study.settings.targets.name
        return sorted(row.capability_id for row in rows if row.kept == kept and row.target == name)

    def on_test(
        self,
        arm: str,
        folder: Path,
        identity: str,
        *,
        adapter: Path | None = None,
        maker: PolicyMaker | None = None,
    ) -> list[Evaluation]:
        """Play an arm on the world's test tasks, with the trials and seeds of its other arms.

        Args:
            arm: Its name.
            folder: Of the arm; finished episodes are kept there.
            identity: Content hash of what acts.
            adapter: PEFT folder of the adapter that acts on all tasks; None for the base model.
            maker: Makes who acts; None for the engine of the world's evaluation.
        """
        study, section = self.study, self.study.settings.evaluation
        self.open_test_tasks({arm: identity})
        variant = arm if adapter else NO_ADAPTER
        tasks = list(study.target.tasks("test"))
        if not tasks:
            raise InputError(f"target '{study.target.name}' has no test tasks: there is nothing to play.")
        played = play_variants(
            study.target,
            tasks,
            [variant],
            maker or self.policy_maker({arm: adapter} if adapter else {}),
            section,
            folder / "episodes",
            # vLLM's engine is one batch, and takes all cores or the accelerator.
            processes=1 if section.engine == "vllm" else PROCESSES,
            limits=self._limits,
        )
        choices = dict.fromkeys((task.task_id for task in tasks), variant)
        return compose(arm, choices, tasks, section.trials, played)

    def policy_maker(self, adapters: Mapping[str, Path]) -> PolicyMaker:
        """Return what makes the engine of the world's evaluation.

        Args:
            adapters: Name to PEFT folder.
        """
        study, section = self.study, self.study.settings.evaluation
        if section.engine == "vllm":
            return partial(open_evaluation_vllm, study, adapters)
        return partial(transformers_policy, base_folder(study), adapters, section, self._limits)

    @property
    def _limits(self) -> Limits:
        section = self.study.settings.evaluation
        return Limits(section.max_turns, section.max_new_tokens, section.concurrency)

    def open_test_tasks(self, shown: Mapping[str, str]) -> None:
        """Note in the world's home who is about to see its test tasks.

        Args:
            shown: Name to content hash.
        """
        open_test_split(
            self.study.home.path / "test_split.json",
            Configuration(
                target=self.study.target.version,
                base=base_checkpoint(self.study).base_id,
                adapters=dict(shown),
                routing="",
            ),
        )


@dataclass
class Meter:
    """What the making of an arm took; test episodes are no part of it.

    Attributes:
        alone: Kind to quantity, `VERDICTS` beside them; a kind that is not named was not recorded.
        wall: Seconds.
        cpu: Seconds, finished child processes included.
        dollars: Paid to models; None where a price was not told.
    """

    alone: dict[str, float] = field(default_factory=dict)
    wall: float = 0.0
    cpu: float = 0.0
    dollars: float | None = 0.0

    @classmethod
    def of_nothing(cls) -> Meter:
        """Return that of an arm for which nothing is trained and nothing is played beside the test tasks."""
        return cls(dict.fromkeys((*KINDS, VERDICTS), 0.0))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure the time of the body."""
        wall, cpu = time.monotonic(), _cpu_seconds()
        yield
        self.wall += time.monotonic() - wall
        self.cpu += _cpu_seconds() - cpu

    def spent(self, episodes: int, shared: Mapping[str, float | None] | None = None) -> list[dict[str, Any]]:
        """Return rows as `spending_by_arm` has them.

        Args:
            episodes: On test tasks.
            shared: Kind to what the arm needs of what others need too, None where it is not known; nothing
                is shared of a kind that is not named.
        """
        common = dict(shared or {})
        counts: dict[str, float | None] = {kind: self.alone.get(kind) for kind in KINDS}
        everything = [common.get(kind, 0.0) for kind in KINDS]
        common["rollouts in all"] = _sum(everything)
        counts["rollouts in all"] = _sum(list(counts.values()))
        counts["evaluation"] = float(episodes)
        rows: list[tuple[str, str, float | None]] = [(kind, "episodes", one) for kind, one in counts.items()]
        rows += [("tokens of the agent", "tokens", None), ("wall", "s", self.wall), ("cpu", "s", self.cpu)]
        rows += [("dollars", "USD", self.dollars), (VERDICTS, "episodes", self.alone.get(VERDICTS))]
        places = {"dollars": 17, VERDICTS: 8}
        return [
            {
                "kind": kind,
                "unit": unit,
                "marginal": value,
                "all_in": _sum([value, common.get(kind, 0.0)]),
                "place": places.get(kind, n),
            }
            for n, (kind, unit, value) in enumerate(rows, start=1)
        ]


def metered(folder: Path, make: Callable[[], Mapping[str, float]]) -> Meter:
    """Make what an arm acts with, once: what it took is kept beside it, as `spending.json`.

    Of an attempt that was killed the rollouts count, if they are counted by `make`, and the time does not.
    """
    done = folder / "spending.json"
    if not done.is_file():
        meter = Meter(dict.fromkeys(KINDS, 0.0))
        with meter.running():
            meter.alone |= make()
        found = {"alone": meter.alone, "wall": meter.wall, "cpu": meter.cpu}
        make_folder(folder)
        write_text(done, json.dumps(found) + "\n")
    return Meter(**json.loads(done.read_bytes()))


def _sum(values: Sequence[float | None]) -> float | None:
    """Add up; one that is not known leaves the sum so."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _cpu_seconds() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@dataclass(frozen=True)
class Made:
    """What an arm came to in a world.

    Attributes:
        rows: Its test episodes, under its name.
        spent: As `spending_by_arm` has it, without world and arm.
        note: What is to be known of how it was made, a sentence without its full stop.
    """

    rows: Sequence[Evaluation]
    spent: Sequence[Mapping[str, Any]]
    note: str = ""


class Arm(Protocol):
    """A rival, or a control, that the loop itself does not hold."""

    @property
    def name(self) -> str:
        """As tables have it."""
        ...

    @property
    def about(self) -> str:
        """What it is, in a sentence."""
        ...

    @property
    def needs(self) -> str:
        """What it takes that others may not have."""
        ...

    def refusal(self, world: PlayedWorld) -> str:
        """Say why it does not apply to a world, empty where it does: what does not apply has no rate."""
        ...

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Make it and play it on the world's test tasks.

        Args:
            world: The world.
            folder: For all that it makes. What is there from an attempt that was killed may be taken up.
        """
        ...


def written(one: Trajectory) -> str:
    r"""Return what was said and called, a line a message; the policy, which is told elsewhere, is left out.

    >>> from trace_assets.records import Message
    >>> said = (Message(role="system", content="Rules."), Message(role="user", content="Hello."))
    >>> ids = {"trajectory_id": "a", "task_id": "t", "target": "d", "task_batch": "all", "policy": "p"}
    >>> written(Trajectory(**ids, messages=said))
    'user: Hello.'
    """
    lines = []
    for message in one.messages:
        if message.role == "system":
            continue
        calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
        lines.append(f"{message.role}: {' '.join([message.content or '', *calls]).strip()}")
    return "\n".join(lines)

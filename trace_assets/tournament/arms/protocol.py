"""What an arm of its own is: what it needs, whether it applies to a world, how it is made and booked."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from trace_assets.evaluation.arms import evaluate_sums
from trace_assets.evaluation.test_set_log import Configuration, open_test_split
from trace_assets.evaluation.variants import Limits, PolicyMaker
from trace_assets.records import Adapter, Evaluation
from trace_assets.resources.policy import base_checkpoint, base_folder, open_vllm
from trace_assets.study import Study

KINDS = ("training", "discovery", "audits", "pilots", "gradient probe", "checkpoint looks", "validation")
"""Kinds of rollouts, as `spending_by_arm` has them, in its order."""


@dataclass(frozen=True)
class PlayedWorld:
    """A world whose loop is finished: what an arm is made from.

    Attributes:
        number: Of the world.
        study: Its home and settings. Nothing is written there but that the test split was opened.
        items: Its settings, each `section.key=value`.
    """

    number: int
    study: Study
    items: Sequence[str]

    @property
    def budget(self) -> int:
        """Training rollouts of the capabilities' adapters together: what a rival may spend."""
        return sum(row.rollouts for row in self.study.store.read(Adapter) if row.kind == "capability")

    def on_test(
        self, arm: str, folder: Path, adapter: tuple[str, Path], maker: PolicyMaker | None = None
    ) -> list[Evaluation]:
        """Play one adapter on the world's test tasks, with the trials and seeds of its other arms.

        Args:
            arm: Name of the arm.
            folder: Of the arm; finished episodes are kept there.
            adapter: Its content hash and its PEFT folder.
            maker: Makes who acts; None for the engine of the world's evaluation.
        """
        identity, path = adapter
        study, section = self.study, self.study.settings.evaluation
        self.open_test_tasks({arm: identity})
        limits = Limits(section.max_turns, section.max_new_tokens, section.concurrency)
        if maker is None and section.engine == "vllm":
            maker = partial(
                open_vllm,
                study,
                section,
                {arm: path},
                max_new_tokens=limits.max_new_tokens,
                concurrency=limits.concurrency,
                seed=section.seed,
            )
        rows, _ = evaluate_sums(
            study.target,
            base_folder(study),
            {arm: path},
            section,
            folder / "episodes",
            **({"processes": 1} if maker is not None else {}),
            split="test",
            limits=limits,
            make_policy=maker,
            trials=section.trials,
        )
        return [row.model_copy(update={"arm": arm}) for row in rows]

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
        alone: Kind to quantity; a kind that is not named was not recorded.
        wall: Seconds.
        cpu: Seconds, finished child processes included.
        dollars: Paid to models; None where a price was not told.
    """

    alone: dict[str, float] = field(default_factory=dict)
    wall: float = 0.0
    cpu: float = 0.0
    dollars: float | None = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure the time of the body."""
        wall, cpu = time.monotonic(), _cpu_seconds()
        yield
        self.wall += time.monotonic() - wall
        self.cpu += _cpu_seconds() - cpu

    def spent(self, episodes: int) -> list[dict[str, Any]]:
        """Return rows as `spending_by_arm` has them; nothing of it is shared.

        Args:
            episodes: On test tasks.
        """
        counts: dict[str, float | None] = {kind: self.alone.get(kind) for kind in KINDS}
        known = [value for value in counts.values() if value is not None]
        counts["rollouts in all"] = sum(known) if len(known) == len(KINDS) else None
        counts["evaluation"] = float(episodes)
        rows: list[tuple[str, str, float | None]] = [(kind, "episodes", one) for kind, one in counts.items()]
        rows += [("tokens of the agent", "tokens", None), ("wall", "s", self.wall), ("cpu", "s", self.cpu)]
        places = {"dollars": 17}
        return [
            {"kind": kind, "unit": unit, "marginal": value, "all_in": value, "place": places.get(kind, n)}
            for n, (kind, unit, value) in enumerate([*rows, ("dollars", "USD", self.dollars)], start=1)
        ]


def _cpu_seconds() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@dataclass(frozen=True)
class Made:
    """What an arm came to in a world.

    Attributes:
        rows: Its test episodes, under its name.
        spent: As `spending_by_arm` has it, without world and arm.
    """

    rows: Sequence[Evaluation]
    spent: Sequence[Mapping[str, Any]]


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

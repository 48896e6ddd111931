"""Is it a missing skill, or a missing instruction? Arms that train nothing and are told something."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trace_assets.errors import require_extra
from trace_assets.evaluation.variants import PolicyMaker
from trace_assets.policies.advised import AdvisedPolicy, Place, reads_system
from trace_assets.policies.protocol import Policy
from trace_assets.records import Capability, Label, LedgerEntry, Trajectory
from trace_assets.resources.policy import base_folder
from trace_assets.store.content import text_version
from trace_assets.store.trajectories import read_trajectories
from trace_assets.targets.embedded.generator import HINTS, MIXES
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.tournament.arms.protocol import VERDICTS, Made, Meter, PlayedWorld, written


@dataclass(frozen=True)
class Advice:
    """What the base model is told besides its task.

    Attributes:
        text: The words.
        place: In a system message before all others, or at the end of the user's first message.
        of: How many capabilities it speaks of.
        is_diagnosed: Whether it comes from the diagnosis, whose rollouts it then rests on.
    """

    text: str
    place: Place
    of: int
    is_diagnosed: bool


class _Prompted:
    """The base model with some words more; whoever says which words names the arm."""

    name = ""
    needs = "a model that reads what it is told"

    def words(self, world: PlayedWorld) -> Advice | str:
        """Return the words, or why there are none."""
        raise NotImplementedError

    def refusal(self, world: PlayedWorld) -> str:
        """The base model cannot read the words, or there are none."""
        found = self.words(world)
        if isinstance(found, str):
            return found
        return unread(world) if found.place == "system" else ""

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Play the base model with the words on the world's test tasks."""
        require_extra("torch", "train", f"the arm {self.name}")
        advice = self.words(world)
        assert isinstance(advice, Advice), "asked for where it does not apply"
        maker = partial(advised, world.policy_maker({}), advice.text, advice.place)
        rows = world.on_test(self.name, folder, text_version(advice.place, advice.text), maker=maker)
        meter = Meter.of_nothing()
        shared = _discovery(world) if advice.is_diagnosed else {}
        many = "capability" if advice.of == 1 else "capabilities"
        told = f"{len(advice.text.split())} words on {advice.of} {many}, the same on every task"
        return Made(rows, meter.spent(len(rows), shared), told)


def unread(world: PlayedWorld) -> str:
    """Say why the base model would not read words in a system message, empty where it would."""
    if reads_system(base_folder(world.study)):
        return ""
    return "the base model's chat template leaves system messages out, so it would not read the words"


class Hints(_Prompted):
    """The capabilities as instructions: the target's own advice where it has some, else the diagnosis's."""

    name = "hints"
    about = "The base model, told in words what it lacks; nothing is trained."

    def words(self, world: PlayedWorld) -> Advice | str:
        """Return the instructions."""
        target = world.study.target
        if isinstance(target, EmbeddedTarget) and target.options.hints:
            own = [HINTS[skill] for skill in MIXES[target.desk] if skill in HINTS]
            sentences = list(dict.fromkeys(own))
            return Advice(" ".join(sentences), "user", len(own), False)
        kept = world.candidates(kept=True)
        if not kept:
            return "the diagnosis kept no capability, so there is nothing to say"
        texts = {row.capability_id: row.description or row.name for row in world.study.store.read(Capability)}
        lines = "\n".join(f"- {texts[name]}" for name in kept)
        return Advice(f"Take care of the following.\n{lines}", "system", len(kept), True)


class FewShot(_Prompted):
    """A success for each capability in the context: a discovery run in which it was needed and shown."""

    name = "few_shot"
    about = "The base model, shown one of its own successes for each capability; nothing is trained."

    def words(self, world: PlayedWorld) -> Advice | str:
        """Return the successes as text."""
        kept = world.candidates(kept=True)
        if not kept:
            return "the diagnosis kept no capability, so there is nothing to show"
        store = world.study.store
        passed = {
            row.trajectory_id: row for row in read_trajectories(store, world.study.live_batch) if row.success
        }
        shown: dict[str, Trajectory] = {}
        for row in sorted(store.read(Label), key=lambda row: row.trajectory_id):
            if row.capability_id in kept and row.label == "PRESENT" and row.trajectory_id in passed:
                shown.setdefault(row.capability_id, passed[row.trajectory_id])
        if not shown:
            return "no success shows any of the kept capabilities"
        parts = [f"Example {n}:\n{written(one)}" for n, one in enumerate(shown.values(), start=1)]
        return Advice("\n\n".join(parts), "system", len(shown), True)


def _discovery(world: PlayedWorld) -> dict[str, float | None]:
    """Return what words from the diagnosis rest on: its rollouts are known, the rest is not told apart."""
    booked = [
        row.quantity
        for row in world.study.store.read(LedgerEntry)
        if (row.asset, row.kind) == ("trajectories", "rollouts")
    ]
    played = sum(booked) if booked else None
    return {"discovery": played, VERDICTS: played, "wall": None, "cpu": None, "dollars": None}


def advised(make: PolicyMaker, text: str, place: Place) -> Policy:
    """Make a policy that is told something in every conversation.

    Args:
        make: Makes who acts.
        text: The words.
        place: Where they stand.
    """
    policy: Policy = AdvisedPolicy(make(), text, place)
    return policy

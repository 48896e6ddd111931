"""Controls: arms that train nothing and are told something, and the whole loop on other capabilities.

Is it a missing skill, or a missing instruction? And does the diagnosis matter?
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from trace_assets.errors import require_extra
from trace_assets.evaluation.arms import BASE, ROUTED
from trace_assets.evaluation.variants import PolicyMaker
from trace_assets.policies.protocol import AdvisedPolicy, Place, Policy, reads_system
from trace_assets.records import Adapter, Capability, Contrast, Evaluation, Label, LedgerEntry, Trajectory
from trace_assets.resources.analysts import Evidence, evidence_by_target
from trace_assets.resources.policy import base_folder, trained_folder
from trace_assets.store import Home, Store
from trace_assets.store.content import text_version
from trace_assets.store.trajectories import read_trajectories
from trace_assets.targets.embedded.generator import HINTS, MIXES
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.tournament.arms.protocol import VERDICTS, Made, Meter, PlayedWorld, written
from trace_assets.tournament.process import play_home, toml
from trace_assets.tournament.results import spent_in


class _OtherChoice:
    """Everything as in the world, but for the choice of what is taught.

    The loop is played on what is chosen in a home of its own, by the setting `selection.overrides`. Where
    nothing is chosen, or nothing of it could be taught, the arm stands at what such a loop answers with, the
    base model: that is what such a choice is worth. Where the choice is the diagnosis's own, the arm is the
    world's own loop, and nothing is played again.
    """

    name: str
    needs = "environments, and a loop of its own"
    how: str
    """What is said before the names that were chosen."""

    def choose(self, world: PlayedWorld) -> list[str]:
        """Return what is taught."""
        raise NotImplementedError

    def refusal(self, world: PlayedWorld) -> str:
        """Nothing was kept: then there is no choice to be compared with."""
        kept = world.candidates(kept=True)
        return "" if kept else "the diagnosis kept no capability, so there is no choice to compare with"

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Play the loop on what is chosen, and read its own arm off it."""
        kept, chosen = world.candidates(kept=True), sorted(self.choose(world))
        world.open_test_tasks({self.name: text_version(*chosen)})
        if chosen == kept:
            rows = self._rows(world, world.study.store)
            return Made(rows, _spent(world, world.study.home), "chose what the diagnosis kept")
        if not chosen:
            rows = self._rows(world, world.study.store, BASE)
            nothing = Meter.of_nothing().spent(len(rows))
            return Made(rows, nothing, "chose nothing, so it is the base model")
        _lend_base(world, folder / "home")
        settings = {
            "selection.overrides": dict.fromkeys(chosen, f"{self.how}, a control of the tournament"),
            "selection.min_gap": 1.0,
            "selection.min_gap_low": 1.0,
            "training.mixed_arm": False,
            "training.single_arms": [],
        }
        mine = [item for item in world.items if item.partition("=")[0] not in settings]
        items = [*mine, *(f"{name}={toml(value)}" for name, value in settings.items())]
        play_home(folder, items, f"arm {self.name} of world {world.number}")
        home = Home.open(folder / "home", writable=False)
        rows = self._rows(world, Store.of(home))
        return Made(rows, _spent(world, home), self._told(chosen, kept, Store.of(home)))

    def _rows(self, world: PlayedWorld, store: Store, only: str = "") -> list[Evaluation]:
        played = [row for row in store.read(Evaluation) if row.split == "test"]
        arms = {row.arm for row in played}
        chosen = only or next((arm for arm in (world.ours, ROUTED, BASE) if arm in arms), None)
        if chosen is None:  # no adapter was left, so that its test tasks stayed sealed
            played = [row for row in world.study.store.read(Evaluation) if row.split == "test"]
            chosen = BASE
        return [row.model_copy(update={"arm": self.name}) for row in played if row.arm == chosen]

    def _told(self, chosen: list[str], kept: list[str], store: Store) -> str:
        trained = {row.capability_id for row in store.read(Adapter) if row.kind == "capability"}
        many = f" ({len(kept)} were kept)" if len(chosen) != len(kept) else ""
        return (
            f"{self.how}: {', '.join(chosen)}{many}; "
            f"{len(trained & set(chosen))} of {len(chosen)} had an adapter trained"
        )


class RandomCapability(_OtherChoice):
    """As many candidates as the diagnosis kept, drawn among those that it rejected."""

    name = "random_capability"
    about = "The loop on as many capabilities as were kept, drawn by lot among those that were rejected."
    how = "drawn by lot"

    def refusal(self, world: PlayedWorld) -> str:
        """Nothing was kept, or nothing was rejected: then there is no other choice to be compared with."""
        if super().refusal(world) or world.candidates(kept=False):
            return super().refusal(world)
        return "the diagnosis rejected no candidate, so there is no other to draw"

    def choose(self, world: PlayedWorld) -> list[str]:
        """Draw."""
        kept, rejected = world.candidates(kept=True), world.candidates(kept=False)
        return _lots(world, self.name).sample(rejected, min(len(kept), len(rejected)))


class FailuresOnly(_OtherChoice):
    """As many candidates as the diagnosis kept, those most often lacking in failures: no contrast."""

    name = "failures_only"
    about = "The loop on as many capabilities as were kept, those that failures lack most: no contrast."
    how = "lacking most in failures"

    def choose(self, world: PlayedWorld) -> list[str]:
        """Rank by ER-, then by coverage; a candidate that no failure lacks is none."""
        target = world.study.settings.targets.name
        rows = [row for row in world.study.store.read(Contrast) if row.target == target and row.er_failed]
        rows.sort(key=lambda row: (-(row.er_failed or 0.0), -(row.coverage or 0.0), row.capability_id))
        return [row.capability_id for row in rows[: len(world.candidates(kept=True))]]


class ShuffledLabels(_OtherChoice):
    """What the diagnosis keeps when each trajectory has the labels of another one of the same policy."""

    name = "shuffled_labels"
    about = "The loop on what the diagnosis keeps with its labels shuffled among trajectories: often nothing."
    how = "kept by shuffled labels"

    def choose(self, world: PlayedWorld) -> list[str]:
        """Shuffle, contrast and select by the world's own settings."""
        from trace_assets.assets.selected_capabilities import chance_of
        from trace_assets.diagnosis.contrast import considered_tests, contrast_matrix
        from trace_assets.diagnosis.label_matrix import LabelMatrix
        from trace_assets.diagnosis.selection import select

        study = world.study
        target, lots = study.settings.targets.name, _lots(world, self.name)
        found = []
        for one in evidence_by_target(study):
            if one.target == target:
                own = shuffled(one, lots)
                matrix = LabelMatrix.build(own.labels, own.triage, target)
                rows = contrast_matrix(
                    matrix, study.settings.contrast, target, considered=considered_tests(own.capabilities)
                )
                section = study.settings.selection.model_copy(update={"overrides": {}})
                nulls = {target: partial(chance_of, study, own)}
                found += select(rows, own.capabilities, own.labels, own.triage, section, nulls=nulls)
        return [row.capability_id for row in found if row.kept]


def shuffled(one: Evidence, lots: random.Random) -> Evidence:
    """Give each trajectory the labels of another, among those of one policy; outcomes stay where they are."""
    of_policy: dict[str | None, list[str]] = defaultdict(list)
    for row in sorted(one.triage, key=lambda row: row.trajectory_id):
        of_policy[row.policy].append(row.trajectory_id)
    new = {
        old: other
        for own in of_policy.values()
        for old, other in zip(own, lots.sample(own, len(own)), strict=True)
    }
    labels = [
        row.model_copy(update={"trajectory_id": new[row.trajectory_id]})
        for row in one.labels
        if row.trajectory_id in new
    ]
    return replace(one, labels=labels)


def _lots(world: PlayedWorld, name: str) -> random.Random:
    return random.Random(f"{world.study.settings.training.seed}/{name}")


def _spent(world: PlayedWorld, home: Home) -> list[dict[str, object]]:
    return [
        row.model_dump(exclude={"world", "arm"})
        for row in spent_in(home, world.number)
        if row.arm == world.ours
    ]


def _lend_base(world: PlayedWorld, home: Path) -> None:
    """Give the loop the world's base model, where it was trained there: it would make the same one."""
    base = trained_folder(world.study)
    place = home / base.relative_to(world.study.home.path)
    if base.is_dir() and not place.is_dir():
        half = place.with_name(f".{place.name}.partial")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(base, half)
        half.rename(place)


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

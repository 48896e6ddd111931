"""Does the diagnosis matter? The whole loop on capabilities that were chosen in another way."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

from trace_assets.evaluation.arms import BASE, ROUTED
from trace_assets.records import Adapter, Contrast, Evaluation
from trace_assets.resources.analysts import Evidence, evidence_by_target
from trace_assets.resources.policy import trained_folder
from trace_assets.store import Home, Store
from trace_assets.store.content import text_version
from trace_assets.tournament.arms.protocol import Made, Meter, PlayedWorld
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

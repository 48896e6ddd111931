"""Does the diagnosis matter? The whole loop on capabilities that were drawn by lot."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from trace_assets.evaluation.arms import BASE, ROUTED
from trace_assets.records import Adapter, Evaluation
from trace_assets.resources.policy import trained_folder
from trace_assets.store import Home, Store
from trace_assets.store.content import text_version
from trace_assets.tournament.arms.protocol import Made, PlayedWorld
from trace_assets.tournament.process import play_home, toml
from trace_assets.tournament.spending import spent_in


class RandomCapability:
    """Everything as in the world, but for the choice of what is taught.

    As many candidates as the diagnosis kept are drawn among those that it rejected, and the loop is played
    on them in a home of its own, by the setting `selection.overrides`. Where nothing of them could be taught
    the arm stands at what its loop then answers with, the base model: that is what such a choice is worth.
    """

    name = "random_capability"
    about = "The loop on as many capabilities as were kept, drawn by lot among those that were rejected."
    needs = "environments, and a loop of its own"

    def refusal(self, world: PlayedWorld) -> str:
        """Nothing was kept, or nothing was rejected: then there is no other choice to be compared with."""
        kept, rejected = world.candidates(kept=True), world.candidates(kept=False)
        if not kept:
            return "the diagnosis kept no capability, so there is no choice to compare with"
        if not rejected:
            return "the diagnosis rejected no candidate, so there is no other to draw"
        return ""

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Play the loop on what is drawn, and read its own arm off it."""
        kept, rejected = world.candidates(kept=True), world.candidates(kept=False)
        lots = random.Random(f"{world.study.settings.training.seed}/{self.name}")
        drawn = sorted(lots.sample(rejected, min(len(kept), len(rejected))))
        world.open_test_tasks({self.name: text_version(*drawn)})
        _lend_base(world, folder / "home")
        settings = {
            "selection.overrides": dict.fromkeys(drawn, "drawn by lot, a control of the tournament"),
            "selection.min_gap": 1.0,
            "selection.min_gap_low": 1.0,
            "training.mixed_arm": False,
            "training.single_arms": [],
        }
        mine = [item for item in world.items if item.partition("=")[0] not in settings]
        items = [*mine, *(f"{name}={toml(value)}" for name, value in settings.items())]
        play_home(folder, items, f"arm {self.name} of world {world.number}")
        home = Home.open(folder / "home", writable=False)
        return Made(
            self._rows(world, Store.of(home)),
            [
                row.model_dump(exclude={"world", "arm"})
                for row in spent_in(home, world.number)
                if row.arm == world.ours
            ],
            _told(drawn, kept, Store.of(home)),
        )

    def _rows(self, world: PlayedWorld, store: Store) -> list[Evaluation]:
        played = [row for row in store.read(Evaluation) if row.split == "test"]
        arms = {row.arm for row in played}
        chosen = next((arm for arm in (world.ours, ROUTED, BASE) if arm in arms), None)
        if chosen is None:  # no adapter was left, so that its test tasks stayed sealed
            played = [row for row in world.study.store.read(Evaluation) if row.split == "test"]
            chosen = BASE
        return [row.model_copy(update={"arm": self.name}) for row in played if row.arm == chosen]


def _lend_base(world: PlayedWorld, home: Path) -> None:
    """Give the loop the world's base model, where it was trained there: it would make the same one."""
    base = trained_folder(world.study)
    place = home / base.relative_to(world.study.home.path)
    if base.is_dir() and not place.is_dir():
        partial = place.with_name(f".{place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(base, partial)
        partial.rename(place)


def _told(drawn: list[str], kept: list[str], store: Store) -> str:
    trained = {row.capability_id for row in store.read(Adapter) if row.kind == "capability"}
    fewer = f" ({len(kept)} were kept, no more were rejected)" if len(drawn) < len(kept) else ""
    return (
        f"drew {', '.join(drawn)}{fewer}; {len(trained & set(drawn))} of {len(drawn)} had an adapter trained"
    )

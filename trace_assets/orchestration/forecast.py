"""What a plan takes in, and what is likely to follow from what is due: the light steps, played on a copy.

An item that is due makes others due only where its content comes out different. Settings and cut-offs take
well under a second, so it need not be guessed: they are made in a folder of links, and the plan is looked at
again as if they were recorded. What plays, trains or asks a model is not made; it is taken to come out
different, and the next cut-off behind it to hold.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from trace_assets.errors import InputError
from trace_assets.orchestration.instance import CAPABILITY, OF_BATCH, PLAYED
from trace_assets.orchestration.planner import Item, Planner, Standing, Step
from trace_assets.records import Round, RoundAgent, SelectedCapability, TrajectoryHead
from trace_assets.resources.inbox import batches, lost_tasks, task_batches
from trace_assets.store import Home
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.workflows.made_with import is_foreign, live_in_use, rolled_out
from trace_assets.workflows.rounds import OF_ROUNDS, OF_STUDY

LOOP = frozenset(
    {"curriculum", "mixed_adapter", "routing_trials", "routing", "adapter_validation", "evaluation"}
    | {"joint_adapters", "consolidated", "interference", "composition_choice", "round_agent", "rounds"}
    | {"config/routing", "config/evaluation", "config/rounds"}
)
"""Assets that are of the live target alone."""
TAUGHT = frozenset({"base_model", "pilot", "adapter", "learnability", "config/base_model"})
"""Assets of a base model, which is trained for the live target unless the settings name one."""


class Scope:
    """Says how a plan takes each item of a study.

    Args:
        study: The study.
        selection: Names of assets or items that were asked for; None for no wish.
        plays: Task batches that may be rolled out; None for all of the live target's.
        everything: Also the loop of a live target that nothing in the store belongs to.
        without: Names of assets that are left out.
    """

    def __init__(
        self,
        study: Study,
        selection: Iterable[str] | None = None,
        *,
        plays: Collection[str] | None = None,
        everything: bool = False,
        without: Collection[str] = (),
    ) -> None:
        self._study, self._plays = study, plays
        self._without = {*without, *_of_other_rounds(study)}
        asked = {name.partition("[")[0] for name in selection or ()}
        self.live = everything or bool(asked & (LOOP | TAUGHT | {*PLAYED})) or live_in_use(study)
        self._taught = self.live or bool(study.settings.base_model.path)
        self._imported = frozenset(batches(study))
        self._lost = lost_tasks(study)
        laid = self._imported | (set(task_batches(study)) - self._lost.keys())
        self._there = {study.live_batch, *laid, *study.store.partitions(TrajectoryHead)}
        self._foreign: dict[str, bool] = {}

    def __call__(self, item: Item) -> Standing:
        """Return how an item is taken."""
        if item.asset in self._without:
            return "left out"
        if item.asset in OF_BATCH and item.partition not in self._there:
            return "left out"  # it was lost or removed before anything was played of it
        if item.asset in PLAYED:
            return self._of_batch(item.partition)
        if item.asset in LOOP and not self.live:
            return "left out"
        return "left out" if item.asset in TAUGHT and not self._taught else "planned"

    def _of_batch(self, batch: str) -> Standing:
        if batch in self._imported:
            return "settled"  # it is as it was brought in, whatever the settings say
        if batch in self._lost:
            return "left out"  # what was made of it stands, and all else goes on
        if self._plays is not None and batch not in self._plays:
            return "left out"
        if batch == self._study.live_batch:
            return "planned" if self.live else "left out"
        if batch not in self._foreign:
            self._foreign[batch] = is_foreign(self._study, batch)
        return "left out" if self._foreign[batch] else "planned"

    def notes(self) -> list[str]:
        """Say what is left out, and how to have it."""
        study, name = self._study, self._study.settings.targets.name
        said = [
            f"{batch}: nothing is played of it, and what was made of it stands: {why} `trace doctor "
            "--accept-losses` takes it for removed."
            for batch, why in self._lost.items()
        ]
        others = [
            batch for batch in rolled_out(study) if batch not in self._lost and is_foreign(study, batch)
        ]
        played_on = {batch: _targets(study, batch) for batch in others}
        removed = [batch for batch in others if name in played_on[batch]]
        foreign = [batch for batch in others if played_on[batch] - {name}]
        if removed:
            said.append(
                f"{', '.join(removed)}: its tasks are not in the inbox any more; what was made of it stands."
            )
        if foreign:
            said.append(
                f"{', '.join(foreign)}: rolled out on another target than '{name}', and left as it is; to "
                "play more, name that target in targets.name."
            )
        if not self.live:
            said.append(
                f"Nothing in the store belongs to the live target '{name}', so nothing is rolled out, "
                "trained or evaluated on it: name yours in targets.name, or run `trace demo` for the order "
                "desk's loop."
            )
        return said


def _of_other_rounds(study: Study) -> frozenset[str]:
    """Return the assets that a study has not: of rounds where it plays none, of the whole in a later one."""
    if study.round > 1:
        return OF_STUDY
    asked = study.settings.rounds.most > 1 or study.store.has(Round) or study.store.has(RoundAgent)
    return frozenset() if asked else OF_ROUNDS


def _targets(study: Study, batch: str) -> set[str]:
    """Return the targets that a batch was rolled out on; none where its file is lost."""
    try:
        return set(study.store.frame(TrajectoryHead, batch)["target"].to_list())
    except InputError:
        return set()


REHEARSED = frozenset(
    {
        *("batch_capabilities", "contrast", "selected_capabilities", "capability_spec", "decision_patterns"),
        *("environment", "environment_verdict", "curriculum", "routing_trials", "drift", "policy_contrast"),
        "learnability",
    }
)
"""Light assets whose content is found out by making them."""
CUT_OFFS = frozenset(
    {
        *("batch_capabilities", "selected_capabilities", "capability_spec", "environment_verdict"),
        *("pilot", "curriculum", "routing_trials"),
    }
)
"""Assets that are there to come out equal when something before them changes."""
MOST = 500
"""Items that are rehearsed at the most."""


def likely_to_follow(planner: Planner, study: Study, steps: Sequence[Step]) -> list[Item]:
    """Return the items that will probably become due once some steps were made, in order.

    Args:
        planner: Has looked at the history; it looks no further, and is of no use afterwards.
        study: The study; nothing of it is written.
        steps: What is due.
    """
    with _folder(study.home) as folder:
        return _Rehearsal(planner, _copy(study, folder), steps).play()


@contextmanager
def _folder(home: Home) -> Iterator[Path]:
    """Make a folder in the home, where a file can have a second name, or elsewhere if there is no room."""
    inside = home.is_writable and not home.is_full
    if inside:
        announce(home)  # what a killed process leaves is cleared by whoever comes next
    name = ".rehearsal-" if inside else "trace-rehearsal-"
    with TemporaryDirectory(prefix=name, suffix=".partial", dir=home.path if inside else None) as folder:
        yield Path(folder)


class _Rehearsal:
    """Supposes of one item after the other that it was made, and looks what is due then."""

    def __init__(self, planner: Planner, study: Study, steps: Sequence[Step]) -> None:
        from trace_assets.definitions import pipeline

        self.planner, self.study = planner, study
        self.declared = {one.name: one for one in pipeline()}
        self.first = {step.item for step in steps}
        self.unknown: set[Item] = set()
        """Items whose new content is not known."""
        self.later: list[Item] = []

    def play(self) -> list[Item]:
        steps = self.planner.look(touched=())
        for _ in range(MOST):
            ready = [step for step in steps if not step.waits_for]
            if not ready:
                break
            for step in ready:
                if step.item not in self.first and step.item not in self.later:
                    self.later.append(step.item)
                self._suppose(step)
            steps = self.planner.look(touched=())
        return self.later

    def _suppose(self, step: Step) -> None:
        item, node = step.item, self.planner.nodes[step.item.asset]
        before = self.planner.made(item)
        if item.asset.startswith("config/"):
            version: str | None = node.code
        elif self._reads_unknown(item):
            version = None
        else:
            version = self._make(item)
        if version is None and before is not None and item.asset in CUT_OFFS:
            version = before.version  # it holds
        elif version is None:
            self.unknown.add(item)
            version = f"supposed {item}"
        self.planner.suppose(item, version)
        if item.asset == "selected_capabilities" and item not in self.unknown:
            from trace_assets.assets.selected_capabilities import kept_capabilities

            kept = kept_capabilities(self.study)
            if self.study.store.has(SelectedCapability):
                self.planner.supposed_keys[str(CAPABILITY.name)] = kept

    def _reads_unknown(self, item: Item) -> bool:
        node = self.planner.nodes[item.asset]
        return any(
            other.asset in node.parents
            and (
                other.partition == item.partition
                or self.planner.nodes[other.asset].dimension != node.dimension
            )
            for other in self.unknown
        )

    def _make(self, item: Item) -> str | None:
        """Make an item on the copy and return its version, None where it is not made."""
        if item.asset not in REHEARSED or (
            item.asset == "environment" and self.study.settings.synthesis.writer != "recipe"
        ):
            return None
        with suppress(Exception):  # the sync will say what is wrong; here it is only not known
            one = self.declared[item.asset]
            return one.work(self.study, *([item.partition] if one.partitions else [])).version
        return None


def _copy(study: Study, folder: Path) -> Study:
    """Return a study whose tables are links to a study's, and whose writes go nowhere else.

    A table is replaced by a rename, so what is written here leaves the linked file alone.
    """
    for file in study.home.tables.rglob("*.parquet"):
        place = folder / "tables" / file.relative_to(study.home.tables)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, place)
        except OSError:  # on another disk, or on one that knows no second names
            place.symlink_to(file)
    for other in (
        study.home.inbox,
        study.home.descriptions,
        study.home.path / "task_inbox",
        study.home.targets,
    ):
        if other.is_dir():
            (folder / other.name).symlink_to(other)
    copied = Study(Home(folder), study.settings)
    if "target" in study.__dict__:
        copied.__dict__["target"] = study.target
    return copied

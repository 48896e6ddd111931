"""What a plan takes in: what belongs to the targets in the store, and nothing that was brought in twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from trace_assets.errors import InputError
from trace_assets.orchestration.instance import OF_BATCH, PLAYED
from trace_assets.orchestration.planner import Item, Standing
from trace_assets.records import Round, RoundAgent, TrajectoryHead
from trace_assets.resources.inbox import batches, lost_tasks, task_batches
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

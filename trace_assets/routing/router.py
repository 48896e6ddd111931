"""What a router is: it sends a task to one adapter, or to none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Label, Route, Task, Triage


class Chooser(Protocol):
    """What decides between adapters, however it is asked."""

    @property
    def name(self) -> str:
        """Which router this is, as in `Route.router`."""
        ...

    @property
    def version(self) -> str:
        """Content hash of all that decides the probabilities, as far as it is known here."""
        ...

    @property
    def choices(self) -> tuple[str, ...]:
        """Adapter names in a fixed order, then `none`."""
        ...


@runtime_checkable
class Router(Chooser, Protocol):
    """Decides on the text of the first user message alone, so that a decision holds for a conversation."""

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return for each text the probability of every choice; each sums to 1."""
        ...

    def route(self, tasks: Sequence[Task]) -> list[Route]:
        """Return one route for each task, in order."""
        ...


def all_choices(adapters: Sequence[str]) -> tuple[str, ...]:
    """Return the adapters' names, each once, and `none` behind them.

    >>> all_choices(["cancel", "multi"])
    ('cancel', 'multi', 'none')
    """
    return (*dict.fromkeys(name for name in adapters if name != NO_ADAPTER), NO_ADAPTER)


def opening(task: Task) -> str:
    """Return the text that a task is routed by.

    Raises:
        InputError: The task does not say what is asked.
    """
    if not task.instruction.strip():
        raise InputError(
            f"task '{task.task_id}' has no instruction, so there is nothing to route it by: "
            "give the first user message as the task's instruction."
        )
    return task.instruction


def to_routes(router: str, task_ids: Sequence[str], rows: Sequence[Mapping[str, float]]) -> list[Route]:
    """Return routes that take the most probable choice; the earlier choice wins a tie.

    Args:
        router: Name of the router.
        task_ids: The tasks.
        rows: For each task, choice -> probability.
    """
    return [
        Route(
            router=router,
            task_id=task_id,
            choice=max(row, key=lambda name: row[name]),
            probabilities=dict(row),
        )
        for task_id, row in zip(task_ids, rows, strict=True)
    ]


# Training examples of a router: what the diagnosis says that the base model lacks on each discovery task.


UNNEEDED_COST = 0.1
"""Default of the setting `routing.unneeded_cost`."""


class RoutingExample(NamedTuple):
    """A discovery task and what its labels call for.

    Attributes:
        task_id: The task.
        text: What it is routed by, its first user message.
        choice: What the task's own trials call for, see `called_for`.
        shares: Choice -> share of the task's trials that lack it; `none` is the share that lacks nothing.
            Sums to 1; None stands for all trials calling for `choice`.
    """

    task_id: str
    text: str
    choice: str
    shares: Mapping[str, float] | None = None

    def need(self) -> Mapping[str, float]:
        """Return the shares."""
        return {self.choice: 1.0} if self.shares is None else self.shares


def called_for(need: Mapping[str, float], unneeded_cost: float = UNNEEDED_COST) -> str:
    """Return the choice with the least expected cost, given how often each capability is lacking.

    Not applying a needed adapter costs 1, applying one that is not needed costs `unneeded_cost`: the argmax
    of the need once that of `none` is multiplied by the cost. An earlier choice wins a tie.

    Args:
        need: Choice -> probability or share of trials.
        unneeded_cost: In (0, 1].

    >>> called_for({"window": 0.3, "none": 0.7}), called_for({"window": 0.05, "none": 0.95})
    ('window', 'none')
    """
    weighed = {name: share * (unneeded_cost if name == NO_ADAPTER else 1.0) for name, share in need.items()}
    return max(weighed, key=lambda name: weighed[name]) if weighed else NO_ADAPTER


def routing_examples(
    tasks: Iterable[Task],
    labels: Iterable[Label],
    triage: Iterable[Triage],
    kept_capability_ids: Sequence[str],
    openings: Mapping[str, str] | None = None,
    unneeded_cost: float = UNNEEDED_COST,
) -> list[RoutingExample]:
    """Turn labels of discovery trajectories into one example a task.

    A trial calls for every capability that it is labelled LACKING, and for `none` when it lacks nothing.
    That a capability is merely needed is not enough: a broad one ("name only orders that exist") is needed on
    every task, and would draw those that the base model does well to an adapter that has nothing to add. And
    one trial is not enough either: whether a request runs into a closed window cannot be read off its words,
    so the shares of lacking trials are kept, for the router to learn how often such a text needs what.

    Outcomes are used in one way only: trajectories whose failure triage puts down to the user simulator, the
    environment or the infrastructure are left out, since they may have ended before anything was needed.
    Whether the agent passed does not enter. The generator's tags are not read.

    Args:
        tasks: Any tasks; those outside the split `discovery` are ignored.
        labels: Labels of any trajectories and capabilities; several labelling passes are averaged.
        triage: One row for each judged trajectory; tells which task it belongs to.
        kept_capability_ids: Capabilities that have an accepted adapter, the only choices beside `none`.
        openings: Task id -> first user message, for targets whose tasks do not carry it as instruction.
        unneeded_cost: See `called_for`.

    Returns:
        Examples sorted by task id. Tasks without any usable trajectory give none.

    Raises:
        InputError: A task with usable trajectories has no text.
    """
    kept = list(dict.fromkeys(kept_capability_ids))
    discovery = {task.task_id: task for task in tasks if task.split == "discovery"}
    task_of = {
        row.trajectory_id: row.task_id
        for row in triage
        if row.task_id in discovery and row.fault in (None, "agent")
    }
    lacking: dict[tuple[str, int], list[str]] = defaultdict(list)
    passes: dict[str, set[int]] = defaultdict(set)
    for label in labels:
        if label.trajectory_id in task_of and label.capability_id in kept:
            passes[label.trajectory_id].add(label.labelling_pass)
            if label.label == "LACKING":
                lacking[label.trajectory_id, label.labelling_pass].append(label.capability_id)
    counts: dict[str, Counter[str]] = {task_id: Counter() for task_id in sorted(set(task_of.values()))}
    for trajectory_id, task_id in task_of.items():
        for number in passes[trajectory_id] or {0}:
            counts[task_id].update(lacking.get((trajectory_id, number)) or [NO_ADAPTER])
    examples = []
    for task_id, count in counts.items():
        shares = {name: count[name] / count.total() for name in (*kept, NO_ADAPTER)}
        text = (openings or {}).get(task_id) or opening(discovery[task_id])
        examples.append(RoutingExample(task_id, text, called_for(shares, unneeded_cost), shares))
    return examples

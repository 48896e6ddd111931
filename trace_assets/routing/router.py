"""What a router is: it sends a task to one adapter, to a set of them that act together, or to none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol, runtime_checkable

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Label, Route, Task, Triage

JOINT = "+"
"""Between the names of a set's members."""
JOINING = "joining"
"""The adapter that is trained on top of the sum of all, and acts with them alone; no router knows it."""
WEIGHED = "classifier"
"""The router whose probabilities have the cost of an unneeded adapter in them."""


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


def set_name(members: Iterable[str]) -> str:
    """Return the choice that a set of adapters is: `none`, one adapter's name, or several in sorted order.

    Raises:
        InputError: A member's own name holds what stands between names.

    >>> set_name(["window", "cancel"]), set_name(["cancel"]), set_name([])
    ('cancel+window', 'cancel', 'none')
    """
    names = sorted(set(members) - {NO_ADAPTER})
    for name in names:
        if JOINT in name:
            raise InputError(
                f"the adapter '{name}' has '{JOINT}' in its name, so no set can hold it; rename it."
            )
    return JOINT.join(names) or NO_ADAPTER


def members_of(choice: str) -> tuple[str, ...]:
    """Return the adapters of a choice.

    >>> members_of("cancel+window"), members_of("none")
    (('cancel', 'window'), ())
    """
    return () if choice == NO_ADAPTER else tuple(choice.split(JOINT))


def joined(members: Iterable[str]) -> tuple[str, ...]:
    """Return a set with what was trained on top of its sum.

    >>> joined(["window", "cancel"])
    ('cancel', 'joining', 'window')
    """
    return tuple(sorted({*members, JOINING}))


def candidate_sets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sets that validation tries: every pair, and all together.

    Not every set: there are 2^n of them, and each costs episodes.

    >>> candidate_sets(["b", "a"]), len(candidate_sets("abcd")), candidate_sets(["a"])
    ([('a', 'b')], 7, [])
    """
    every = sorted(set(names))
    found: list[tuple[str, ...]] = [*combinations(every, 2)]
    return [*found, tuple(every)] if len(every) > 2 else found


def needed(
    probabilities: Mapping[str, float],
    unneeded_cost: float = UNNEEDED_COST,
    *,
    weighed: bool = True,
    set_cost: float | None = None,
) -> list[str]:
    """Return the adapters that a task calls for, the most probable first; none of them for `none`.

    Each is judged apart. Not applying one that is needed costs 1, applying one that is not costs
    `unneeded_cost`: it is applied where p > cost * (1 - p), p being its share of what trials with such a
    text lacked. Where trials lack several at once their shares sum to 1 all the same, so p is never above
    the probability that this one is lacking, and the rule errs on the side of leaving out.

    Args:
        probabilities: Choice -> probability, `none` among them.
        unneeded_cost: In (0, 1].
        weighed: `none` has been multiplied by the cost already, as the classifier does.
        set_cost: The cost by which adapters are called for, where it is another one than the router's.

    >>> needed({"cancel": 0.45, "multi": 0.45, "window": 0.02, "none": 0.08})
    ['cancel', 'multi']
    >>> needed({"cancel": 0.02, "multi": 0.03, "none": 0.95}, weighed=False)
    []
    """
    need = dict(probabilities)
    if weighed and NO_ADAPTER in need:
        need[NO_ADAPTER] /= unneeded_cost
    total = sum(need.values()) or 1.0
    share = {name: value / total for name, value in need.items() if name != NO_ADAPTER}
    cost = unneeded_cost if set_cost is None else set_cost
    chosen = [name for name, p in share.items() if p > cost * (1 - p)]
    return sorted(chosen, key=lambda name: (-share[name], name))


def sets_of(
    routes: Iterable[Route], unneeded_cost: float = UNNEEDED_COST, set_cost: float | None = None
) -> dict[str, list[str]]:
    """Return task id -> the adapters that it calls for, the most probable first.

    Args:
        routes: One router's routes.
        unneeded_cost: The setting that the router was fitted with.
        set_cost: The cost by which adapters are called for; None takes that one.
    """
    return {
        route.task_id: needed(
            route.probabilities, unneeded_cost, weighed=route.router == WEIGHED, set_cost=set_cost
        )
        for route in routes
    }


def within(members: Sequence[str], served: Collection[str], alone: Collection[str] | None = None) -> str:
    """Return the choice for a set of which not every one may be served: the less probable go first.

    What was trained to act together goes before every other sum: whatever calls for several of its members
    has it.

    Args:
        members: The most probable first.
        served: Names of sets that are there.
        alone: Adapters that may act alone; None stands for all.

    >>> within(["multi", "cancel", "window"], {"cancel+multi"}), within(["multi", "window"], [])
    ('cancel+multi', 'multi')
    >>> within(["multi", "window", "cancel"], {"cancel+multi"}), within(["cancel", "multi"], [], ["multi"])
    ('cancel+multi', 'multi')
    >>> within(["multi", "window"], {"multi+window", "cancel+joining+multi+window"})
    'cancel+joining+multi+window'
    """
    if len(members) > 1:
        for name in served:
            if JOINING in (held := members_of(name)) and set(members) <= set(held):
                return name
    for count in range(len(members), 1, -1):
        for some in combinations(members, count):
            if (name := set_name(some)) in served:
                return name
    return next((one for one in members if alone is None or one in alone), NO_ADAPTER)


def one_alone(
    probabilities: Mapping[str, float],
    alone: Collection[str],
    unneeded_cost: float = UNNEEDED_COST,
    *,
    weighed: bool = True,
) -> str:
    """Return the most probable choice among `none` and the adapters that may act alone.

    To a router that may not choose an adapter, a trial that lacks it alone calls for nothing: its share goes
    to `none`.

    Args:
        probabilities: Choice -> probability, `none` among them.
        alone: Adapters that may act alone.
        unneeded_cost: In (0, 1].
        weighed: `none` has been multiplied by the cost already, as the classifier does.

    >>> row = {"cancel": 0.5, "multi": 0.3, "none": 0.2}
    >>> one_alone(row, ["cancel", "multi"]), one_alone(row, ["multi"]), one_alone(row, [])
    ('cancel', 'multi', 'none')
    """
    barred = sum(p for name, p in probabilities.items() if name != NO_ADAPTER and name not in alone)
    row = {name: p for name, p in probabilities.items() if name in alone}
    none = probabilities.get(NO_ADAPTER, 0.0) + barred * (unneeded_cost if weighed else 1.0)
    return max([*row, NO_ADAPTER], key=lambda name: row.get(name, none))


def models_for(
    arm: str,
    adapters: Mapping[str, str],
    sums: Mapping[str, str],
    singles: Mapping[str, str],
    base: str,
    summed_only: Collection[str] = (),
) -> dict[str, str]:
    """Return what answers each choice of a router, for the way of putting adapters together that is released.

    Args:
        arm: `base`, `routed`, `composed`, `sum`, or one adapter for all such as `joint`.
        adapters: A router's choices, without `none`, to the names that they are served by.
        sums: Sets of them, such as `cancel+window`, likewise.
        singles: Adapters for all tasks, likewise.
        base: What the base model is served by.
        summed_only: Adapters that act in sums and not alone: the base model answers in their place.

    Raises:
        InputError: What is released is not served.

    >>> models_for("composed", {"a": "a-1", "b": "b-2"}, {"a+b": "sum-3"}, {}, "base")
    {'a': 'a-1', 'b': 'b-2', 'a+b': 'sum-3', 'none': 'base'}
    >>> models_for("joint", {"a": "a-1"}, {}, {"joint": "joint-4"}, "base")
    {'a': 'joint-4', 'none': 'joint-4'}
    """
    if arm in ("routed", "composed"):
        single = {name: base if name in summed_only else served for name, served in adapters.items()}
        return {**single, **(sums if arm == "composed" else {}), NO_ADAPTER: base}
    whole = set_name(adapters)
    served = {"base": base, "sum": sums.get(whole) or adapters.get(whole), **singles}.get(arm)
    if served is None:
        raise InputError(f"'{arm}' is what validation chose, and it is not served; run `trace sync` first.")
    return dict.fromkeys([*adapters, NO_ADAPTER], served)

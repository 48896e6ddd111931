"""What every analyst must hold to: a kit that anybody can run on an analyst of their own.

    trace analyst check my_package.my_module:make_analyst

or in a test: `check_analyst(MyAnalyst(...), trajectories)`. Each check has a name and fails for one reason.
Every call gets copies of its own, so a broken analyst cannot spoil the checks after it. A check that cannot
tell, because another one failed before it, is reported as not run and is no pass.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from trace_assets.conformance import Broken, Finding, Undecided, carry_out, first_broken
from trace_assets.diagnosis.detector_analyst import Analyst
from trace_assets.errors import CheckFailed, InputError, TraceError, Unavailable
from trace_assets.records import Capability, Label, Trajectory


def examine_analyst(analyst: Analyst, trajectories: Sequence[Trajectory]) -> list[Finding]:
    """Run every check on an analyst.

    Args:
        analyst: The analyst.
        trajectories: Judged ones of one target, some of them successes and some failures, such as those of
            `trace_assets.diagnosis.llm.analyst.rehearse`.

    Returns:
        One finding a check, in the order of `CHECKS`.

    Raises:
        InputError: The trajectories cannot show anything.
        Unavailable: A service that the analyst needs is not there.
    """
    outcomes = {one.success for one in trajectories}
    if not {True, False} <= outcomes or len({one.target for one in trajectories}) != 1:
        raise InputError(
            "an analyst is checked on trajectories of one target, successes and failures among them."
        )
    subject = Subject(analyst, trajectories)
    return [carry_out(check, partial(check, subject)) for check in CHECKS.values()]


def check_analyst(analyst: Analyst, trajectories: Sequence[Trajectory]) -> list[Capability]:
    """Run every check and fail with the first broken promise.

    Args:
        analyst: The analyst.
        trajectories: As for `examine_analyst`.

    Returns:
        The capabilities it proposed, for further checks of one's own.

    Raises:
        CheckFailed: A promise is broken; the message says which, and where.
    """
    broken = first_broken(examine_analyst(analyst, trajectories))
    if broken is not None:
        raise CheckFailed(
            f"this analyst does not conform ({broken.check}): {broken.detail}; "
            "see trace_assets.diagnosis.detector_analyst."
        )
    return analyst.discover(trajectories)


def load_analyst(spec: str) -> Analyst:
    """Return the analyst that `module:factory` makes.

    Args:
        spec: An importable module (the working directory counts) and a callable in it without arguments.

    Raises:
        InputError: There is no such module or factory, or it fails.
    """
    module, colon, name = spec.partition(":")
    if not colon or not module or not name:
        raise InputError(f"'{spec}' is not of the form module:factory, such as my_package.analyst:make.")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        factory: Callable[[], Analyst] = getattr(import_module(module), name)
        return factory()
    except TraceError:
        raise
    except Exception as error:
        raise InputError(
            f"'{spec}' makes no analyst ({type(error).__name__}: {error}); it must name a callable without "
            "arguments whose result has the members of trace_assets.diagnosis.detector_analyst.Analyst."
        ) from error


# The checks of the conformance kit: one function a promise, its docstring is what it demands.


_SLUG = re.compile(r"[a-z0-9_-]{1,80}\Z")
Key = tuple[str, str, int]
T = TypeVar("T")


class Subject:
    """An analyst under examination, and what it answered so far.

    Args:
        analyst: The analyst.
        trajectories: What it is tried on.
    """

    def __init__(self, analyst: Analyst, trajectories: Sequence[Trajectory]) -> None:
        self.analyst = analyst
        self.trajectories = list(trajectories)
        self.blind = [one.blind() for one in trajectories]
        self.touched = ""

    @cached_property
    def capabilities(self) -> list[Capability]:
        """What it proposed first."""
        return self.discover(self.trajectories)

    @cached_property
    def labels(self) -> list[Label]:
        """What it labelled first: blind trajectories with its own capabilities."""
        return self.label(self.blind, self.capabilities)

    def discover(self, trajectories: Sequence[Trajectory]) -> list[Capability]:
        """Call `discover` with copies; note whether it changed them."""
        given = deepcopy(list(trajectories))
        found = self._called("discover", lambda: self.analyst.discover(given))
        self._compare("discover", given, trajectories)
        return found

    def label(self, trajectories: Sequence[Trajectory], capabilities: Sequence[Capability]) -> list[Label]:
        """Call `label` with copies; note whether it changed them."""
        given, wanted = deepcopy(list(trajectories)), deepcopy(list(capabilities))
        found = self._called("label", lambda: self.analyst.label(given, wanted))
        self._compare("label", [*given, *wanted], [*trajectories, *capabilities])
        return found

    def _called(self, name: str, call: Callable[[], Sequence[T]]) -> list[T]:
        try:
            return list(call())
        except Unavailable:
            raise
        except TraceError as error:
            raise Undecided(f"{name} refuses: {error}") from error
        except Exception as error:
            raise Undecided(f"{name} raises {type(error).__name__}: {error}") from error

    def _compare(self, name: str, given: Sequence[object], before: Sequence[object]) -> None:
        if list(given) != list(before):
            self.touched = self.touched or f"{name} changed what it was handed"


def demand(holds: object, fault: str) -> None:
    """Fail the check unless something holds."""
    if not holds:
        raise Broken(fault)


def by_key(labels: Sequence[Label]) -> dict[Key, Label]:
    """Index labels by trajectory, capability and pass."""
    return {(one.trajectory_id, one.capability_id, one.labelling_pass): one for one in labels}


def _same(one: Sequence[Label], other: Sequence[Label]) -> str:
    """Return the first pair that two runs label differently, empty when there is none."""
    first, second = by_key(one), by_key(other)
    for key in sorted(first.keys() & second.keys()):
        if first[key] != second[key]:
            return f"trajectory '{key[0]}' with '{key[1]}': {first[key].label}, then {second[key].label}"
    return ""


def protocol(subject: Subject) -> None:
    """It has every member of the Analyst protocol, and a name and version that are not empty."""
    analyst = subject.analyst
    demand(isinstance(analyst, Analyst), "it lacks a method or property of the Analyst protocol")
    demand(analyst.name and analyst.version, "its name or version is empty")
    demand(analyst.version == analyst.version, "its version is another one each time")


def capabilities(subject: Subject) -> None:
    """Its capabilities have unique slugs as ids, a name, a description, the right target and real sources."""
    try:
        found = subject.capabilities
    except Undecided as reason:
        raise Broken(str(reason)) from reason
    demand(found, "it proposes nothing on trajectories with planted deficits")
    known = {one.trajectory_id for one in subject.trajectories}
    target = subject.trajectories[0].target
    ids = Counter(one.capability_id for one in found)
    demand(max(ids.values()) == 1, f"two of its capabilities have the id '{ids.most_common(1)[0][0]}'")
    for one in found:
        where = f"capability '{one.capability_id}'"
        demand(_SLUG.match(one.capability_id), f"{where}: the id is no slug of at most 80 characters")
        demand(one.name.strip() and one.description.strip(), f"{where}: the name or description is empty")
        demand(one.target == target, f"{where}: the target is not that of the trajectories")
        demand(one.analyst, f"{where}: it does not say who proposed it")
        demand(set(one.proposed_by) <= known, f"{where}: it names trajectories that it was not given")


def ids_stable(subject: Subject) -> None:
    """The same trajectories in any order lead to the same capability ids."""
    first = [one.capability_id for one in subject.capabilities]
    for given in (subject.trajectories, subject.trajectories[::-1]):
        again = {one.capability_id for one in subject.discover(given)}
        demand(again == set(first), f"other ids at a second call: {sorted(again ^ set(first))[:3]}")


def complete(subject: Subject) -> None:
    """Every trajectory and capability have one label in each pass, under the analyst's name."""
    labels = subject.labels
    passes = {one.labelling_pass for one in labels} or {0}
    wanted = {
        (trajectory.trajectory_id, capability.capability_id, number)
        for trajectory in subject.blind
        for capability in subject.capabilities
        for number in passes
    }
    given = Counter((one.trajectory_id, one.capability_id, one.labelling_pass) for one in labels)
    missing, extra = wanted - given.keys(), given.keys() - wanted
    demand(not missing, f"a pair has no label: {min(missing, default=None)}")
    demand(not extra, f"a label was not asked for: {min(extra, default=None)}")
    doubled = [key for key, count in given.items() if count > 1]
    demand(not doubled, f"a pair has two labels: {min(doubled, default=None)}")
    names = {one.labeller for one in labels}
    demand(names <= {subject.analyst.name}, f"labels are under the names {sorted(names)}")


def evidence(subject: Subject) -> None:
    """Evidence lies inside the transcript, and every label but NA has a rationale."""
    lengths = {one.trajectory_id: len(one.messages) for one in subject.blind}
    for label in subject.labels:
        where = f"label of '{label.trajectory_id}' for '{label.capability_id}'"
        end = lengths.get(label.trajectory_id, 0)
        inside = all(0 <= index < end for index in label.evidence)
        demand(inside, f"{where}: its evidence {label.evidence} is outside of the transcript")
        demand(label.label == "NA" or label.rationale, f"{where}: it has no rationale")


def repeatable(subject: Subject) -> None:
    """Asked the same again, it gives the same labels."""
    differs = _same(subject.labels, subject.label(subject.blind, subject.capabilities))
    demand(not differs, f"another label at a second call, {differs}")


def blind(subject: Subject) -> None:
    """Its labels are the same whatever the outcome was: reward, verdict, checks, stop, fault and cost."""
    _needs_repeatable(subject)
    flipped = [
        one.model_copy(
            update={
                "success": not one.success,
                "reward": 0.0 if one.success else 1.0,
                "stop": "agent_error" if one.success else "completed",
                "error": "the task failed" if one.success else None,
                "fault": "agent" if one.success else None,
                "checks": (),
                "seconds": 1.0,
                "cost_usd": 1.0,
            }
        )
        for one in subject.trajectories
    ]
    for given in (subject.trajectories, flipped):
        differs = _same(subject.labels, subject.label(given, subject.capabilities))
        demand(not differs, f"its labels depend on the outcome, {differs}")


def order_free(subject: Subject) -> None:
    """Its labels do not depend on the order of trajectories and capabilities."""
    _needs_repeatable(subject)
    backwards = subject.label(subject.blind[::-1], subject.capabilities[::-1])
    differs = _same(subject.labels, backwards)
    demand(not differs, f"its labels depend on the order of what it is given, {differs}")


def hashes(subject: Subject) -> None:
    """Labels carry the hash that `input_hashes` gives; it ignores outcomes and moves with the transcript."""
    analyst, given = subject.analyst, subject.capabilities
    first = subject.blind[0]
    try:
        wanted = {
            (one.trajectory_id, capability.capability_id): value
            for one in subject.blind
            for capability, value in zip(given, analyst.input_hashes(one, given), strict=True)
        }
        seeing = list(analyst.input_hashes(subject.trajectories[0], given))
        messages = list(first.messages)
        place = next(i for i, one in enumerate(messages) if one.role == "assistant")
        messages[place] = messages[place].model_copy(update={"content": "Something else entirely."})
        edited = list(analyst.input_hashes(first.model_copy(update={"messages": tuple(messages)}), given))
    except Exception as error:
        raise Broken(f"input_hashes fails: {type(error).__name__}: {error}") from error
    for label in subject.labels:
        expected = wanted.get((label.trajectory_id, label.capability_id), label.input_hash)
        demand(label.input_hash, f"the label of '{label.trajectory_id}' has no input_hash")
        demand(label.input_hash == expected, f"the input_hash of '{label.trajectory_id}' is another one")
    original = [wanted[first.trajectory_id, one.capability_id] for one in given]
    demand(seeing == original, "the hash of a trajectory moves with its outcome")
    moved = all(a != b for a, b in zip(edited, original, strict=True))
    demand(moved, "the hash does not see an edited message")


def unknown_capability(subject: Subject) -> None:
    """A capability that another analyst made is refused in one sentence or labelled, never passed over."""
    foreign = Capability(
        capability_id="foreign-capability",
        target=subject.trajectories[0].target,
        name="Greet the user by name",
        description="Needed in every conversation; exercised when the agent says the user's name.",
        analyst="somebody-else",
        detector="a-family-that-is-not-there",
    )
    few = subject.blind[:3]
    try:
        labels = subject.label(few, [foreign])
    except Undecided as reason:
        demand(isinstance(reason.__cause__, TraceError), f"it breaks on a foreign capability: {reason}")
        return
    labelled = {one.trajectory_id for one in labels if one.capability_id == foreign.capability_id}
    demand(labelled == {one.trajectory_id for one in few}, "it passes over a capability that it did not make")


def nothing_asked(subject: Subject) -> None:
    """Without trajectories, or without capabilities, it gives no labels."""
    demand(subject.label([], subject.capabilities) == [], "it labels trajectories that it was not given")
    demand(subject.label(subject.blind, []) == [], "it labels with capabilities that it was not given")


def untouched(subject: Subject) -> None:
    """It changes nothing of what it is handed."""
    subject.labels  # noqa: B018 - at least one call of each method has been made then
    demand(not subject.touched, subject.touched)


def _needs_repeatable(subject: Subject) -> None:
    if _same(subject.labels, subject.label(subject.blind, subject.capabilities)):
        raise Undecided("its labels differ from call to call, so nothing can be compared")


CHECKS: Mapping[str, Callable[[Subject], None]] = {
    check.__name__: check
    for check in (
        *(protocol, capabilities, ids_stable, complete, evidence, repeatable, blind, order_free, hashes),
        *(unknown_capability, nothing_asked, untouched),
    )
}
"""Every check by name."""

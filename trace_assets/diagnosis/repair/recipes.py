"""What putting a capability right changes in a run, by detector family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.diagnosis.detectors.identity import find_ids, looks_like_id, normal
from trace_assets.diagnosis.detectors.protocol import part_lacking
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves, strings
from trace_assets.diagnosis.repair.run import Change, Plan, Run, call_of, in_words, objects_of
from trace_assets.records import Capability, Label, ToolCall, Trajectory

OWN_TURN = (
    "only another turn of the agent could repair it, no call put in or taken out: see `repairs.go_on`",
    "no detector says what its repair would be, and the agent was not asked to go on: see `repairs.go_on`",
)
"""Why most of what is said, and not done, is not repaired: with a detector, and without."""


@dataclass(frozen=True)
class Donors:
    """With which values passed runs call each tool, beside the object: what takes another's place.

    Attributes:
        values: Tool to argument to its most common value.
    """

    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, passed: Iterable[Trajectory]) -> Donors:
        """Read them off passed runs."""
        counts: dict[tuple[str, str], Counter[str]] = {}
        plain: dict[str, Any] = {}
        for one in passed:
            for step in Transcript(one).steps:
                for name, value in step.arguments.items() if not (step.failed or step.by_user) else ():
                    counts.setdefault((step.tool, name), Counter())[repr(value)] += 1
                    plain[repr(value)] = value
        values: dict[str, dict[str, Any]] = {}
        for (tool, name), seen in sorted(counts.items()):
            values.setdefault(tool, {})[name] = plain[max(sorted(seen), key=seen.__getitem__)]
        return cls(values)


Recipe = Callable[[Run, Mapping[str, Any], Label, Donors], Plan | str]
"""Returns the plan, or why there is none."""


def recipe(run: Run, capability: Capability, label: Label, donors: Donors) -> Plan | str:
    """Return how a run is changed so that it no longer lacks a capability, or why nobody can say.

    Args:
        run: The failed run.
        capability: What it lacks.
        label: What shows that it does.
        donors: What passed runs do.
    """
    found = RECIPES.get(capability.detector or "")
    if found is None:
        return OWN_TURN[0] if capability.detector else OWN_TURN[1]
    family = next(one for one in FAMILIES if one.name == capability.detector)
    args = part_lacking(family, Transcript(run.trajectory), capability.detector_args)
    return found(run, args, label, donors)


def _read_first(run: Run, args: Mapping[str, Any], _: Label, donors: Donors) -> Plan | str:
    """Put the look in before each write, and have the write be what the look calls for."""
    tool, read, argument = str(args["tool"]), str(args["read"]), str(args["argument"])
    reads = [step for step in run.own if step.tool == read and not step.failed]
    blind = [
        step
        for step in run.own
        if step.tool == tool
        and not any(one.end < step.index and one.is_about(_name(step, argument)) for one in reads)
    ]
    looks = [run.look(read, argument, step.arguments.get(argument)) for step in blind]
    calls = [look for look in looks if look is not None]
    if not blind or len(calls) < len(blind):
        return f"with which arguments {read} would have been called is not known"
    changes = [run.put_in([call], step.index) for step, call in zip(blind, calls, strict=True)]
    words = f"{in_words(calls)} put in before {tool}"
    heeded, said = _heed(run, blind)
    # The same look where the write is made already.
    late = (*heeded, run.put_in(calls, run.end))
    return Plan(
        (*changes, *heeded),
        f"{words}{said}",
        closing=bool(heeded),
        looks_only=run.expected is None,
        late=late,
    )


def _heed(run: Run, writes: Sequence[Step]) -> tuple[tuple[Change, ...], str]:
    """Return what makes some writes those that are expected on their objects, and the same in words."""
    changes: list[Change] = []
    said = ""
    for step in writes:
        if run.expected is None or _is_wanted(run, step):
            continue
        instead = run.wanted(objects=step.objects, writes=True)
        changes.append(run.exchange(step, instead))
        said += f"; {step.tool} {f'replaced by {in_words(instead)}' if instead else 'taken out'}"
    return tuple(changes), said


def _is_wanted(run: Run, step: Step) -> bool:
    return call_of(step).arguments in [
        call.arguments for call in run.wanted(tool=step.tool, objects=step.objects or None, missing=False)
    ]


def _not_written(run: Run, args: Mapping[str, Any], label: Label, donors: Donors) -> Plan | str:
    """Take the forbidden write out, and put what is done instead in its place."""
    shown = set(label.evidence)
    wrong = [step for step in run.own if step.tool == args["tool"] and step.index in shown]
    if not wrong:
        return f"which call of {args['tool']} should not have been made is not known"
    changes, instead = [], list[ToolCall]()
    for step in wrong:
        new = run.wanted(objects=step.objects, writes=True) if run.expected is not None else []
        if run.expected is None and args.get("instead"):
            known = donors.values.get(str(args["instead"]), {})
            new = [ToolCall(id="", name=str(args["instead"]), arguments=_for_object(known, step))]
        changes.append(run.exchange(step, new))
        instead += new
    by = f"replaced by {in_words(instead)}" if instead else "taken out"
    return Plan(tuple(changes), f"{in_words(map(call_of, wrong))} {by}", closing=True)


def _for_object(known: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """Return the arguments of another tool's calls, for the object of a step."""
    arguments = dict(known)
    for name, value in known.items():
        if looks_like_id(value):
            own = step.arguments.get(name) or next(
                (other for other in step.arguments.values() if looks_like_id(other)), value
            )
            arguments[name] = own
    return arguments


def _go_on(run: Run, args: Mapping[str, Any], _: Label, donors: Donors) -> Plan | str:
    """Put in what is expected of the objects that the user named and nobody dealt with."""
    named = {
        name
        for message in run.trajectory.messages
        if message.role == "user" and message.content
        for name in find_ids(message.content, str(args["pattern"]))
    }
    touched = {normal(value) for step in run.own for _, value in leaves(step.arguments)}
    missed = frozenset(named - touched)
    if run.expected is None:
        return f"what should have been done with {', '.join(sorted(missed))} is not known"
    calls = run.wanted(objects=missed)
    if not calls:
        return f"the target expects no call on {', '.join(sorted(missed))}"
    return Plan((run.put_in(calls, run.end),), f"{in_words(calls)} put in at the end", closing=True)


def _missing(run: Run, args: Mapping[str, Any], _: Label, donors: Donors) -> Plan | str:
    """Put in the call that should have followed."""
    tool = str(args["tool"])
    if run.expected is None:
        call = run.look(tool, "", None)
        if call is None or call.arguments:
            return f"with which arguments {tool} should have been called is not known"
        calls = [call]
    elif not (calls := run.wanted(tool=tool)):
        return f"the target expects no call of {tool} that was not made"
    words = f"{in_words(calls)} put in at the end"
    looks_only = run.expected is None and not run.is_write(tool)
    changes = (run.put_in(calls, run.end),)
    if run.is_write(tool):
        return Plan(changes, words, closing=True)
    objects = frozenset(name for call in calls for name in objects_of(call.arguments))
    heeded, said = _heed(run, [one for one in run.own if run.is_write(one.tool) and one.objects & objects])
    more = run.wanted(objects=objects, writes=True) if not heeded else []
    if more:
        heeded, said = (run.put_in(more, run.end),), f"; then {in_words(more)}"
    return Plan((*changes, *heeded), words + said, closing=True, looks_only=looks_only, late=heeded)


def _right_value(run: Run, args: Mapping[str, Any], label: Label, donors: Donors) -> Plan | str:
    """Replace a made-up value by the one that is expected, or that was read before, in every call."""
    path = str(args["argument"])
    first = next((one for one in run.own if one.index in set(label.evidence) and path in one.arguments), None)
    if first is None:
        return f"where '{path}' was made up is not known, or lies inside of another argument"
    wrong = first.arguments[path]
    right = _value_for(run, first, path)
    if right is None:
        return f"which value '{path}' of {first.tool} should have had is not known"
    changes = [
        run.exchange(step, [ToolCall(id="", name=step.tool, arguments={**dict(step.arguments), path: right})])
        for step in run.own
        if step.arguments.get(path) == wrong
    ]
    return Plan(tuple(changes), f"{path}={wrong} replaced by {path}={right}", closing=True)


def _value_for(run: Run, step: Step, path: str) -> Any:
    if run.expected is not None:
        calls = run.wanted(tool=step.tool) or [call for call in run.wanted() if path in call.arguments]
        fitting = [call for call in calls if call.arguments.get(path) not in (None, step.arguments[path])]
        best = max(
            fitting,
            key=lambda call: sum(step.arguments.get(name) == value for name, value in call.arguments.items()),
            default=None,
        )
        return None if best is None else best.arguments[path]
    name = path.rpartition(".")[2]
    seen = {
        value
        for observations in run.transcript.observations.values()
        for one in observations
        if one.index < step.index
        for field_name, value in one.fields.items()
        if field_name.rpartition(".")[2] == name
    }
    return seen.pop() if len(seen) == 1 else None


def _look_after(run: Run, args: Mapping[str, Any], _: Label, donors: Donors) -> Plan | str:
    """Put a look in after the last change."""
    writes, reads = set(strings(args["writes"])), set(strings(args["reads"]))
    made = [step for step in run.own if step.tool in writes and not step.failed]
    known = [step for step in run.own if step.tool in reads and not step.failed]
    if not made:
        return "the last change was not the agent's"
    same = [step for step in known if step.objects & made[-1].objects] or known
    if not same:
        return "with which arguments one should have looked is not known"
    call = call_of(same[-1])
    words = f"{in_words([call])} put in after {made[-1].tool}"
    late = (run.put_in([call], made[0].index),)
    return Plan((run.put_in([call], made[-1].end + 1),), words, looks_only=True, late=late)


def _once(run: Run, args: Mapping[str, Any], label: Label, donors: Donors) -> Plan | str:
    """Take the repeated calls out, all but the first."""
    shown = [step for step in run.own if {step.index, step.end} & set(label.evidence)]
    if not shown:
        return "which call was repeated is not known"
    first = shown[0]
    again = [
        step
        for step in run.own
        if step.index > first.index
        and (step.tool, dict(step.arguments)) == (first.tool, dict(first.arguments))
    ]
    if not again:
        return "which call was repeated is not known"
    words = f"{len(again)} repeated {first.tool} taken out"
    return Plan(tuple(map(run.take_out, again)), words)


def _mended_call(run: Run, args: Mapping[str, Any], label: Label, donors: Donors) -> Plan | str:
    """Replace a refused call by the one that is expected."""
    tool = str(args["tool"])
    refused = [step for step in run.own if step.failed and (not tool or step.tool == tool)]
    if run.expected is None or not refused:
        return "with which arguments the refused call would have succeeded is not known"
    changes, calls = [], list[ToolCall]()
    for step in refused:
        new = [call for call in run.wanted(tool=step.tool) if call not in calls][:1]
        if new:
            changes.append(run.exchange(step, new))
            calls += new
    if not calls:
        return "the target expects no call of the tool that refused"
    return Plan(tuple(changes), f"refused calls replaced by {in_words(calls)}", closing=True)


def _done_as_said(run: Run, args: Mapping[str, Any], _: Label, donors: Donors) -> Plan | str:
    """Put in the writes that the agent claims to have made."""
    writes = set(strings(args["writes"]))
    calls = [call for call in run.wanted() if call.name in writes]
    if not calls:
        return "what should have been written is not known"
    return Plan((run.put_in(calls, run.end),), f"{in_words(calls)} put in at the end", closing=True)


def _no_empty_turn(run: Run, args: Mapping[str, Any], label: Label, donors: Donors) -> Plan | str:
    """Take the empty message out."""
    changes = tuple(Change("remove", index) for index in label.evidence)
    return Plan(changes, "the empty message taken out") if changes else "which message was empty is not known"


RECIPES: Mapping[str, Recipe] = {
    "write_without_read": _read_first,
    "write_against_policy": _not_written,
    "write_against_clauses": _not_written,
    "write_past_date": _not_written,
    "write_against_rule": _not_written,
    "write_against_state": _not_written,
    "write_on_kind": _not_written,
    "write_after_refusal": _not_written,
    "object_untouched": _go_on,
    "unsupported_argument": _right_value,
    "stale_value": _right_value,
    "unfinished_deed": _missing,
    "ended_with_work_open": _missing,
    "limit_exceeded": _missing,
    "unanswered_state": _missing,
    "skipped_check": _missing,
    "claim_without_write": _done_as_said,
    "unverified_write": _look_after,
    "repeated_error": _once,
    "idle_loop": _once,
    "unrecovered_error": _mended_call,
    "empty_turn": _no_empty_turn,
}
"""Detector family to its recipe; a family that is not here takes another turn of the agent."""


def _name(step: Step, argument: str) -> str:
    return normal(step.arguments.get(argument))


# What is changed instead, for comparison: as much, and of no concern to the capability.


def placebos(run: Run, plan: Plan) -> list[Plan]:
    """Return changes of the same kind and size that have nothing to do with the capability.

    All that a repair changes beside the capability's own calls is changed here too (the writes that heed a
    look, the closing words), so that a difference is the capability's.
    """
    first = min(change.at for change in plan.changes)
    found: list[Plan] = []
    if plan.late and any(change.kind == "insert" for change in plan.changes):
        found.append(Plan(plan.late, "the same look where it is of no use", closing=plan.closing))
    if plan.kind == "remove" and (others := _others(run, plan.changes)):
        taken = others[: plan.size]
        words = f"{in_words(map(call_of, taken))} taken out instead"
        found.append(Plan(tuple(map(run.take_out, taken)), words, closing=plan.closing))
    reads = [step for step in run.own if not run.is_write(step.tool) and not step.failed]
    if reads and plan.kind != "remove" and not plan.late:
        repeated = [call_of(reads[number % len(reads)]) for number in range(plan.size)]
        place = max(first, reads[0].end + 1)
        words = f"{in_words(repeated)} made once more"
        found.append(Plan((run.put_in(repeated, place),), words, closing=plan.closing))
    if not found and plan.closing and run.expected is not None and run.expected.closing is not None:
        found.append(Plan((), "the closing words alone", closing=True))
    return found


def _others(run: Run, changes: Collection[Change]) -> list[Step]:
    """Return calls that a repair leaves alone, looks first, from the end of the run."""
    changed = {change.at for change in changes}
    alike = [call_of(step) for step in run.own if step.index in changed]
    rest = [step for step in run.own if step.index not in changed and call_of(step) not in alike]
    return sorted(rest, key=lambda step: (run.is_write(step.tool), -step.index))

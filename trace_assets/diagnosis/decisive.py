"""Which message decided a failed run: the agent's earliest one that could not be made good.

Where the simulated user is at fault it is the user's own, see `failure_causes`.

It is not blind: where the target says what is expected, calls are held against that. Labels never see it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.diagnosis.detectors.mutation import hands_over, mutating_tools
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.expected.diffs import changed, differences, is_call_of
from trace_assets.records import ActionDiff, Capability, ExpectedAction, Label, Task, ToldTask, Trajectory

HARMLESS = 0.05
"""Share of the passed runs using a tool that use it beyond what is expected, from which that harms nobody."""
STREAK = 3
"""Equal calls at the end of a run, with equal answers, from which it was stuck there."""
CALLS = frozenset({"forbidden_call", "wrong_value", "missing_question"})
"""Mistakes whose evidence is a call that should not have been made as it was."""
RULES = frozenset(
    {"expected", "harmless", "named_call", "pointed", "written", "stuck", "handed_over", "turn", "lacked"}
)
"""What can be left out, to see what it adds: expected actions, their excuse by what passed runs do, calls
that lacks name, what a model points at, the first change where nothing is said of what is expected, the place
where a run got stuck, the call that handed it over, the turn in which a script asked for what was never
done, the place that the likeliest lack shows where nothing wrong was done."""
_MISTAKES = {family.name: family.mistake for family in FAMILIES}


class Decisive:
    """Finds the decisive messages of runs of one target.

    In this order: the first call of the agent that changed something otherwise than is expected, passing over
    what passed runs do unharmed unless a lack names that very call; where the task says nothing, the call
    that a lack names; where nothing wrong was done, the wrong word or the call that the likeliest lack shows;
    the agent's message that a model points at; where the task says nothing, the first call
    that changed anything when the state is what was judged wrong; the second of the equal calls in which the
    run got stuck; the call that handed the case over with something undone; the agent's last message, its
    last chance, or where it first said again what it says there. Where the user's turns are written
    beforehand, the last chance is the end of the turn in which a call was asked for and did not come.

    Args:
        trajectories: All runs of the target, passed ones too.
        tasks: By id, for what is expected.
        rules: Of `RULES`, those that are used.
    """

    def __init__(
        self,
        trajectories: Sequence[Trajectory],
        tasks: Mapping[str, Task | ToldTask] | None = None,
        rules: Collection[str] = RULES,
    ) -> None:
        self._rules = rules
        self._runs = list(trajectories)
        self._tasks = tasks or {}
        self._transcripts: dict[str, Transcript] = {}

    def message(
        self,
        one: Trajectory,
        lacks: Iterable[tuple[Label, Capability]] = (),
        by_user: int | None = None,
        shown: Iterable[int] = (),
    ) -> int:
        """Return the index of the message that decided a failed run.

        Args:
            one: The run.
            lacks: What it lacks, the likeliest cause first.
            by_user: The message of the simulated user that decided it, where that is at fault.
            shown: Messages that a model names as showing why it failed.
        """
        if by_user is not None:
            return by_user
        transcript, lacks = self._transcript(one), list(lacks)
        named = [
            (index, capability)
            for label, capability in lacks
            if "named_call" in self._rules and _MISTAKES.get(capability.detector or "") in CALLS
            for index in label.evidence
        ]
        calls = {step.index for step in transcript.steps if not step.by_user}
        expected = self._expected(one)
        pointed = self._pointed(one, shown)
        if expected is None:
            points = [index for index, _ in named if index in calls]
            if points:
                return points[0]
            if pointed is not None:
                return _first_again(one, pointed)
            if "written" in self._rules and _state_failed(one):
                made = [step.index for step in transcript.steps if self._changes(step)]
                if made:
                    return made[0]
        else:
            accused = {index for index, _ in named}
            wrong = [
                index
                for row, index in self._wrong(one)
                if index in accused or not self._harmless.issuperset(_parts(row))
            ]
            left = self._turn_left(one, transcript, expected)
            if wrong or left is not None:
                return min(wrong if left is None else [*wrong, left])
            lacked = self._lacked(one, *lacks[0]) if lacks and "lacked" in self._rules else None
            if lacked is not None:
                return lacked
        return _first_again(one, self._end(transcript) if pointed is None else pointed)

    def _lacked(self, one: Trajectory, label: Label, capability: Capability) -> int | None:
        """Return the place that a lack shows where all that differs follows from it; None where it may not.

        A wrong word decides where all that is expected was done. Where the only differences are calls that
        are missing, the agent's own call that a lack of one of them points at decides.
        """
        mistake = _MISTAKES.get(capability.detector or "")
        rows = [row for row in self.differences(one) if not hands_over(row.tool)]
        if mistake == "wrong_statement" and not rows:
            said = [at for at in label.evidence if one.messages[at].role == "assistant"]
            return max(said, default=None)
        missed = {row.tool for row in rows if row.kind == "missed"}
        if mistake != "missing_call" or any(row.kind != "missed" for row in rows):
            return None
        own = {step.index for step in self._transcript(one).steps if self._changes(step)}
        made = [at for at in label.evidence if at in own]
        return made[0] if made and capability.detector_args.get("tool") in missed else None

    def _pointed(self, one: Trajectory, shown: Iterable[int]) -> int | None:
        """Return the last of the agent's messages among those that a model names; None without one."""
        own = [at for at in shown if at < len(one.messages) and one.messages[at].role == "assistant"]
        return max(own, default=None) if "pointed" in self._rules else None

    def _turn_left(
        self, one: Trajectory, transcript: Transcript, expected: Sequence[ExpectedAction]
    ) -> int | None:
        """Return the end of the scripted turn in which the first expected call is missing; None without one.

        Calls are held against what is expected in its order. What is missing belongs to the turn of the call
        before it, or to the first turn behind that one in which nothing expected was done.
        """
        asked = [place for place, message in enumerate(one.messages) if message.role == "user"]
        if "turn" not in self._rules or one.task_id not in self._scripted or len(asked) < 2:
            return None
        own = [step for step in transcript.steps if not step.by_user]
        wanted = [action for action in expected if action.requestor == "assistant"]
        places = _in_order(wanted, own)
        missing = next((number for number, place in enumerate(places) if place is None), None)
        if missing is None:
            return None
        turns = [bisect_right(asked, place) - 1 if place is not None else None for place in places]
        turn = max((known for known in turns[:missing] if known is not None), default=0)
        later = min((known for known in turns[missing:] if known is not None), default=len(asked))
        turn = next((between for between in range(turn + 1, later)), turn)
        end = asked[turn + 1] if turn + 1 < len(asked) else len(one.messages)
        said = [place for place in range(asked[turn] + 1, end) if one.messages[place].role == "assistant"]
        return said[-1] if said else None

    @cached_property
    def _scripted(self) -> frozenset[str]:
        """Tasks of several runs in all of which the user says the same, whatever the agent did."""
        turns: dict[str, list[tuple[str | None, ...]]] = defaultdict(list)
        for run in self._runs:
            turns[run.task_id].append(tuple(one.content for one in run.messages if one.role == "user"))
        return frozenset(
            task
            for task, own in turns.items()
            if len(own) > 1 and all(max(own, key=len)[: len(one)] == one for one in own)
        )

    def _changes(self, step: Step) -> bool:
        return step.tool in self._writes and not (step.by_user or step.failed or hands_over(step.tool))

    def _end(self, transcript: Transcript) -> int:
        """Return where a run in which nothing wrong was done was given up."""
        own = [step for step in transcript.steps if not step.by_user]
        stuck = _streak(own) if "stuck" in self._rules else None
        if stuck is not None:
            return stuck
        handed = [step.index for step in own if hands_over(step.tool) and not step.failed]
        changed_after = any(step.tool in self._writes and step.index > handed[-1] for step in own if handed)
        if handed and not changed_after and "handed_over" in self._rules:
            return handed[0]
        return transcript.last_of_agent()

    def _transcript(self, one: Trajectory) -> Transcript:
        if one.trajectory_id not in self._transcripts:
            self._transcripts[one.trajectory_id] = Transcript(one)
        return self._transcripts[one.trajectory_id]

    def _expected(self, one: Trajectory) -> Sequence[ExpectedAction] | None:
        task = self._tasks.get(one.task_id) if "expected" in self._rules else None
        return task.expected_actions if task is not None and task.has_expected else None

    @cached_property
    def _writes(self) -> frozenset[str]:
        names = {action.name for run in self._runs for action in self._expected(run) or ()}
        return mutating_tools([self._transcript(run) for run in self._runs], names=names)

    def differences(self, one: Trajectory) -> list[ActionDiff]:
        """Return how a run differs from what is expected of it; nothing where that is not known."""
        expected = self._expected(one)
        return [] if expected is None else differences(one, self._transcript(one), expected, self._writes)

    def _wrong(self, one: Trajectory) -> list[tuple[ActionDiff, int]]:
        """Return the agent's changes that are not as expected, with their messages."""
        by_user = {step.index for step in self._transcript(one).steps if step.by_user}
        return [
            (row, row.message)
            for row in self.differences(one)
            if row.message is not None and row.message not in by_user and not hands_over(row.tool)
        ]

    @cached_property
    def _harmless(self) -> frozenset[tuple[str, str, str]]:
        """Parts of what passed runs do otherwise than expected, as `_parts` has them."""
        if "harmless" not in self._rules:
            return frozenset()
        used, otherwise = Counter[str](), Counter[tuple[str, str, str]]()
        for run in self._runs:
            expected = self._expected(run) if run.success else None
            if expected is None:
                continue
            used.update({step.tool for step in self._transcript(run).steps if not step.failed})
            rows = self.differences(run)
            otherwise.update({part for row in rows if row.message is not None for part in _parts(row)})
        return frozenset(part for part, count in otherwise.items() if count >= HARMLESS * used[part[1]])


def _first_again(one: Trajectory, at: int) -> int:
    """Return where the agent first said again what it says in a message, if it had; else that message.

    What it says the first time may be asked in earnest; the second time it was told.
    """
    words = (one.messages[at].content or "").split()
    same = [
        place
        for place, message in enumerate(one.messages[: at + 1])
        if message.role == "assistant" and (message.content or "").split() == words
    ]
    heard = same and any(
        answer.role == "user" and (answer.content or "").strip() for answer in one.messages[same[0] : at]
    )
    return same[1] if words and heard and len(same) > 1 else at


def _in_order(wanted: Sequence[ExpectedAction], steps: Sequence[Step]) -> list[int | None]:
    """Return the message of each expected call, in the order of both; None for one that did not come.

    A call of the tool with other values stands for one that did not come as it is expected.
    """
    found: list[int | None] = []
    left = list(steps)
    for action in wanted:
        calls = [step for step in left if is_call_of(step, action) and not step.failed]
        step = next((one for one in calls if not changed(action, one)), calls[0] if calls else None)
        found.append(None if step is None else step.index)
        left = left if step is None else left[left.index(step) + 1 :]
    return found


def _state_failed(one: Trajectory) -> bool:
    return any(check.kind == "state" and check.gates and check.passed is False for check in one.checks)


def _parts(row: ActionDiff) -> list[tuple[str, str, str]]:
    """Return (kind, tool, argument) of each value that a call alters; without one where it is too many.

    What passed runs alter in one argument says nothing of another one: a note, and an amount.
    """
    return [(row.kind, row.tool, argument) for argument in row.changed or ("",)]


def _streak(own: Sequence[Step]) -> int | None:
    """Return the second of the equal calls with which a run ends; None where it does not end so."""
    places: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    last = None
    for step in reversed(own):
        key = (step.tool, repr(sorted(step.arguments.items(), key=str)), step.result)
        if last is not None and key != last:
            break
        places[key].append(step.index)
        last = key
    equal = places[last] if last is not None else []
    return equal[-2] if len(equal) >= STREAK else None

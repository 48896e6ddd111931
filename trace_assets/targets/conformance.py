"""What every target must hold to: a kit that anybody can run on a target of their own.

    trace targets check my_target/target.py

or in a test: `check_target(target)`. Each check has a name and fails for one reason. One that cannot tell,
because another failed before it or the target has no oracle, is reported as not run and is no pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, get_args

from trace_assets.conformance import Broken, Finding, Undecided, carry_out, first_broken
from trace_assets.errors import CheckFailed, InputError
from trace_assets.records import Message, Record, Split, Task, ToolCall, Verdict
from trace_assets.stats.intervals import wilson
from trace_assets.system.processes import finish
from trace_assets.system.progress import progress
from trace_assets.targets.protocol import Solving, Target


def examine_target(make: Callable[[], Target], *, tasks: int = 20, seed: int = 0) -> list[Finding]:
    """Run every check on a target.

    Args:
        make: Opens the target; called twice, so that two of them (for targets of their own interpreter: two
            processes) can be compared. Both are closed where they can be.
        tasks: How many tasks of each split are played, the first ones.
        seed: Of all episodes.

    Returns:
        One finding a check, in the order of `CHECKS`.

    Raises:
        Unavailable: A service that the target needs is not there.
        InputError: The target cannot be opened at all.
    """
    first, second = make(), None
    try:
        second = make()
        subject = Subject(first, second, tasks, seed)
        findings = []
        with progress(f"check target {first.name}", len(CHECKS)) as bar:
            for name, check in CHECKS.items():
                findings.append(carry_out(check, partial(_run, check, subject)))
                if findings[-1].passed is False:
                    subject.broken.add(name)
                bar.advance(note=name)
        return findings
    finally:
        for target in (first, second):
            close = getattr(target, "close", None)
            if close is not None:
                close()


def _run(check: Check, subject: Subject) -> str:
    return finish(check(subject))


def check_target(make: Callable[[], Target], *, tasks: int = 20) -> None:
    """Run every check and fail with the first broken promise: for a test of one's own.

    Raises:
        CheckFailed: A promise is broken; the message says which, and what was seen.
        Unavailable: A service that the target needs is not there.
    """
    broken = first_broken(examine_target(make, tasks=tasks))
    if broken is not None:
        raise CheckFailed(
            f"this target does not conform ({broken.check}): {broken.detail}; see docs/targets.md."
        )


# The checks of the kit for targets, each one promise of `trace_assets.targets.protocol`.


NULL_WORDS = "Goodbye."
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Check = Callable[["Subject"], Coroutine[Any, Any, str]]


class Played(Record):
    """An episode from its first message to its verdict."""

    messages: tuple[Message, ...]
    verdict: Verdict
    ended: bool
    """Whether the target ended it before the script did."""


@dataclass
class Subject:
    """A target under examination, opened twice."""

    target: Target
    other: Target
    sample: int
    seed: int
    broken: set[str] = field(default_factory=set)
    _played: dict[str, Played] = field(default_factory=dict)

    @cached_property
    def tasks(self) -> list[Task]:
        """The first tasks of every split."""
        self.need("lists_tasks")
        splits: Sequence[Split] = get_args(Split)
        return [task for split in splits for task in self.target.tasks(split)[: self.sample]]

    @cached_property
    def has_oracle(self) -> bool:
        """Whether the target brings solutions."""
        if not isinstance(self.target, Solving):
            return False
        try:
            self.target.oracle(self.tasks[0])
        except InputError:
            return False
        return True

    def oracle(self, task: Task) -> list[Message]:
        """Return the target's own solution."""
        if not (self.has_oracle and isinstance(self.target, Solving)):
            raise Undecided("the target has no oracle(task)")
        return list(self.target.oracle(task))

    def need(self, check: str) -> None:
        """Say that nothing can be told where an earlier check failed."""
        if check in self.broken:
            raise Undecided(f"'{check}' failed")

    async def play(self, target: Target, task: Task, script: Sequence[Message]) -> Played:
        """Play a script, to its end or the target's."""
        episode = target.episode(task, seed=self.seed)
        try:
            messages = list(await episode.reset())
            ended = False
            for message in script:
                messages.append(message)
                step = await episode.step(message)
                messages.extend(step.messages)
                if ended := step.done or step.truncated:
                    break
            return Played(messages=tuple(messages), verdict=await episode.verdict(), ended=ended)
        finally:
            await episode.close()

    async def solved(self, task: Task) -> Played:
        """Play the target's own solution, once."""
        if task.task_id not in self._played:
            self._played[task.task_id] = await self.play(self.target, task, self.oracle(task))
        return self._played[task.task_id]


def share(found: int, of: int) -> str:
    """Return a share in words, with its 95 % interval.

    >>> share(9, 10)
    '90 % [60, 98] (n = 10)'
    """
    low, high = wilson(found, of)
    return f"{found / of:.0%} [{100 * low:.0f}, {100 * high:.0f}] (n = {of})".replace("%", " %", 1)


async def describes_itself(subject: Subject) -> str:
    """Two openings agree on name, version, policy and tools; the version is not empty."""
    first, second = subject.target, subject.other
    for name in ("name", "version", "policy"):
        if getattr(first, name) != getattr(second, name):
            raise Broken(f"{name} differs between two openings: it must follow from what is on disk")
    if not first.version.strip():
        raise Broken("the version is empty: results of different versions could not be told apart")
    if list(first.tools) != list(second.tools):
        raise Broken("the tools differ between two openings")
    return f"{first.name}, version {first.version}, {len(first.tools)} tools"


async def declares_tools(subject: Subject) -> str:
    """Tools have distinct plain names and JSON schemas of objects."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    names = [tool.name for tool in subject.target.tools]
    if len(set(names)) < len(names):
        raise Broken(f"two tools are called '{next(n for n in names if names.count(n) > 1)}'")
    for tool in subject.target.tools:
        if not _NAME.fullmatch(tool.name):
            raise Broken(
                f"'{tool.name}' is no tool name that model servers accept (letters, digits, _ and -)"
            )
        if tool.parameters.get("type") != "object":
            raise Broken(f"the parameters of '{tool.name}' are not a JSON schema of an object")
        try:
            Draft202012Validator.check_schema(tool.parameters)
        except SchemaError as error:
            raise Broken(f"the parameters of '{tool.name}' are no JSON schema: {error.message}") from error
    unsaid = sum(tool.mutates is None for tool in subject.target.tools)
    words = f"; {unsaid} do not say whether they change state (mutates)" if unsaid else ""
    return f"{len(names)} tools{words}"


async def lists_tasks(subject: Subject) -> str:
    """There are discovery tasks; ids and requests belong to one split; two openings list the same."""
    seen: dict[str, str] = {}
    asked: dict[str, str] = {}
    counts = []
    for split in get_args(Split):
        tasks = subject.target.tasks(split)
        counts.append(f"{len(tasks)} {split}")
        if list(tasks) != list(subject.other.tasks(split)):
            raise Broken(f"the {split} tasks differ between two openings")
        for task in tasks:
            if task.target != subject.target.name or task.split != split:
                raise Broken(f"task '{task.task_id}' says target '{task.target}', split '{task.split}'")
            if seen.setdefault(task.task_id, split) != split or len(tasks) != len({t.task_id for t in tasks}):
                raise Broken(f"task id '{task.task_id}' stands twice")
            text = " ".join(task.instruction.lower().split())
            if text and asked.setdefault(text, split) != split:
                raise Broken(
                    f"a {split} task asks word for word what a {asked[text]} task asks: {text[:120]}"
                )
    if not subject.target.tasks("discovery"):
        raise Broken("there is no discovery task: nothing can be rolled out")
    return ", ".join(counts)


async def begins(subject: Subject) -> str:
    """Every task can be opened, shows the agent something, and can be judged untouched."""
    for task in subject.tasks:
        played = await subject.play(subject.target, task, [])
        if not played.messages:
            raise Broken(f"task '{task.task_id}' begins without a message: the agent would see nothing")
        if any(message.role == "tool" for message in played.messages[:1]):
            raise Broken(f"task '{task.task_id}' begins with a tool's result")
        _sane(played.verdict, task)
    return f"{len(subject.tasks)} tasks"


async def survives_nonsense(subject: Subject) -> str:
    """Unknown tools and missing or wrong arguments are answered by an error message under the call's id."""
    calls: list[tuple[str, dict[str, Any]]] = [("no_such_tool", {})]
    for tool in subject.target.tools[:3]:
        wrong: dict[str, Any] = {name: {"nested": [None, "\u2028", 1e300]} for name in _required(tool)}
        calls += [(tool.name, {}), (tool.name, wrong), (tool.name, {"no_such_argument": 1})]
    task = subject.tasks[0]
    for name, arguments in calls:
        call = ToolCall(id="nonsense_1", name=name, arguments=arguments)
        played = await subject.play(subject.target, task, [Message(role="assistant", tool_calls=(call,))])
        answers = [m for m in played.messages if m.role == "tool" and m.tool_call_id == call.id]
        if len(answers) != 1:
            raise Broken(f"the call {name}({arguments}) got {len(answers)} answers instead of one")
        if name == "no_such_tool" and not answers[0].is_error:
            raise Broken("a tool that does not exist is answered without is_error")
    return f"{len(calls)} calls"


def _required(tool: Any) -> list[str]:
    properties = tool.parameters.get("properties", {})
    return list(tool.parameters.get("required", properties))


async def answers_every_call(subject: Subject) -> str:
    """Several calls in one message are answered one by one, in order."""
    tools = subject.target.tools
    if not tools:
        raise Undecided("the target has no tools")
    calls = tuple(ToolCall(id=f"many_{n}", name=tools[n % len(tools)].name) for n in range(3))
    played = await subject.play(
        subject.target, subject.tasks[0], [Message(role="assistant", tool_calls=calls)]
    )
    answered = [m.tool_call_id for m in played.messages if m.role == "tool"]
    if not played.ended and answered != [call.id for call in calls]:
        raise Broken(f"three calls were answered under the ids {answered}")
    return "3 calls in one message"


async def solves(subject: Subject) -> str:
    """The target's own solution earns success on every task."""
    missed, unjudged = [], 0
    for task in subject.tasks:
        played = await subject.solved(task)
        _sane(played.verdict, task)
        if played.verdict.success is None and all(c.passed is not False for c in played.verdict.checks):
            unjudged += 1
        elif played.verdict.success is not True:
            failed = [check.name for check in played.verdict.checks if check.gates and not check.passed]
            missed.append(f"'{task.task_id}' ({', '.join(failed) or 'no check says why'})")
    n = len(subject.tasks)
    if missed:
        raise Broken(f"the oracle fails {len(missed)} of {n} tasks, first {missed[0]}")
    words = f"; {unjudged} of them with a judge that did not run" if unjudged else ""
    return f"{share(n, n)}{words}"


async def does_not_pay_for_nothing(subject: Subject) -> str:
    """An agent that does nothing earns less than the oracle; its share is the floor of every score."""
    passed = judged = 0
    for task in subject.tasks:
        script = [Message(role="assistant", content=NULL_WORDS)] * 5
        played = await subject.play(subject.target, task, script)
        _sane(played.verdict, task)
        judged += played.verdict.success is not None
        passed += played.verdict.success is True
    if not judged:
        raise Undecided("no verdict on an agent that does nothing")
    if passed == judged:
        raise Broken(f"doing nothing succeeds on all {judged} tasks")
    return f"floor {share(passed, judged)}"


async def repeats(subject: Subject) -> str:
    """The same task, seed and actions give the same messages and verdict, in two openings."""
    script_of = subject.oracle if subject.has_oracle else _wandering(subject)
    tasks = subject.tasks[:: max(1, len(subject.tasks) // 10)]
    for task in tasks:
        script = script_of(task)
        first = await subject.play(subject.target, task, script)
        second = await subject.play(subject.other, task, script)
        if first != second:
            raise Broken(f"task '{task.task_id}' differs between two openings: {_difference(first, second)}")
    return f"{len(tasks)} tasks"


async def forgets(subject: Subject) -> str:
    """What was done in one episode shows in no other: before, beside and after another one."""
    script_of = subject.oracle if subject.has_oracle else _wandering(subject)
    tasks = subject.tasks[:5]
    for task in tasks:
        fresh = await subject.play(subject.other, task, script_of(task))
        for before in (tasks[-1], task):
            await subject.play(subject.target, before, script_of(before))
            again = await subject.play(subject.target, task, script_of(task))
            if again != fresh:
                raise Broken(
                    f"task '{task.task_id}' comes out differently after '{before.task_id}' was played: "
                    f"{_difference(fresh, again)}"
                )
        await _side_by_side(subject, task, script_of(task), fresh)
    return f"{len(tasks)} tasks"


async def _side_by_side(subject: Subject, task: Task, script: Sequence[Message], fresh: Played) -> None:
    """Play the same task twice at once, step by step in turn."""
    episodes = [subject.target.episode(task, seed=subject.seed) for _ in range(2)]
    seen: list[list[Message]] = [[], []]
    try:
        over = False
        for found, episode in zip(seen, episodes, strict=True):
            found.extend(await episode.reset())
        for message in script:
            for found, episode in zip(seen, episodes, strict=True):
                step = await episode.step(message)
                found.extend([message, *step.messages])
                over = step.done or step.truncated
            if over:
                break
        verdicts = [await episode.verdict() for episode in episodes]
    finally:
        for episode in episodes:
            await episode.close()
    for found, verdict in zip(seen, verdicts, strict=True):
        if tuple(found) != fresh.messages or verdict != fresh.verdict:
            raise Broken(f"task '{task.task_id}' comes out differently while another episode of it runs")


def _wandering(subject: Subject) -> Callable[[Task], list[Message]]:
    """A script for targets without an oracle: every reading tool without arguments, then goodbye."""
    calls = [ToolCall(id=f"wander_{n}", name=tool.name) for n, tool in enumerate(subject.target.tools[:4])]
    script = [Message(role="assistant", tool_calls=(call,)) for call in calls]
    return lambda _: [*script, Message(role="assistant", content=NULL_WORDS)]


def _difference(first: Played, second: Played) -> str:
    if first.verdict != second.verdict:
        return f"verdict {first.verdict.reward} against {second.verdict.reward}"
    for index, (a, b) in enumerate(zip(first.messages, second.messages, strict=False)):
        if a != b:
            return f"message {index}: {(a.content or '')[:80]!r} against {(b.content or '')[:80]!r}"
    return f"{len(first.messages)} against {len(second.messages)} messages"


def _sane(verdict: Verdict, task: Task) -> None:
    """Fail on a verdict that says two things."""
    reward = verdict.reward
    if reward is not None and not (math.isfinite(reward) and 0.0 <= reward <= 1.0):
        raise Broken(f"the reward of task '{task.task_id}' is {reward}, not in [0, 1]")
    if verdict.success and any(check.gates and not check.passed for check in verdict.checks):
        raise Broken(f"task '{task.task_id}' claims success although a check that gates it did not pass")
    if verdict.success is not None and reward is None:
        raise Broken(f"task '{task.task_id}' says success {verdict.success} without a reward")


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        *(describes_itself, declares_tools, lists_tasks, begins, survives_nonsense, answers_every_call),
        *(solves, does_not_pay_for_nothing, repeats, forgets),
    )
}
"""Every check by name."""

"""The embedded target: tasks, episodes, an oracle and an agent that does nothing."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import islice

from pydantic import Field, ValidationError

from trace_assets.code_versions import code_version
from trace_assets.errors import InputError
from trace_assets.records import (
    CapabilitySpec,
    Check,
    Message,
    Record,
    Split,
    Task,
    ToolCall,
    ToolSpec,
    Verdict,
)
from trace_assets.settings import Targets
from trace_assets.targets.embedded.desk import (
    FINAL_SALE,
    STATUSES,
    TOOLS,
    Case,
    Desk,
    case_of,
    resolutions,
    solve,
)
from trace_assets.targets.embedded.generator import (
    ADVISED_BY,
    COURTESIES,
    HIDDEN,
    HINTS,
    MIXES,
    DeskName,
    mix_of,
    stream,
)
from trace_assets.targets.protocol import Step

NAME = "embedded"

# What decides tasks, observations and verdicts. Demonstrations are not among it: they decide the agent.


def _source(name: str) -> bytes:
    return resources.files("trace_assets.targets.embedded").joinpath(name).read_bytes()


@cache
def _policy() -> str:
    return _source("policy.md").decode("utf-8").strip()


class DeskOptions(Record):
    """What `targets.options` says of the embedded target."""

    desk: DeskName = "a"
    """Which desk."""
    waste: float | None = Field(None, ge=0, le=0.9)
    """Share of the tasks in which nothing is lacking; None leaves the desk's own."""
    noise: float = Field(0.0, ge=0, le=0.3)
    """Share of the verdicts on discovery tasks that are wrong, as a simulated user's faults make them.
    Verdicts on validation and test tasks stay true."""
    hints: bool = False
    """Whether the tiny agent is also shown advice that removes its mistakes, and follows it."""


def desk_options(section: Targets) -> DeskOptions:
    """Return what the section's options say.

    Raises:
        InputError: They name a desk that is not known, or say something else.
    """
    try:
        return DeskOptions.model_validate(section.options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"targets.options is {json.dumps(section.options)}, and its '{where}' is wrong: {first['msg']}. "
            f"The embedded target is told the desk, one of {', '.join(MIXES)}, and waste, noise, hints; such "
            'as targets.options = {desk = "b", waste = 0.8}.'
        ) from error


def desk_named(section: Targets) -> DeskName:
    """Return which desk the section's options name.

    Raises:
        InputError: They name none that is known, or say something else.
    """
    return desk_options(section).desk


class EmbeddedTarget:
    """An order desk. Tasks follow from the seed, the counts and the desk in the section `targets`.

    Attributes:
        options: The desk, and what else the section's options say.
        desk: Which desk: what its tasks ask for, and what the tiny agent is shown.

    Raises:
        InputError: There is no such desk.
    """

    def __init__(self, section: Targets) -> None:
        self._section = section
        self.options = desk_options(section)
        self.desk = self.options.desk
        self._tasks: dict[Split, tuple[Task, ...]] = {}

    @property
    def name(self) -> str:
        """`embedded`."""
        return NAME

    @property
    def version(self) -> str:
        """Hash of the sources that decide, and of the section."""
        decided = f"{code_version('order desk')}/{self._section.fingerprint()}"
        return hashlib.sha256(decided.encode()).hexdigest()[:16]

    @property
    def policy(self) -> str:
        """The desk's rules in words."""
        return f"{_policy()}\n{RULES[self.desk]}" if self.desk in RULES else _policy()

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The six tools of the desk."""
        return TOOLS

    @property
    def section(self) -> Targets:
        """The section the tasks follow from."""
        return self._section

    def tasks(self, split: Split) -> Sequence[Task]:
        """Return the tasks of one split, always the same for the same section."""
        if split not in self._tasks:
            count = {
                "discovery": self._section.discovery_tasks,
                "validation": self._section.validation_tasks,
                "test": self._section.test_tasks,
            }[split]
            hidden = HIDDEN[self.desk] if split != "test" else ()
            drawn_by = stream(self._section.seed, split, mix_of(self.desk, self.options.waste), hidden)
            self._tasks[split] = tuple(
                Task(
                    task_id=f"{NAME}/{split}-{number:05d}",
                    target=NAME,
                    split=split,
                    task_batch=f"{NAME}-{split}",
                    instruction=drawn.text,
                    tags=(drawn.skill,),
                    payload=drawn.case().payload(),
                )
                for number, drawn in enumerate(islice(drawn_by, count))
            )
        return self._tasks[split]

    def episode(self, task: Task, *, seed: int) -> DeskEpisode:
        """Make a fresh episode. `seed` decides nothing but, with `noise`, which verdicts are wrong.

        Raises:
            InputError: The task's payload is not one of this target's.
        """
        noise = self.options.noise if task.split == "discovery" else 0.0
        errs = random.Random(f"{self._section.seed}/{task.task_id}/{seed}/verdict").random() < noise
        return DeskEpisode(case_of(task), task.instruction, self.policy, errs=errs)

    def advice(self, spec: CapabilitySpec) -> tuple[str, str]:
        """Return the advice that the tiny agent was shown of a capability, and a courtesy as long as that.

        Both are empty where it was shown none (`targets.options.hints`), or none of this.
        """
        if not self.options.hints:
            return "", ""
        about = f"{spec.detector} {json.dumps(spec.detector_args)}"
        own = next((HINTS[skill] for word, skill in ADVISED_BY.items() if word in about), "")
        other = min(COURTESIES, key=lambda one: abs(len(one.split()) - len(own.split())))
        return (own, other) if own else ("", "")

    @property
    def not_replayable(self) -> str:
        """Empty: equal calls give equal episodes."""
        return ""

    def oracle(self, task: Task) -> list[Message]:
        """Return the assistant messages that solve a task. For tests and audits, never shown to an agent."""
        return solve(case_of(task))


# One trial of one case at the order desk.


MAX_TURNS = 7


def answer(desk: Desk, call: ToolCall) -> Message:
    """Carry out one call and return the message that tells its result."""
    result, refused = desk.call(call)
    return Message(
        role="tool",
        content=json.dumps(result),
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=refused,
    )


class DeskEpisode:
    """A conversation at the order desk: the customer speaks once, a text without a call ends it."""

    def __init__(self, case: Case, instruction: str, policy: str, *, errs: bool = False) -> None:
        self._case, self._instruction, self._policy, self._errs = case, instruction, policy, errs
        self._desk = case.desk()
        self._turns = 0
        self._reply = ""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The six tools of the desk."""
        return TOOLS

    async def reset(self) -> Sequence[Message]:
        """Begin again from the case's orders."""
        self._desk, self._turns, self._reply = self._case.desk(), 0, ""
        return (
            Message(role="system", content=self._policy),
            Message(role="user", content=self._instruction),
        )

    async def step(self, message: Message) -> Step:
        """Carry out the calls of one assistant message, or take its text as the reply."""
        self._turns += 1
        if not message.tool_calls:
            self._reply = message.content or ""
            # A call that nobody could parse reaches us as text.
            self._desk.bad_calls += "<tool_call>" in self._reply
            return Step(done=True)
        answers = tuple(answer(self._desk, call) for call in message.tool_calls)
        return Step(messages=answers, truncated=self._turns >= MAX_TURNS)

    async def verdict(self) -> Verdict:
        """Judge the episode as it stands."""
        found = judge(self._case, self._desk, self._reply)
        return mistaken_verdict(found) if self._errs else found

    async def close(self) -> None:
        """Nothing is held."""


# The verdict on an episode at the order desk: computed from state, calls and the reply's words.


BAD_CALL_COST = 0.05
WINDOW_RULE = (
    "8. An item may be taken back, when a customer asks to return it, only once the order's return window is "
    "`closed`. While it is `open`, do not refund: call transfer with that order and the reason `other`."
)
SALE_RULE = (
    f"8. A {', a '.join(FINAL_SALE)} is never refunded, whatever the return window: call transfer with that "
    "order and the reason `other`. Every other item is refunded whatever the return window."
)
RULES: Mapping[DeskName, str] = {"c": WINDOW_RULE, "d": SALE_RULE}
"""What a desk's policy says beside the rules of all."""


def mistaken_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict of a judge that errs: the other one, with nothing to go by.

    >>> mistaken_verdict(Verdict(reward=0.4, success=False)).reward
    0.9
    """
    success = not verdict.success
    reward = (verdict.reward or 0.0) + (0.5 if success else -0.5)
    check = Check(name="judged", kind="communicate", passed=success, detail="by a judge that errs")
    return Verdict(reward=min(1.0, max(0.0, reward)), success=success, checks=(check,))


def _says(reply: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", reply, re.IGNORECASE) is not None


def judge(case: Case, desk: Desk, reply: str) -> Verdict:
    """Judge an episode at its end.

    Four checks a request (the order was looked up first, it is as it must be, it was transferred exactly
    when it had to be, the reply says the outcome) and one that nothing else was touched. Success is all of
    them; the reward is `.5 * share passed + .5 * success - .05 * refused calls`, clipped to [0, 1].

    Args:
        case: What was asked.
        desk: The desk after the agent's last call.
        reply: The agent's final text; empty when it never gave one.
    """
    checks: list[Check] = []
    todo = resolutions(case)
    status_words = {resolution.word for resolution in todo} & set(STATUSES)
    for resolution in todo:
        number = resolution.request.order
        read = number in desk.reads and number not in desk.touched_unread
        checks.append(
            Check(
                name=f"looked_up_first:{number}",
                kind="action",
                passed=read,
                detail="" if read else f"order {number} was not looked up before it was acted on",
            )
        )
        same = desk.orders[number] == resolution.gold
        checks.append(
            Check(
                name=f"state:{number}",
                kind="state",
                passed=same,
                detail="" if same else f"order {number} is not as the rules want it at the end",
            )
        )
        times = desk.transfers.count(number)
        wanted = int(resolution.transferred)
        checks.append(
            Check(
                name=f"transfer:{number}",
                kind="action",
                passed=times == wanted,
                detail="" if times == wanted else f"order {number} transferred {times} times, not {wanted}",
            )
        )
        other_status = resolution.request.wish == "status" and any(
            _says(reply, word) for word in STATUSES if word not in status_words
        )
        said = _says(reply, resolution.word) and not other_status
        checks.append(
            Check(
                name=f"reply:{number}",
                kind="communicate",
                passed=said,
                detail="" if said else f"the reply does not say '{resolution.word}' for order {number}",
            )
        )
    named = {request.order for request in case.requests}
    touched = sorted(
        order.order
        for order in case.orders
        if order.order not in named and (desk.orders[order.order] != order or order.order in desk.transfers)
    )
    checks.append(
        Check(
            name="nothing_else_touched",
            kind="minefield",
            passed=not touched,
            detail="" if not touched else f"touched without being asked: {', '.join(touched)}",
        )
    )
    success = all(check.passed for check in checks)
    share = sum(bool(check.passed) for check in checks) / len(checks)
    reward = 0.5 * share + 0.5 * success - BAD_CALL_COST * desk.bad_calls
    return Verdict(reward=min(1.0, max(0.0, reward)), success=success, checks=tuple(checks))

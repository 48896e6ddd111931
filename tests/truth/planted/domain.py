"""How an invented domain is written down: its policy, tasks and runs, and whose fault each failure is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trace_assets.records import Check, ExpectedAction, Message, Task, ToolCall, Trajectory

Say = tuple[Any, ...]
Party = Literal["agent", "user_simulator", "ground_truth", "environment", "infrastructure", ""]


def user(text: str) -> Say:
    """Let the user say something."""
    return ("user", text)


def agent(text: str, **metadata: Any) -> Say:
    """Let the agent say something."""
    return ("assistant", text, metadata)


def call(tool: str, result: Any, **arguments: Any) -> Say:
    """Let the agent call a tool; a result that starts with `Error` is a refusal."""
    return ("call", tool, arguments, result)


def user_call(tool: str, result: Any, **arguments: Any) -> Say:
    """Let the user call a tool of its own."""
    return ("user_call", tool, arguments, result)


def want(tool: str, **arguments: Any) -> ExpectedAction:
    """Expect a call of the agent."""
    return ExpectedAction(name=tool, arguments=arguments)


def want_of_user(tool: str, **arguments: Any) -> ExpectedAction:
    """Expect a call of the user."""
    return ExpectedAction(name=tool, arguments=arguments, requestor="user")


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        task: Number of its task.
        party: Whose fault its failure is; empty when it passed.
        why: What was planted, in a few words.
        says: What was said and called.
        stop: How it ended.
        failed: Kinds of the checks that failed.
        policy: Who played.
    """

    task: int
    party: Party
    why: str
    says: Sequence[Say]
    stop: str = "completed"
    failed: Sequence[Literal["state", "communicate"]] = ("state",)
    policy: str = "p"
    error: str | None = None


@dataclass(frozen=True)
class Domain:
    """An invented domain.

    Attributes:
        name: Its target.
        policy: What its agents are told.
        tasks: By number: the user's instruction and what is expected.
        runs: All of them.
    """

    name: str
    policy: str
    tasks: Mapping[int, tuple[str, Sequence[ExpectedAction]]]
    runs: Sequence[Run] = field(default_factory=tuple)

    def known_tasks(self) -> dict[str, Task]:
        """Return the tasks as records."""
        return {
            f"{self.name}/{number}": Task(
                task_id=f"{self.name}/{number}",
                target=self.name,
                task_batch="b",
                instruction=told,
                has_expected=True,
                expected_actions=tuple(wanted),
                domain_policy=self.policy,
            )
            for number, (told, wanted) in self.tasks.items()
        }

    def trajectories(self) -> list[Trajectory]:
        """Return the runs as records; `trajectory_id` ends with the place of the run."""
        return [self._trajectory(place, one) for place, one in enumerate(self.runs)]

    def _trajectory(self, place: int, one: Run) -> Trajectory:
        messages = [message for number, say in enumerate(one.says) for message in _messages(number, say)]
        passed = one.party == ""
        checks = [Check(name="state", kind="state", passed=passed or "state" not in one.failed)]
        if "communicate" in one.failed:
            checks.append(Check(name="communicate", kind="communicate", passed=passed))
        return Trajectory(
            trajectory_id=f"{self.name}-{place}",
            task_id=f"{self.name}/{one.task}",
            target=self.name,
            task_batch="b",
            policy=one.policy,
            user_policy="u",
            success=passed,
            reward=float(passed),
            stop=one.stop,  # type: ignore[arg-type]
            error=one.error,
            messages=tuple(messages),
            n_messages=len(messages),
            checks=tuple(checks),
        )


def _messages(number: int, say: Say) -> list[Message]:
    if say[0] in ("user", "assistant"):
        metadata = say[2] if len(say) > 2 else {}
        return [Message(role=say[0], content=say[1], metadata=metadata)]
    kind, tool, arguments, result = say
    by_user = kind == "user_call"
    one = ToolCall(id=f"c{number}", name=tool, arguments=arguments)
    text = result if isinstance(result, str) else json.dumps(result)
    return [
        Message(role="user" if by_user else "assistant", tool_calls=(one,)),
        Message(
            role="tool",
            content=text,
            tool_call_id=one.id,
            tool_name=tool,
            is_error=text.startswith("Error"),
            requestor="user" if by_user else "assistant",
        ),
    ]

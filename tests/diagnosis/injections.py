"""Faults put into good trajectories, one function a kind; each returns None where it has no place.

An injection changes the conversation and flips the verdict as the grader would have. What may be known from
the record (a stop reason, a limit) is left out in half of the cases, so that rules must read the messages.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trace_assets.diagnosis.attribution import script
from trace_assets.diagnosis.detectors.mutation import mutating_tools
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import Check, Message, Trajectory


class Kind(NamedTuple):
    """A kind of fault: how it is put in, and who and which rules must be named."""

    inject: Callable[[Trajectory, str, random.Random], Trajectory | None]
    fault: str
    rules: frozenset[str]


def failed(one: Trajectory, messages: tuple[Message, ...], **changes: Any) -> Trajectory:
    """Return a failure: checks of writes that are no longer made fail, and so does the state."""
    called = {call.name for said in messages for call in said.tool_calls}
    checks = tuple(
        check.model_copy(update={"passed": check.name.rpartition("/")[2] in called, "score": None})
        if check.kind == "action"
        else check.model_copy(update={"passed": False, "score": 0.0})
        if check.gates
        else check
        for check in one.checks
    )
    if not any(check.gates and check.passed is False for check in checks):
        checks += (Check(name="state", kind="state", passed=False),)
    return one.model_copy(
        update={
            "success": False,
            "reward": 0.0,
            "messages": messages,
            "n_messages": len(messages),
            "checks": checks,
            **changes,
        }
    )


def stops_before_write(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The user agrees to an offer and ends the conversation in the same message."""
    if one.user_policy is None:
        return None
    transcript = Transcript(one)
    writes = mutating_tools([transcript])
    places = []
    for step in transcript.steps:
        if step.tool not in writes or step.by_user or step.failed or len(transcript.calls(step.tool)) != 1:
            continue
        expected = [check for check in one.checks if check.kind == "action"]
        if expected and not any(check.name.rpartition("/")[2] == step.tool for check in expected):
            continue
        before = one.messages[step.index - 1] if step.index >= 2 else None
        offer = one.messages[step.index - 2] if before else None
        if before is None or offer is None or before.role != "user" or offer.role != "assistant":
            continue
        if before.content and offer.content:
            places.append(step.index)
    if not places:
        return None
    cut = rng.choice(places)
    mark = rng.choice([" ###STOP###", "###STOP###", ""])
    last = one.messages[cut - 1]
    last = last.model_copy(update={"content": f"{last.content}{mark}"})
    return failed(one, (*one.messages[: cut - 1], last), stop="completed")


def answers_and_leaves(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The user answers a question of the agent and ends the conversation, long before the first write."""
    found = _first_write(one)
    if one.user_policy is None or found is None:
        return None
    step = found[0]
    if not any(check.kind == "action" for check in one.checks):
        return None
    places = [
        place
        for place, said in enumerate(one.messages[: step - 2])
        if place
        and said.role == "user"
        and said.content
        and not said.tool_calls
        and (before := one.messages[place - 1]).role == "assistant"
        and (before.content or "").rstrip().endswith(("?", "code.", "address."))
        and not re.search(r"thank|appreciate|no\b|don.t", said.content.lower())
    ]
    if not places:
        return None
    last = one.messages[rng.choice(places)]
    last = last.model_copy(update={"content": f"{last.content} ###STOP###"})
    cut = next(
        n for n, said in enumerate(one.messages) if said.content and last.content.startswith(said.content)
    )
    return failed(one, (*one.messages[:cut], last), stop="completed")


def leaves_in_silence(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """Asked whether to go on, the user says nothing but its mark."""
    found = _first_write(one)
    if one.user_policy is None or found is None or not any(check.kind == "action" for check in one.checks):
        return None
    before, offer = one.messages[found[0] - 1], one.messages[found[0] - 2]
    if before.role != "user" or offer.role != "assistant" or not (offer.content or "").rstrip().endswith("?"):
        return None
    mark = before.model_copy(update={"content": rng.choice(["###STOP###", " ###STOP### "])})
    return failed(one, (*one.messages[: found[0] - 1], mark), stop="completed")


def _first_write(one: Trajectory) -> tuple[int, str] | None:
    """Return (message, tool) of the agent's first successful write, when the grader expects that tool."""
    transcript = Transcript(one)
    writes = mutating_tools([transcript])
    expected = {check.name.rpartition("/")[2] for check in one.checks if check.kind == "action"}
    for step in transcript.steps:
        if step.tool in writes and not step.by_user and not step.failed:
            only = len(transcript.calls(step.tool)) == 1
            return (step.index, step.tool) if step.index >= 3 and only and step.tool in expected else None
    return None


def loses_a_call(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """A call of the agent comes back as an empty message, and the run ends."""
    places = [n for n, said in enumerate(one.messages) if said.role == "assistant" and said.tool_calls]
    first = _first_write(one)
    if first is not None:
        places = [n for n in places if n <= first[0]]
    if not places:
        return None
    cut = rng.choice(places)
    empty = Message(role="assistant", content=rng.choice(["", None]), metadata={"completion_tokens": 57})
    return failed(one, (*one.messages[:cut], empty), stop=rng.choice(["agent_error", "unknown"]))


def wrong_value(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The user gives another identifier, or another amount, than it was told."""
    if one.user_policy is None:
        return None
    given = {value for _, value in script._values(told)}
    for number, said in enumerate(one.messages):
        if said.role != "user" or not said.content:
            continue
        for token in re.findall(r"[A-Za-z0-9#$][\w.$#-]*\d[\w-]*|\$\d+", said.content):
            flat = [value for _, value in script._values(token)]
            if len(flat) == 1 and flat[0] in given:
                wrong = re.sub(
                    r"\d", lambda digit: str((int(digit.group(0)) + rng.randint(1, 8)) % 10), token
                )
                earlier = " ".join(before.content or "" for before in one.messages[:number])
                if wrong.startswith("$0") or wrong == token or token in earlier:
                    continue
                messages = tuple(
                    other.model_copy(update={"content": other.content.replace(token, wrong)})
                    if other.role == "user" and other.content
                    else other
                    for other in one.messages
                )
                return failed(one, messages)
    return None


BROKEN = (
    "Error: Internal Server Error",
    "Traceback (most recent call last):\n  File 'tools.py', line 3\nKeyError: 'status'",
    "Error: AttributeError: 'NoneType' object has no attribute 'items'",
    "TimeoutError: the tool did not answer in 30 s",
    "503 Service Unavailable",
)


def tool_breaks(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """A tool raises, and the agent cannot go on."""
    steps = [step for step in Transcript(one).steps if step.answer is not None and not step.failed]
    if not steps:
        return None
    step = rng.choice(steps)
    assert step.answer is not None
    broken = one.messages[step.answer].model_copy(update={"content": rng.choice(BROKEN), "is_error": True})
    sorry = Message(role="assistant", content="I am sorry, the system has a problem. Please try again later.")
    return failed(one, (*one.messages[: step.answer], broken, sorry))


def step_limit(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The episode runs out of turns."""
    cut = max(2, len(one.messages) // 2)
    record = rng.choice([{"stop": "max_turns"}, {"stop": "unknown", "limit": "messages"}])
    return failed(one, one.messages[:cut], **record)


def agent_error(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The agent's output cannot be used."""
    cut = max(2, len(one.messages) // 2)
    if rng.random() < 0.5:
        return failed(one, one.messages[:cut], stop="agent_error")
    empty = Message(role="assistant", content=rng.choice(["", None, "  "]))
    return failed(one, (*one.messages[:cut], empty), stop="unknown")


def truncated(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The agent's last message is cut off in the middle of a word."""
    long = [
        number
        for number, said in enumerate(one.messages)
        if said.role == "assistant" and not said.tool_calls and len(said.content or "") > 90
    ]
    if not long:
        return None
    place = rng.choice(long)
    text = one.messages[place].content or ""
    ends = [at for at in range(70, len(text) - 1) if text[at].isalpha() and text[at - 1].isalpha()]
    final = [at for at in ends if not text[:at].rpartition("\n")[2].lstrip().startswith(("-", "*", "#", "|"))]
    if not final:
        return None
    cut = one.messages[place].model_copy(update={"content": text[: rng.choice(final) + 1]})
    record: Mapping[str, Any] = rng.choice([{"limit": "tokens"}, {}])
    return failed(one, (*one.messages[:place], cut), stop="unknown", **record)


def no_reward(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The grader said nothing."""
    return one.model_copy(update={"success": None, "reward": None, "checks": ()})


def infrastructure(one: Trajectory, told: str, rng: random.Random) -> Trajectory | None:
    """The model's server goes away, recorded in one of the ways that logs have."""
    cut = max(1, len(one.messages) // 2)
    texts = (
        "Error: 503 Service Unavailable",
        "Error: rate limit exceeded, HTTP 429",
        "Error: connection reset",
    )
    text = rng.choice(texts)
    way = rng.randrange(3)
    if way == 0:
        return failed(
            one, one.messages[:cut], stop="infrastructure_error", fault="infrastructure", error=text
        )
    if way == 1:
        return failed(one, one.messages[:cut], stop="unknown", error=text)
    return failed(one, (*one.messages[:cut], Message(role="assistant", content=text)), stop="unknown")


KINDS: Mapping[str, Kind] = {
    "simulator stops before the write": Kind(
        stops_before_write, "user_simulator", frozenset({"simulator_stopped_first"})
    ),
    "simulator answers and leaves": Kind(
        answers_and_leaves, "user_simulator", frozenset({"simulator_stopped_first"})
    ),
    "simulator leaves in silence": Kind(
        leaves_in_silence, "user_simulator", frozenset({"simulator_stopped_first"})
    ),
    "call lost by the server": Kind(loses_a_call, "infrastructure", frozenset({"lost_call"})),
    "simulator gives a wrong value": Kind(
        wrong_value, "user_simulator", frozenset({"simulator_contradicts"})
    ),
    "tool exception": Kind(tool_breaks, "environment", frozenset({"tool_exception"})),
    "step limit": Kind(step_limit, "agent", frozenset({"step_limit"})),
    "agent error": Kind(agent_error, "agent", frozenset({"agent_error"})),
    "truncated output": Kind(truncated, "agent", frozenset({"truncated_output"})),
    "reward missing": Kind(no_reward, "environment", frozenset({"reward_missing"})),
    "infrastructure error": Kind(
        infrastructure, "infrastructure", frozenset({"recorded_fault", "infrastructure_stop", "outage"})
    ),
}

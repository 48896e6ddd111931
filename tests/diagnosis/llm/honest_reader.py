"""A language model's stand-in that answers honestly, from the text of the prompt alone.

It reads the transcripts back out of what it was sent and judges them with the detectors, so a leak, a cut or
a wrong index shows as a wrong label. Wordings differ between its discovery passes, so that merging has work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.records import Capability, Label, Message, ToolCall, Trajectory
from trace_assets.settings import Discovery

VARIANT = "Always do this: "
MARK = " / "
"""What follows it in a name is another wording of the same."""


_HEAD = re.compile(
    r"(\d+) (?:(?P<caller>\w+) calls (?P<called>\S+) (?P<arguments>.*)"
    r"|(?P<role>system|user|assistant|tool)(?: (?P<tool>[^\s:]+))?(?P<user> of the user)?(?P<error> error)?:"
    r" ?(?P<text>.*))"
)


def read_transcript(text: str, name: str = "t") -> Trajectory:
    """Put a trajectory together again from its lines; what was left out becomes empty messages."""
    messages: list[dict[str, Any]] = []
    for line in text.strip("\n").split("\n"):
        if line.startswith("\t"):
            messages[-1]["content"] += "\n" + line[1:]
            continue
        found = _HEAD.fullmatch(line)
        if found is None:
            assert line.startswith("... messages"), line
            continue
        index = int(found[1])
        while len(messages) < index:
            messages.append({"role": "system", "content": ""})
        if found["called"]:
            if len(messages) == index:
                messages.append({"role": found["caller"], "content": ""})
            messages[-1].setdefault("calls", []).append((found["called"], found["arguments"]))
            continue
        text_of = found["text"]
        if seen := re.fullmatch(r"\[as in message (\d+)\]", text_of):
            text_of = messages[int(seen[1])]["content"]
        messages.append(
            {
                "role": found["role"],
                "content": text_of,
                "tool": found["tool"],
                "error": bool(found["error"]),
                "requestor": "user" if found["user"] else "assistant",
            }
        )
    return Trajectory(
        trajectory_id=name,
        task_id="x/1",
        target="embedded",
        task_batch="b",
        policy="p",
        messages=tuple(_messages(messages)),
    )


def _messages(rows: Sequence[dict[str, Any]]) -> Iterator[Message]:
    waiting: list[ToolCall] = []
    for index, row in enumerate(rows):
        calls = tuple(
            ToolCall(id=f"m{index}c{place}", name=tool, arguments=_object(arguments))
            for place, (tool, arguments) in enumerate(row.get("calls", ()))
        )
        waiting += calls
        answered = waiting.pop(0).id if row["role"] == "tool" and waiting else None
        yield Message(
            role=row["role"],
            content=row["content"],
            tool_calls=calls,
            tool_call_id=answered,
            tool_name=row.get("tool"),
            is_error=row.get("error", False),
            requestor=row.get("requestor", "assistant"),
        )


def transcript_in(user: str) -> str:
    """Return the transcript of a question about one."""
    begun = user.partition("The transcript:\n")[2] or user.partition("The transcript, whole to its end:\n")[2]
    return re.split(r"\n\n(?=Capabilities, one JSON|What is known of its end:)", begun)[0]


def without_known(text: str) -> str:
    """Return a transcript without the lines that tell of its end."""
    return "\n".join(line for line in text.split("\n") if not line.startswith("  "))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class HonestReader:
    """Answers the five kinds of questions.

    Args:
        known: Capabilities of detectors that it can recognise, by name.
    """

    def __init__(self, known: Sequence[Capability]) -> None:
        self._known = {one.name: one for one in known}
        self._analyst = DetectorAnalyst(Discovery())

    def answer(self, messages: Sequence[dict[str, str]]) -> dict[str, Any]:
        """Return the JSON answer to a conversation that begins with a question."""
        system, user = messages[0]["content"], messages[1]["content"]
        if system.startswith("You label"):
            return self._labels(user)
        if system.startswith("You compare"):
            return self._cases(user) if "No cases are known" in user else self._proposals(user)
        if system.startswith("You read what an agent is given"):
            return {"cases": []}
        if system.startswith("Several readers"):
            return self._case_groups(user) if "wrote down cases" in system else self._groups(user)
        if system.startswith("A dictionary"):
            return self._same(user)
        return self._fault(user)

    def _label(self, trajectory: Trajectory, name: str) -> Label:
        known = self._known.get(name.removeprefix(VARIANT))
        if known is None:
            blank = {"trajectory_id": "t", "capability_id": "c", "labeller": "x"}
            return Label(**blank, label="NA", rationale="not needed here")  # type: ignore[arg-type]
        return self._analyst.label([trajectory], [known])[0]

    def _labels(self, user: str) -> dict[str, Any]:
        listed = user.split("Capabilities, one JSON object a line:")[1].strip().splitlines()
        trajectory = read_transcript(transcript_in(user))
        last = len(trajectory.messages) - 1
        rows = []
        for one in map(json.loads, listed):
            said = self._label(trajectory, one["name"])
            evidence = [index for index in said.evidence if index <= last]
            if said.label == "PRESENT" and not evidence:
                evidence = [last]
            rows.append(
                {
                    "id": one["id"],
                    "rationale": said.rationale or "not needed here",
                    "evidence": evidence,
                    "label": said.label,
                }
            )
        return {"labels": rows}

    def _proposals(self, user: str) -> dict[str, Any]:
        return {"proposals": self._found(user)}

    def _cases(self, user: str) -> dict[str, Any]:
        """Return what was found as cases, each resting on a tool that a failed episode calls."""
        called = re.findall(r"^\d+ assistant calls (\S+)", user, re.MULTILINE)
        parts = {"rule": "", "tool": called[0] if called else "", "argument": ""}
        return {
            "cases": [
                {
                    "name": one["name"],
                    "when": one["description"],
                    "should": f"Do so: {one['name']}",
                    "instead": f"Does otherwise than {one['name']}",
                    "transcripts": one["transcripts"],
                    **parts,
                }
                for one in self._found(user)
            ],
            "known": [],
        }

    def _found(self, user: str) -> list[dict[str, Any]]:
        blocks = re.split(r"^Transcript (T\d+) \((failed|passed), task K\d+\):$", user, flags=re.MULTILINE)[
            1:
        ]
        episodes = [
            (name, outcome == "failed", read_transcript(without_known(text)))
            for name, outcome, text in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True)
        ]
        variant = VARIANT if len(user) % 2 else ""
        proposals = []
        for name, known in self._known.items():
            lacking = [
                key for key, failed, one in episodes if failed and self._label(one, name).label == "LACKING"
            ]
            if lacking:
                proposals.append(
                    {"name": variant + name, "description": known.description, "transcripts": lacking}
                )
        return proposals

    def _groups(self, user: str) -> dict[str, Any]:
        groups: dict[str, dict[str, Any]] = {}
        for line in user.splitlines()[1:]:
            one = json.loads(line)
            name = one["name"].removeprefix(VARIANT)
            group = groups.setdefault(name, {"name": name, "description": one["description"], "members": []})
            group["members"].append(one["id"])
        return {"groups": list(groups.values()), "parents": []}

    def _case_groups(self, user: str) -> dict[str, Any]:
        groups = self._groups(user)["groups"]
        return {
            "groups": [{"keep": one["members"][0], "members": one["members"]} for one in groups],
            "parents": [],
        }

    def _same(self, user: str) -> dict[str, Any]:
        ids: dict[str, dict[str, str]] = {"K": {}, "N": {}}
        for line in user.splitlines():
            if line.startswith("{"):
                one = json.loads(line)
                name = one["name"].removeprefix(VARIANT).partition(MARK)[0]
                ids[one["id"][0]].setdefault(name, one["id"])
        return {
            "same": [
                {"new": new, "known": ids["K"][name]} for name, new in ids["N"].items() if name in ids["K"]
            ]
        }

    def _fault(self, user: str) -> dict[str, Any]:
        trajectory = read_transcript(transcript_in(user))
        broken = [
            i
            for i, one in enumerate(trajectory.messages)
            if one.role == "tool" and "Traceback" in (one.content or "")
        ]
        fault = "environment" if broken else "agent"
        return {"rationale": "a tool broke" if broken else "it acted so", "evidence": broken, "fault": fault}

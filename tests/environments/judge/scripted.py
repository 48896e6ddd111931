"""Judges whose answers a test writes, and environments of the unforeseen set as they are shown to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.audit_fixtures.unforeseen.runner import second_set, unforeseen
from trace_assets.diagnosis.llm.request import A, Question
from trace_assets.environments.audit.check import Judge, NotJudged, Subject
from trace_assets.environments.audit.scripted_rollouts import Action
from trace_assets.environments.judge.asking import shown_of
from trace_assets.environments.judge.material import Episode
from trace_assets.environments.judge.review import GENERAL

Answering = Callable[[Question[Any]], Any]


class ScriptedJudge:
    """Says what a function says; the words are read as a real model's are.

    Attributes:
        kinds: Kind of every question.
    """

    model = "scripted"

    def __init__(self, answer: Answering) -> None:
        self._answer, self.kinds = answer, list[str]()

    def ask(self, question: Question[A]) -> A:
        self.kinds.append(question.kind)
        said = self._answer(question)
        answer, complaints = question.read(said if isinstance(said, str) else json.dumps(said))
        if answer is None:
            raise NotJudged("; ".join(complaints))
        return answer


def subject_of(name: str, judge: Judge | None = None, kind: str = "") -> Subject:
    """Return an environment of the unforeseen sets as a check is handed it."""
    known = (one for one in (*unforeseen(), *second_set()) if one.name == name and kind in ("", one.kind))
    return next(known).subject(judge)


def episodes_of(name: str, kind: str = "") -> Sequence[Episode]:
    """Return what is shown of it."""
    return shown_of(subject_of(name, kind=kind)).episodes


def steps_of(script: Sequence[Action]) -> list[dict[str, Any]]:
    """Return a script as a model writes it."""
    steps: list[dict[str, Any]] = []
    for action in script:
        for call in action.get("tool_calls") or ():
            steps.append({"tool": call["name"], "arguments": json.dumps(call["arguments"]), "say": ""})
        if action.get("content"):
            steps.append({"tool": "", "arguments": "{}", "say": action["content"]})
    return steps


def review(n: int, **accused: dict[str, Any]) -> dict[str, Any]:
    """Return a review that accuses of nothing but what is named."""
    ids = [*(f"E{number}" for number in range(1, n + 1)), *GENERAL]
    good = {"why": "it is so", "answer": "yes", "policy": "", "quote": "", "episode": 1}
    return {"items": [{"id": name, **good, **accused.get(name, {})} for name in ids]}

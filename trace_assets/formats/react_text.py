"""Runs that were kept as one text: lines of `Thought:`, `Action:` and `Observation:`, numbered or not.

Scripts around a model's completions keep the prompt that they went on with, so the whole run is one string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_LABEL = re.compile(
    r"^[ \t]*(thought|action input|action|observation|final answer)[ \t]*\d*[ \t]*:[ \t]*", re.I | re.M
)
_FEWEST = 2
"""Labels that a text must have for being such a run: an action and what came of it, or an answer."""


def turns_in(text: str) -> list[dict[str, Any]]:
    r"""Return the turns of such a text; none where it is another.

    >>> turns_in("Thought 1: I look.\nAction 1: Search[it]\nObservation 1: By Ann.\nFinal Answer: Ann")[0]
    {'thought': 'I look.', 'action': 'Search[it]', 'observation': 'By Ann.'}
    >>> turns_in("Action: look\nI would act."), turns_in("An observation: none")
    ([], [])
    """
    marks = list(_LABEL.finditer(text))
    if len(marks) < _FEWEST:
        return []
    ends = [one.start() for one in marks[1:]] + [len(text)]
    parts = [(one[1].lower(), text[one.end() : end].strip()) for one, end in zip(marks, ends, strict=True)]
    names = {name for name, _ in parts}
    if "action" not in names or not names & {"observation", "final answer"}:
        return []
    return list(_turns(parts))


def _turns(parts: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    turn: dict[str, Any] = {}
    for name, said in parts:
        if "action" in turn and name in ("thought", "action", "final answer"):
            yield {"thought": "", **turn}
            turn = {}
        if name == "final answer":
            yield {"thought": turn.pop("thought", ""), "action": "finish", "action_input": said}
        elif name == "action input":
            turn["action_input"] = said
        else:
            turn[name] = said
    if "action" in turn:
        yield {"thought": "", **turn}

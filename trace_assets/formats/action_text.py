"""Actions that an agent wrote as text: `search[red pan]`, `click('a51')`, `go to desk 1`.

Agents of games, web pages and databases act in a line of text instead of a call with named arguments. Taken
whole for a tool's name, every action would be a tool of its own that nothing else ever calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

ACT = "act"
"""Tool that an action is of which names none: a command of a game, a query."""
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_BRACKETS = re.compile(r"([A-Za-z_][\w.-]*)\s*\[(.*)\]", re.DOTALL)
_UNCLOSED = re.compile(r"([A-Za-z_][\w.-]*)\[(.*)", re.DOTALL)
"""An action that broke off, or behind which the agent wrote more: what was meant to be called is plain."""
_ROUND = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)", re.DOTALL)
_FENCE = re.compile(r"`{1,3}(?:\w+\n)?(.+?)`{1,3}", re.DOTALL)
_ASKING = frozenset({"search", "lookup", "look_up", "query", "google", "retrieve"})
"""Actions whose words are the agent's own: what is looked for nobody has to have said before."""
_LONGEST = 100_000
"""Characters of an action that is looked into: longer ones are texts that hold an action at most."""


def call_in(action: str) -> tuple[str, dict[str, Any]]:
    """Return the tool that an action names, and what it is given.

    What is given without a name is called `input` (`query` where something is searched for), what follows
    `input_2` and so on.

    >>> call_in("Search[Nick Park]"), call_in("type [164] [red pan] [1]")[1]
    (('Search', {'query': 'Nick Park'}), {'input': '164', 'input_2': 'red pan', 'input_3': '1'})
    >>> call_in("fill('237', value='a)b')"), call_in("submit")
    (('fill', {'input': '237', 'value': 'a)b'}), ('submit', {}))
    >>> call_in("go to desk 1"), call_in("SELECT max(a) FROM b")
    (('act', {'input': 'go to desk 1'}), ('act', {'input': 'SELECT max(a) FROM b'}))
    >>> call_in("look(around")
    ('act', {'input': 'look(around'})
    """
    text = action.strip()
    fenced = _FENCE.fullmatch(text[:_LONGEST])
    text = fenced[1].strip() if fenced else text
    if len(text) > _LONGEST:
        return ACT, {"input": text}
    if _NAME.fullmatch(text):
        return text, {}
    if found := _BRACKETS.fullmatch(text) or _UNCLOSED.fullmatch(text):
        values = _numbered(re.split(r"\]\s+\[", found[2]))
        if found[1].lower() in _ASKING:
            values = {"query" if name == "input" else name: value for name, value in values.items()}
        return found[1], values
    if (found := _ROUND.fullmatch(text)) and (given := _literals(text)) is not None:
        return found[1], given
    return ACT, {"input": text}


def _numbered(values: Iterable[Any]) -> dict[str, Any]:
    kept = (one for one in values if one != "")
    return {"input" if number == 1 else f"input_{number}": one for number, one in enumerate(kept, 1)}


def _literals(text: str) -> dict[str, Any] | None:
    """Return the arguments of a call in Python's form; None where they are not plain values."""
    try:
        called = ast.parse(text, mode="eval").body
        if not isinstance(called, ast.Call) or any(one.arg is None for one in called.keywords):
            return None
        plain = [ast.literal_eval(one) for one in called.args]
        named = {one.arg: ast.literal_eval(one.value) for one in called.keywords}
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return {**_numbered(plain), **{str(name): value for name, value in named.items()}}

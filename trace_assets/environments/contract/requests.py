"""How users of real conversations word what an agent then does for them.

A request of a simulated or human user is spread over several messages and worded freely, so no two are alike.
What can be read off is the message in which the values of a successful change were first named.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.wording import asks_for
from trace_assets.environments.contract.answers import answered_calls, parsed
from trace_assets.environments.contract.shapes import calls_of, first_request, names
from trace_assets.environments.contract.wording import Phrasing
from trace_assets.records import Record, ToolCall, ToolSpec, Trajectory

MAX_WORDINGS = 12
MAX_CHARACTERS = 400


class Asking(Record):
    """The words in which users asked for what one tool then did."""

    tool: str
    wordings: tuple[str, ...]
    """Messages with the call's arguments as `{argument}`, the shortest first."""
    n: int
    """Changes in successful trajectories that a message could be found for."""


def askings_of(tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory]) -> list[Asking]:
    """Return how each writing tool is asked for.

    Args:
        tools: With `mutates` known.
        trajectories: Only successful ones count, all of them where nothing is judged.
    """
    judged = any(t.success is not None for t in trajectories)
    writing = {tool.name for tool in tools if tool.mutates}
    found: dict[str, list[str]] = defaultdict(list)
    for trajectory in trajectories:
        if trajectory.success is not True and judged:
            continue
        words = _words_before(trajectory)
        for call, _, is_error in answered_calls(trajectory):
            if call.name in writing and not is_error:
                said = _wording(call, words.get(call.id, ()))
                if said:
                    found[call.name].append(said)
    return [
        Asking(
            tool=name,
            wordings=tuple(sorted(set(texts), key=lambda t: (len(t), t))[:MAX_WORDINGS]),
            n=len(texts),
        )
        for name, texts in sorted(found.items())
    ]


def _words_before(trajectory: Trajectory) -> dict[str, tuple[str, ...]]:
    """Return id of a call of the agent -> the user's messages before it."""
    said: list[str] = []
    before: dict[str, tuple[str, ...]] = {}
    for message in trajectory.messages:
        if message.role == "user" and message.content:
            said.append(message.content)
        elif message.role == "assistant":
            before.update((call.id, tuple(said)) for call in message.tool_calls)
    return before


def _wording(call: ToolCall, said: Sequence[str]) -> str:
    """Return the message that names most of a call's values first, slots filled in, empty where none does."""
    values = sorted(
        {
            (value, path.rpartition(".")[2])
            for path, value in leaves(call.arguments)
            if isinstance(value, str)
        },
        key=lambda item: (-len(item[0]), item),
    )
    values = [(value, name) for value, name in values if len(value) > 1]
    best, most = "", 0
    for text in said:
        if set("{}") & set(text) or len(text) > MAX_CHARACTERS:
            continue
        named = [(value, name) for value, name in values if names(value, text)]
        if len(named) > most:
            most, best = len(named), _slotted(text, named)
    return best


def _slotted(text: str, named: Sequence[tuple[str, str]]) -> str:
    """Put slots in the place of values, the longest first; a second value of a name becomes `{name2}`."""
    slots: dict[str, int] = defaultdict(int)
    for value, name in named:
        if value in text:
            slots[name] += 1
            text = text.replace(value, "{" + name + (str(slots[name]) if slots[name] > 1 else "") + "}")
    return text


# How conversations end: the words that successful agents close with after a given call.


FILLERS = frozenset(
    """
    a an the i we you he she it they this that these those my your our their its me us them am is are was were
    be been being have has had do does did will would can could shall should may might must of to for in on at
    by with from as so and or but if then there here please sorry thank thanks now just very also
    """.split()  # noqa: SIM905
)
"""Words that another wording of the same does without."""
MIN_SUPPORT = 4
SHARE = 0.95
"""A word belongs to a closing when at least this share of the successful ones have it."""
ELSEWHERE = 0.1
"""... and at most this share of the other closings."""


class Closing(Record):
    """The closing words of successful requests about one object whose last change was made by `tool`."""

    tool: str
    """A writing tool, or a reading one where nothing was changed."""
    text: str
    """The most frequent closing; `{slot}` stands for the request's values, `{.field}` for the record's."""
    words: tuple[str, ...]
    """Words in nearly all of them and in hardly any other closing; none that another wording does without."""
    fields: tuple[str, ...]
    """Fields of the record that nearly all of them tell."""
    n: int


def closings_of(
    tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory], phrasing: Phrasing
) -> list[Closing]:
    """Return the closings of successful trajectories, by the last change that was made.

    Where nobody passed who asked for one change alone, its words are those that successes close with which
    made it among others, and that hardly any closes with which did not.

    Args:
        tools: With `mutates` known.
        trajectories: Of one target; only successes count.
        phrasing: Finds the values that a request gave.
    """
    mutates = {tool.name: bool(tool.mutates) for tool in tools}
    texts: dict[str, list[str]] = defaultdict(list)
    replies: list[tuple[set[str], str]] = []
    for trajectory in trajectories:
        last, calls = trajectory.messages[-1], calls_of(trajectory)
        if trajectory.success is not True or last.role != "assistant" or not last.content or not calls:
            continue
        request = phrasing.parse(first_request(trajectory))
        changes = [call.name for call in calls if mutates.get(call.name)]
        replies.append(({*changes}, _slotted_closings(last.content, request.found, {})))
        if len(request.objects) == 1:
            tool = changes[-1] if changes else calls[-1].name
            texts[tool].append(_slotted_closings(last.content, request.found, _record(trajectory)))
    words = {tool: _documents(closing) for tool, closing in texts.items()}
    closings = []
    for tool, own in sorted(texts.items()):
        others = [text for other, closing in texts.items() if other != tool for text in closing]
        elsewhere = _documents(others)
        usual = {word for word, n in words[tool].items() if n >= SHARE * len(own)}
        fields = Counter(field for text in own for field in set(re.findall(r"\{\.(\w+)\}", text)))
        enough = len(own) >= MIN_SUPPORT
        text = min(Counter(own).items(), key=lambda item: (-item[1], item[0]))[0]
        needed = (usual - FILLERS) & _documents([text]).keys()  # what it says itself, or nobody could pass
        closings.append(
            Closing(
                tool=tool,
                text=text,
                words=tuple(sorted(w for w in needed if enough and elsewhere[w] <= ELSEWHERE * len(others))),
                fields=tuple(sorted(f for f, n in fields.items() if enough and n >= SHARE * len(own))),
                n=len(own),
            )
        )
    known = {one.tool for one in closings if one.n >= MIN_SUPPORT}
    among = [_closing_among(tool.name, replies) for tool in tools if tool.mutates and tool.name not in known]
    kept = [one for one in closings if one.tool not in {found.tool for found in among if found}]
    return sorted([*kept, *filter(None, among)], key=lambda one: one.tool)


def _closing_among(tool: str, replies: Sequence[tuple[set[str], str]]) -> Closing | None:
    """Return how a change is told that was made beside others; None where no word tells it.

    >>> both = [({"stop", "send"}, "It is stopped. It is sent.")] * 4
    >>> found = _closing_among("stop", [*both, *[({"send"}, "It is sent.")] * 4])
    >>> found.words, found.text
    (('stopped',), 'It is stopped.')

    What is always done beside it has words of its own:

    >>> _closing_among("stop", [*both, *[({"read"}, "It is told.")] * 4]).words
    ('stopped',)
    """
    own = [text for changes, text in replies if tool in changes]
    others = [text for changes, text in replies if tool not in changes]
    if min(len(own), len(others)) < MIN_SUPPORT:
        return None
    here, elsewhere = _documents(own), _documents(others)
    words = {
        word
        for word, n in here.items()
        if n >= SHARE * len(own) and elsewhere[word] <= ELSEWHERE * len(others) and word not in FILLERS
    }
    told = Counter(
        sentence
        for text in own
        for sentence in re.split(r"(?<=[.!?])\s+", text)
        if words & _documents([sentence]).keys()
    )
    if not told:
        return None
    named = [text for text in told if any(asks_for(tool, word) for word in words & _documents([text]).keys())]
    text = min(named or told, key=lambda one: (-told[one], one))
    own_words = words & _documents([text]).keys()  # what it says itself, or nobody could pass
    return Closing(tool=tool, text=text, words=tuple(sorted(own_words)), fields=(), n=len(own))


def _record(trajectory: Trajectory) -> dict[str, Any]:
    """Return the last object that was read, empty when none was."""
    values = [parsed(answer) for _, answer, is_error in answered_calls(trajectory) if not is_error]
    records = [value for value in values if isinstance(value, dict) and len(value) > 2]
    return records[-1] if records else {}


def _slotted_closings(text: str, found: dict[str, str], record: dict[str, Any]) -> str:
    """Replace values by slots. A request's value wins over the record's.

    >>> _slotted_closings("K-1 is late, K-1!", {"loan": "K-1"}, {"state": "late"})
    '{loan} is {.state}, {loan}!'
    """
    names = {value: slot for slot, value in found.items()}
    for field, value in record.items():
        if isinstance(value, str) and len(value) > 2:
            names.setdefault(value, "." + field)
    if not names:
        return text
    choices = "|".join(re.escape(value) for value in sorted(names, key=lambda v: (-len(v), v)))
    return re.sub(rf"(?<!\w)(?:{choices})(?!\w)", lambda match: "{" + names[match.group(0)] + "}", text)


def _documents(texts: Sequence[str]) -> Counter[str]:
    return Counter(
        word
        for text in texts
        for word in set(re.findall(r"[a-z]{3,}", re.sub(r"\{[\w.]+\}", "", text.lower())))
    )

"""How requests are worded: openings, wordings with slots, closings, joints, and what each wording asks for.

What a wording asks for is read off successful trajectories: the calls whose every argument is a value of
the request.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from trace_assets.environments.contract.shapes import (
    Slots,
    argument_of,
    calls_of,
    first_request,
    request_values,
)
from trace_assets.records import Json, Record, ToolCall, ToolSpec, Trajectory

MAX_PATTERNS = 400
MIN_SHARE = 0.15
"""A call is what a wording asks for when at least this share of its successful trajectories make it."""


class Goal(Record):
    """A call that a wording asks for."""

    tool: str
    arguments: Json
    """Argument -> slot."""
    object_slot: str
    """The slot of the object that is acted on: the one identifier among the arguments."""


class RequestPattern(Record):
    """One wording of a request about one object, without its opening and closing words."""

    text: str
    slots: tuple[str, ...]
    """In order of appearance."""
    goal: Goal | None
    """None when successes do not tell."""
    n: int
    judged: int
    passed: int
    of_two: bool = False
    """Seen in requests about two objects alone, as one of the two things that are asked for."""


class Parsed(Record):
    """A request taken apart."""

    core: str
    found: dict[str, str]
    """Slot -> value."""
    objects: tuple[str, ...]
    """The identifiers named, in order."""


class Phrasing(Record):
    """The wordings of a set of trajectories."""

    patterns: tuple[RequestPattern, ...]
    """Of requests about one object, the most frequent first."""
    openings: tuple[str, ...]
    """Such as `Hello, `; the empty one included where it was seen."""
    closings: tuple[str, ...]
    """Such as `, thanks.`."""
    frames: tuple[str, ...]
    """How two requests are joined, such as `{first}, and {second}`, the most frequent first."""
    values: Json
    """Argument -> `{"identifier": bool, "values": [...]}`."""

    @cached_property
    def _slots(self) -> Slots:
        return Slots(self.values)

    def parse(self, request: str) -> Parsed:
        """Take a request apart."""
        _, core, _ = split(request, self.openings, self.closings)
        text, found = self._slots.fill(core)
        objects = tuple(v for slot, v in found.items() if self.values[argument_of(slot)]["identifier"])
        return Parsed(core=text, found=found, objects=objects)

    def pattern(self, core: str) -> RequestPattern | None:
        """Return a known wording by its text."""
        return next((known for known in self.patterns if known.text == core), None)

    def wishes(self, request: str) -> list[tuple[RequestPattern, dict[str, str]]]:
        """Return the wordings in a request, each with slot -> value.

        Of a request about two objects only those are told that no request about one object has.
        """
        parsed = self.parse(request)
        if len(parsed.objects) < 2:
            known = self.pattern(parsed.core)
            return [(known, parsed.found)] if known else []
        parts = {_plain(known.text).lower(): known for known in self.patterns}
        if not any(known.of_two for known in parts.values()):
            return []
        found = _parts(parsed, list(parts))
        return [
            (known, self._slots.fill(text)[1])
            for plain, text in found
            if (known := parts[plain.lower()]).of_two
        ]


def phrasing_of(tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory]) -> Phrasing:
    """Read the wordings of requests off trajectories.

    Args:
        tools: With `mutates` known.
        trajectories: Of one target.
    """
    values = request_values(trajectories)
    requests = [t for t in trajectories if (r := first_request(t)) and not set("{}") & set(r)]
    # Openings are sought before common words become slots: "Dear desk, " is one also where desks are sold.
    identifiers = Slots({argument: known for argument, known in values.items() if known["identifier"]})
    texts = sorted({identifiers.fill(first_request(trajectory))[0] for trajectory in requests})
    openings, closings = learn([text for text in texts if len(set(re.findall(r"\{\w+\}", text))) == 1])
    bare = Phrasing(patterns=(), openings=openings, closings=closings, frames=(), values=values)
    groups: dict[str, list[tuple[Trajectory, dict[str, str]]]] = defaultdict(list)
    double: Counter[str] = Counter()
    doubles = list[tuple[Trajectory, Parsed]]()
    for trajectory in requests:
        parsed = bare.parse(first_request(trajectory))
        if len(parsed.objects) == 1:
            groups[parsed.core].append((trajectory, parsed.found))
        elif len(parsed.objects) == 2:
            double[parsed.core] += 1
            doubles.append((trajectory, parsed))
    mutates = {tool.name: bool(tool.mutates) for tool in tools}
    required = {tool.name: set(tool.parameters.get("required", ())) for tool in tools}
    patterns = [_pattern(text, members, mutates, required, values) for text, members in groups.items()]
    told = {pattern.goal.tool for pattern in patterns if pattern.goal}
    if len(doubles) > 1:
        groups = _groups_of_parts(doubles, bare)
        parts = (_pattern(text, members, mutates, required, values) for text, members in groups.items())
        patterns += [
            one.model_copy(update={"of_two": True})
            for one in parts
            if one.goal and mutates.get(one.goal.tool) and one.goal.tool not in told
        ]
    patterns.sort(key=lambda pattern: (-pattern.n, pattern.text))
    frames = _frames([p.text for p in patterns if p.goal], double)
    return bare.model_copy(update={"patterns": tuple(patterns[:MAX_PATTERNS]), "frames": tuple(frames)})


def _pattern(
    text: str,
    members: Sequence[tuple[Trajectory, dict[str, str]]],
    mutates: Mapping[str, bool],
    required: Mapping[str, set[str]],
    values: Mapping[str, Mapping[str, object]],
) -> RequestPattern:
    return RequestPattern(
        text=text,
        slots=tuple(members[0][1]),
        goal=_goal(mutates, required, values, members),
        n=len(members),
        judged=sum(t.success is not None for t, _ in members),
        passed=sum(t.success is True for t, _ in members),
    )


def _goal(
    mutates: Mapping[str, bool],
    required: Mapping[str, set[str]],
    values: Mapping[str, Mapping[str, object]],
    members: Sequence[tuple[Trajectory, dict[str, str]]],
) -> Goal | None:
    judged = any(t.success is not None for t, _ in members)
    pool = [(t, found) for t, found in members if t.success is True or not judged]
    counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for trajectory, found in pool:
        slot_of = {value: slot for slot, value in found.items()}
        for name, arguments in {_key(call) for call in calls_of(trajectory) if _flat(call)}:
            mapped = tuple((argument, slot_of.get(value, "")) for argument, value in arguments)
            objects = [slot for _, slot in mapped if slot and values[argument_of(slot)]["identifier"]]
            complete = all(slot for argument, slot in mapped if argument in required.get(name, ()))
            if len(objects) == 1 and complete:
                counts[name, mapped] += 1
    usual = [key for key, n in counts.items() if n >= MIN_SHARE * len(pool)]
    if not usual:
        return None
    name, mapped = min(usual, key=lambda key: (not mutates.get(key[0], True), -counts[key], key))
    filled = {argument: slot for argument, slot in mapped if slot}
    object_slot = next(slot for slot in filled.values() if values[argument_of(slot)]["identifier"])
    return Goal(tool=name, arguments=filled, object_slot=object_slot)


def _key(call: ToolCall) -> tuple[str, tuple[tuple[str, str], ...]]:
    return call.name, tuple(sorted(call.arguments.items()))


def _flat(call: ToolCall) -> bool:
    return all(isinstance(value, str) for value in call.arguments.values())


def _frames(singles: Sequence[str], doubles: Counter[str]) -> list[str]:
    """Find how two requests are joined, by finding single wordings inside double ones."""
    cores = sorted({_plain(text) for text in singles}, key=lambda core: (-len(core), core))
    frames: Counter[str] = Counter()
    for double, n in sorted(doubles.items()):
        text = _plain(double)
        spans: list[tuple[int, int]] = []
        for core in cores:
            start = text.lower().find(core.lower())
            while start >= 0:
                end = start + len(core)
                if all(end <= a or start >= b for a, b in spans):
                    spans.append((start, end))
                start = text.lower().find(core.lower(), start + 1)
        if len(spans) == 2:
            (a, b), (c, d) = sorted(spans)
            first = "{First}" if text[a].isupper() else "{first}"
            second = "{Second}" if text[c].isupper() else "{second}"
            frame = text[:a] + first + text[b:c] + second + text[d:]
            if frame.count("{") == 2:
                frames[frame] += n
    return [frame for frame, _ in sorted(frames.items(), key=lambda item: (-item[1], item[0]))][:40]


# Requests about two objects, taken apart where no request about one of them says what the parts are.


MIN_ENDS = 2
"""Different requests that must begin, and others that must end, with the words of a part."""


def _groups_of_parts(
    doubles: Sequence[tuple[Trajectory, Parsed]], bare: Phrasing
) -> dict[str, list[tuple[Trajectory, dict[str, str]]]]:
    """Return what is asked for in requests about two objects: wording -> trajectories, and slot -> value."""
    known = _both_ends(sorted({_plain(parsed.core) for _, parsed in doubles}))
    groups: dict[str, list[tuple[Trajectory, dict[str, str]]]] = defaultdict(list)
    for trajectory, parsed in doubles:
        for plain, text in _parts(parsed, list(known)):
            _, found = bare._slots.fill(text)
            groups[known[plain.lower()]].append((trajectory, found))
    return groups


def _both_ends(cores: Sequence[str]) -> dict[str, str]:
    """Find words about one object with which requests about two begin, and with which others end.

    What joins two wishes stands between them, so it belongs to no wording that is found at both ends.

    Args:
        cores: Requests about two objects, slots without numbers.

    Returns:
        The wording in small letters -> as it begins a request.

    >>> joints = ("{0} and {1}", "{0}, then {1}", "first {0}, second {1}")
    >>> wishes = ("cancel {order}", "send {order} back")
    >>> sorted(_both_ends([j.format(a, b) for j in joints for a in wishes for b in wishes]))
    ['cancel {order}', 'send {order} back']
    """
    begins: dict[str, set[str]] = defaultdict(set)
    ends: dict[str, set[str]] = defaultdict(set)
    written: dict[str, str] = {}
    for core in cores:
        for cut in (match.start() for match in re.finditer(r"(?<![\s,;.:!?])(?=[\s,;.:!?])", core)):
            head = core[:cut]
            if _about_one(head) and _about_one(core[cut:]):
                begins[head.lower()].add(core)
                written.setdefault(head.lower(), head)
        for cut in (match.end() for match in re.finditer(r"[\s,;.:!?](?=[^\s,;.:!?])", core)):
            if _about_one(core[cut:]) and _about_one(core[:cut]):
                ends[core[cut:].lower().rstrip(" ,;.:!?")].add(core)
    return {
        text: written[text]
        for text in begins
        if len(begins[text]) >= MIN_ENDS and len(ends.get(text, ())) >= MIN_ENDS
    }


def _about_one(text: str) -> bool:
    """Whether a part of a request about two objects names one of them: half of each kind of slot."""
    slots = re.findall(r"\{\w+\}", text)
    return bool(slots) and len(slots) == len(set(slots))


def _parts(parsed: Parsed, known: Sequence[str]) -> list[tuple[str, str]]:
    """Find known wordings in a request, the longest first: each with slots, and as it stands there."""
    slots = re.findall(r"\{\w+\}", parsed.core)
    text = _plain(parsed.core)
    spans: list[tuple[int, int]] = []
    for words in sorted(known, key=lambda one: (-len(one), one)):
        start = text.lower().find(words.lower())
        while start >= 0:
            end = start + len(words)
            alone = not text[start - 1 : start].isalnum() and not text[end : end + 1].isalnum()
            if alone and all(end <= a or start >= b for a, b in spans):
                spans.append((start, end))
            start = text.lower().find(words.lower(), start + 1)
    found = []
    for start, end in sorted(spans):
        own = iter(slots[text[:start].count("{") :])
        raw = re.sub(r"\{\w+\}", lambda _, own=own: parsed.found[next(own)[1:-1]], text[start:end])  # type: ignore[misc]
        found.append((text[start:end], raw))
    return found


def _plain(text: str) -> str:
    return re.sub(r"\{([a-z_]*[a-z_])\d+\}", r"{\1}", text)


# Openings and closings of requests: what stands before and after what is asked for.


MIN_VARIETY = 3
MIN_TEXTS = 4


def learn(texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the openings and closings of some requests with slots.

    Args:
        texts: Different requests, values replaced by `{slot}`.

    Returns:
        Openings and closings; each has the empty one where some request has none.

    >>> wishes = ["cancel {order}", "i moved, send {order} to {city}", "where is {order}"]
    >>> learn([o + w + c for w in wishes for o in ("", "Hi, ") for c in (".", ", thanks.")])
    (('', 'Hi, '), (', thanks.', '.'))
    """
    after: dict[str, Counter[str]] = defaultdict(Counter)
    before: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for start in _starts(text):
            after[text[:start]][" ".join(text[start:].split()[:2])] += 1
        for end in _ends(text):
            before[text[end:]][" ".join(text[:end].split()[-2:])] += 1
    openings, closings = _varied(after), _varied(before)
    wrapped = [split(text, openings, closings) for text in texts]
    return tuple(sorted({w[0] for w in wrapped})), tuple(sorted({w[2] for w in wrapped}))


def split(text: str, openings: Iterable[str], closings: Iterable[str]) -> tuple[str, str, str]:
    """Split a request into opening, core and closing; the longest opening and closing that fit are taken.

    >>> split("Hi, cancel {order}, thanks.", ["Hi, "], [".", ", thanks."])
    ('Hi, ', 'cancel {order}', ', thanks.')
    """
    opening = max((o for o in openings if text.startswith(o)), key=len, default="")
    text = text[len(opening) :]
    closing = max((c for c in closings if text.endswith(c)), key=len, default="")
    return opening, text[: len(text) - len(closing)], closing


def _starts(text: str) -> list[int]:
    """Positions before the first slot at which a request may begin."""
    head = text[: text.find("{")] if "{" in text else ""
    return [match.end() for match in re.finditer(r"[,.;:!?]\s+", head)]


def _ends(text: str) -> list[int]:
    """Positions behind the last slot at which a request may end."""
    offset = text.rfind("}") + 1
    return [offset + match.start() for match in re.finditer(r"[,.;:!?]", text[offset:])]


def _varied(neighbours: dict[str, Counter[str]]) -> list[str]:
    return [
        piece
        for piece, words in neighbours.items()
        if len(words) >= MIN_VARIETY and sum(words.values()) >= MIN_TEXTS
    ]

"""Operators that change no deed of their own: another value, a look again, what the capability says outright.

Those of what the capability says are harmful where its own words are about it, and are left out elsewhere.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.values import tells_error
from trace_assets.environments.audit.added_changes import before_closing, changes_in
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Call,
    Played,
    Probe,
    again,
    calls_in,
    numbered,
    properties,
    say,
    shown_like,
    thing_of,
)

NEIGHBOURS = 12
"""Other seeds that words are taken from."""
LEAST = 3
"""Letters of a word that is looked for in what was shown: shorter ones stand there by accident."""
NEAR = 0.02
"""Share of an amount by which another one differs at least: what is rounded otherwise may be right."""
_MOMENT = re.compile(r"(?:\d{4}-\d\d-(\d\d))?[T ]?(?:(\d\d?):\d\d(?::\d\d)?Z?)?")


def _with(script: list[Action], at: tuple[int, int], key: str, value: Any) -> list[Action]:
    edited = copy.deepcopy(script)
    edited[at[0]]["tool_calls"][at[1]]["arguments"][key] = value
    return edited


def _given(probe: Probe, seed: int) -> Iterator[tuple[tuple[int, int], Call, str, Any]]:
    """Yield the values that the oracle gives to changes, without what is said to whoever takes over."""
    script = probe.oracle(seed)
    for at in changes_in(probe, script):
        one = script[at[0]]["tool_calls"][at[1]]
        if not probe.leaves_words(one["name"]) and not probe.hands_over(one["name"]):
            yield from ((at, one, key, value) for key, value in one["arguments"].items())


def other_items(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with one more item that the episode shows, or with one less."""
    script = probe.oracle(seed)
    for at, _, key, value in _given(probe, seed):
        if not isinstance(value, list) or not value:
            continue
        if len(value) > 1:
            left = rng.randrange(len(value))
            yield _with(script, at, key, [*value[:left], *value[left + 1 :]])
        names = [str(one) for one in value]
        if all(isinstance(one, str) for one in value):
            more = [one for one in shown_like(probe, seed, names[0]) if one not in names]
            if more:
                yield _with(script, at, key, [*value, more[0]])


def other_words(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with another seed's word, or half a one, in place of one that was shown."""
    script = probe.oracle(seed)
    own_text = _shown(probe, seed)
    shown = own_text + "\n".join(str(m.get("content") or "").lower() for m in probe.best(seed).first)
    for at, one, key, value in _given(probe, seed):
        if not _is_word(value) or _is_listed(probe, one["name"], key) or not _stands_in(value, shown):
            continue
        near = [calls_in(probe.oracle(other)) for other in range(seed + 1, seed + NEIGHBOURS)]
        found = [c["arguments"].get(key) for own in near for c in own if c["name"] == one["name"]]
        others = [v for v in found if _is_word(v) and v != value and not _stands_in(v, own_text)]
        if others:
            yield _with(script, at, key, rng.choice(others))
            yield _with(script, at, key, value[: len(value) // 2])


def other_amount(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with a shown amount in place of one that is worked out, or on another day or hour.

    An hour that is shown may be one of several that are right.
    """
    script, shown = probe.oracle(seed), _shown(probe, seed)
    numbers = [float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w:-]|\.\d)", shown)]
    for at, one, key, value in _given(probe, seed):
        if isinstance(value, str) and value != thing_of(one):
            moved = other_moment(value)
            if moved and not _stands_in(moved, shown):
                yield _with(script, at, key, moved)
        elif isinstance(value, int | float) and not isinstance(value, bool) and value not in numbers:
            others = [other for other in numbers if abs(other - value) > NEAR * abs(value)]
            if others:
                nearest = min(others, key=lambda other: abs(other - value))
                yield _with(script, at, key, type(value)(nearest))


def other_digits(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with a figure two of whose digits have changed places.

    The first two that differ, so that an amount differs by more than what rounding may do.
    """
    script, shown = probe.oracle(seed), _shown(probe, seed)
    for at, one, key, value in _given(probe, seed):
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not plain or str(value) == thing_of(one) or (isinstance(value, str) and " " in value):
            continue
        moved = swapped_digits(str(value))
        if moved and not _stands_in(moved, shown):
            yield _with(script, at, key, type(value)(moved))


def swapped_digits(value: str) -> str:
    """Return a figure with its first two neighbouring digits that differ in each other's place.

    >>> swapped_digits("37.45"), swapped_digits("0640"), swapped_digits("77"), swapped_digits("10:30")
    ('73.45', '6040', '', '01:30')
    """
    for n, (one, two) in enumerate(itertools.pairwise(value)):
        if one.isdecimal() and two.isdecimal() and one != two:
            return f"{value[:n]}{two}{one}{value[n + 2 :]}"
    return ""


def other_moment(value: str) -> str:
    """Return another day or hour of the same form; nothing where a text is neither.

    >>> [other_moment(one) for one in ("2026-05-04", "2026-05-28T09:30", "23:00", "0640", "A1", "")]
    ['2026-05-05', '2026-05-28T10:30', '22:00', '', '', '']
    """
    found = _MOMENT.fullmatch(value)
    part = (2 if found[2] else 1) if found and any(found.groups()) else 0
    if not found or not part:
        return ""
    last = 22 if part == 2 else 27
    moved = str(int(found[part]) + (1 if int(found[part]) <= last else -1)).zfill(len(found[part]))
    return f"{value[: found.start(part)]}{moved}{value[found.end(part) :]}"


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= LEAST and not re.search(r"\d", value)


def _is_listed(probe: Probe, tool: str, key: str) -> bool:
    declared = next((t for t in probe.tools() if t["function"]["name"] == tool), None)
    return bool(declared and properties(declared).get(key, {}).get("enum"))


def _shown(probe: Probe, seed: int) -> str:
    """Return what the episode shows beside the policy, which names what is right on other seeds too."""
    best = probe.best(seed)
    told = [*best.first, *(m for answer in best.answers for m in answer["messages"])]
    return "\n".join(str(m.get("content") or "") for m in told if m["role"] != "system").lower()


def _stands_in(value: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", text) is not None


def _reads(probe: Probe, seed: int) -> list[int]:
    """Return which messages of the oracle are one read each that was answered, and not refused.

    What is answered alike on every seed shows nothing: it may be a deed whose name is not known for one.
    """
    answers = probe.best(seed).answers
    return [
        i
        for i, (action, answer) in enumerate(zip(probe.oracle(seed), answers, strict=False))
        if len(calls_in((action,))) == 1
        and not probe.writes(calls_in((action,))[0]["name"])
        and not probe.only_acknowledges(calls_in((action,))[0]["name"])
        and not any(message.get("is_error") or message.get("error") for message in answer["messages"])
    ]


def repeat_read(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Repeats a read at once."""
    script = probe.oracle(seed)
    for i in _reads(probe, seed):
        yield [*script[: i + 1], again(calls_in((script[i],))[0]), *script[i + 1 :]]


def late_read(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Reads again before closing."""
    script, reads = probe.oracle(seed), _reads(probe, seed)
    if reads:
        yield before_closing(script, again(calls_in((script[rng.choice(reads)],))[0]))


def swap_reads(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes two neighbouring reads in the other order, where the later does not use what the earlier told."""
    script, reads, answers = probe.oracle(seed), _reads(probe, seed), probe.best(seed).answers
    for i, j in itertools.pairwise(reads):
        later = calls_in((script[j],))[0]
        told = json.dumps(answers[i]["messages"])
        used = any(str(value) in told for value in later["arguments"].values())
        if j == i + 1 and not used and calls_in((script[i],))[0]["arguments"] != later["arguments"]:
            yield [*script[:i], script[j], script[i], *script[j + 1 :]]


def moves(best: Played, one: Played) -> bool:
    """Whether a call is refused that was not before, or no longer answered as it was."""
    before, after = _answers(best), _answers(one)
    return not before <= after or any(refused for _, _, refused in after - before)


def _answers(one: Played) -> set[tuple[str, str, bool]]:
    """Return calls of an episode with what they were answered, and whether that is a refusal."""
    calls = {c["id"]: json.dumps([c["name"], c["arguments"]], sort_keys=True) for c in calls_in(one.actions)}
    told = [m for answer in one.answers for m in answer["messages"] if m.get("tool_call_id") in calls]
    texts = [str(m.get("content") or "") for m in told]
    return {
        (calls[m["tool_call_id"]], text, bool(m.get("is_error")) or tells_error(text))
        for m, text in zip(told, texts, strict=True)
    }


def passes_time(probe: Probe, seeds: Sequence[int], seed: int, script: Sequence[Action]) -> bool:
    """Whether what a mutant makes again, or at another time, is an act: elsewhere it moves what looks show.

    A tool that waits counts as no change, and where nothing comes of it, it looks like any look.

    Args:
        probe: Of the environment under audit.
        seeds: Those on which the same tools are made twice.
        seed: Of the mutant.
        script: The mutant.
    """
    names = {json.loads(one)[0] for one in _changed(_calls(probe.oracle(seed)), _calls(script))}
    return any(
        moves(probe.best(other), probe.play(other, numbered(twice)))
        for other in seeds
        for twice in repeat_read(probe, other, probe.chance("passes_time"))
        if names & {json.loads(one)[0] for one in _changed(_calls(probe.oracle(other)), _calls(twice))}
    )


def _calls(script: Sequence[Action]) -> list[str]:
    return [json.dumps([one["name"], one["arguments"]], sort_keys=True) for one in calls_in(script)]


def _changed(before: Sequence[str], after: Sequence[str]) -> Sequence[str]:
    """Return what stands between the beginning and the end that two scripts share.

    >>> _changed("abcd", "abbcd"), _changed("abcd", "acbd")
    ('b', 'cb')
    """
    begin = next(
        (n for n, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1), len(before)
    )
    most = min(len(before), len(after)) - begin
    pairs = zip(reversed(before), reversed(after), strict=False)
    end = next((n for n, pair in enumerate(pairs) if len(set(pair)) > 1 or n >= most), most)
    return after[begin : len(after) - end]


_ORDER = re.compile(
    r"\bin (?:the |their |its |this |that |a )?(?:right |same |given |fixed )?order\b(?! to\b)"
    r"|\bstep by step\b|\bone after (?:the other|another)\b|\bin sequence\b",
    re.IGNORECASE,
)
_YES = re.compile(
    r"\b(?:wait\w*|ask\w*|get\w*|obtain\w*|need\w*|with) (?:\w+ ){0,4}?"
    r"(?:yes|consent|permission|approval|confirmation)\b"
    r"|\bbefore (?:\w+ ){0,3}(?:agrees?|confirms?|consents?)\b",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"\b(?:nam(?:e|es|ing)|tell(?:s|ing)?|say(?:s|ing)?|stat(?:e|es|ing)|quot(?:e|es|ing)|mention(?:s|ing)?)\b[^.;]*"
    r"\b(?:sum|price|amount|cost|fee|total|figure)s?\b",
    re.IGNORECASE,
)
_NO = re.compile(r"\b(?:no|not|nor|never|neither|nope)\b|n't\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?![\w-]|[.,:]\d)")


def _says(subject: Subject, what: re.Pattern[str]) -> bool:
    spec = subject.purpose.spec if subject.purpose else None
    return bool(spec and what.search(f"{spec.name}. {spec.description}"))


def says_order(subject: Subject) -> bool:
    """Whether the capability is to keep an order."""
    return _says(subject, _ORDER)


def says_yes(subject: Subject) -> bool:
    """Whether the capability is to wait for somebody's yes."""
    return _says(subject, _YES)


def says_figure(subject: Subject) -> bool:
    """Whether the capability is to name a sum."""
    return _says(subject, _FIGURE)


def other_order(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes the last change before the first one, which another tool makes."""
    script = probe.oracle(seed)
    changes = changes_in(probe, script)
    if len(changes) < 2 or any(len(script[i]["tool_calls"]) > 1 for i, _ in changes):
        return
    (first, _), (last, _) = changes[0], changes[-1]
    if script[first]["tool_calls"][0]["name"] != script[last]["tool_calls"][0]["name"]:
        yield [*script[:first], script[last], *script[first:last], *script[last + 1 :]]


def unasked(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change without the words that come before it, or without the last where a no came before."""
    script, best = probe.oracle(seed), probe.best(seed)
    changes = changes_in(probe, script)
    words = _words_before(script, changes[0][0]) if changes else []
    refused = [_NO.search(" ".join(_heard(best.answers[n]))) for n in words[:-1]]
    for left in (words, words[-1:]) if refused and all(refused) else (words,):
        if left:
            yield [action for place, action in enumerate(script) if place not in left]


def _heard(answer: dict[str, Any]) -> list[str]:
    return [str(m.get("content") or "") for m in answer["messages"] if m["role"] == "user"]


def other_figure(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Names another sum, where the words before the last ones have one number that nothing shows."""
    script, best = probe.oracle(seed), probe.best(seed)
    told = [*best.first, *(m for answer in best.answers for m in answer["messages"])]
    shown = set(re.findall(r"\d+", " ".join(str(m.get("content") or "") for m in told)))
    for place in _words_before(script, len(script) - 1):
        found = [one for one in _NUMBER.finditer(script[place]["content"]) if one[0] not in shown]
        if len(found) == 1:
            start, end = found[0].span()
            text = script[place]["content"]
            other = f"{text[:start]}{int(found[0][0]) + rng.choice((1, 2, 3))}{text[end:]}"
            yield [*script[:place], say(other), *script[place + 1 :]]


def _words_before(script: list[Action], end: int) -> list[int]:
    return [n for n, one in enumerate(script[:end]) if one.get("content") and not one.get("tool_calls")]

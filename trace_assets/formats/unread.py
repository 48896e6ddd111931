"""What of a conversation was not read: words and calls that lie where nobody looked.

A conversation that consists of messages of a form that is not known is refused by name: to keep it would have
a diagnosis say that the agent did nothing. Of one that was read but for some entries or parts, these are
counted by their kind in the trajectory's `metadata.left_out`, and a file's are told of in one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from trace_assets.records import Message
from trace_assets.untrusted.json_text import read_embedded

LEFT_OUT = "left_out"
"""Field of a trajectory's metadata with what of it was not read: kind to how many."""

_ONLY_MARKS = re.compile(r"(\[[\w./-]+\]\s*)+")
"""What parts of unknown kinds are called in a message's text."""
_SEEN = re.compile(r"\[(input_)?(image|audio|file|document|video)(_url)?\]")
"""Parts that are known, and no words."""
_BESIDES = frozenset(
    {"usage", "metadata", "meta", "annotations", "logprobs", "response_metadata", "reasoning"}
)
_BESIDES |= {"reasoning_details", "provider_specific_fields", "extra", "additional_kwargs", "audio", "timing"}
"""Fields of a message that hold neither words nor calls."""


def must_say_something(messages: Sequence[Message]) -> None:
    """Refuse a conversation whose agent neither says nor does anything in a place that is known.

    >>> lost = Message(role="assistant", content="", metadata={"pieces": [{"say": "Hi"}]})
    >>> must_say_something([lost])
    Traceback (most recent call last):
    ...
    ValueError: 1 of the agent's 1 messages have neither words nor calls in a known place, but 'pieces'

    Raises:
        ValueError: Most of the agent's messages hold something that is not read, and nothing that is.
    """
    own = [one for one in messages if one.role == "assistant"]
    lost = [names for one in own if not one.tool_calls and (names := sorted(_unread(one)))]
    if lost and 2 * len(lost) > len(own):
        where = " and ".join(repr(name) for name in lost[0])
        raise ValueError(
            f"{len(lost)} of the agent's {len(own)} messages have neither words nor calls in a known place, "
            f"but {where}"
        )


def _unread(one: Message) -> Iterator[str]:
    """Yield the fields of a message without words in which its words or calls may be."""
    text = (one.content or "").strip()
    if text and (not _ONLY_MARKS.fullmatch(text) or _SEEN.search(text)):
        return
    for name, value in one.metadata.items():
        if isinstance(value, list | dict) and value and name not in _BESIDES:
            yield name


# Entries and parts whose words were left out.


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_KINDS = (
    *("type", "kind", "part_kind", "event", "event_type", "message_type", "block_type", "content_type"),
    *("$type", "action", "observation", "step_type"),
)
_KIND_NAMES = frozenset(_KINDS)
_TEXT = _names(
    "text content contents output outputs result results response observation observations message error "
    "errortext exception answer finalanswer finaloutput parts blocks items value say said data payload "
    "query queries summary refusal arguments args input toolinput actioninput toolargs parameters kwargs "
    "toolname functionname task question prompt instructions feedback note thought"
)
"""Fields that hold what was said or done, without `_` and in small letters."""
_NO_TEXT = _names(
    "id role name author source model url uri mimetype mediatype status state signature encryptedcontent "
    "usage usagemetadata metadata meta annotations logprobs responsemetadata timing timestamp date created "
    "createdat finishreason stopreason providermetadata providerspecificfields additionalkwargs extra "
    "reasoning reasoningcontent reasoningdetails reasoningtext thinking thoughts version format"
)
"""Fields that do not, and what a model thought: forms that keep no thoughts are known for it."""
_KNOWN = re.compile(
    r"reasoning|thinking|redacted|thought|(input_?)?(image|audio|file|video|blob|uri|document)"
)
"""How kinds of parts begin that are known, and hold no words."""
_WORD, _WORDS = re.compile(r"[^\W\d_]{2}"), re.compile(r"[^\W\d_]{2,}[,;:.!?]?\s+[^\W\d_]{2,}")
_LONGEST_NAME = 40
_MARKS = _names("text message assistant user tool tool_use tool_result tool_call human ai ephemeral direct")
"""What entries and parts are called most often."""


def kind_of(entry: Any) -> str:
    """Return what an entry says that it is."""
    if not isinstance(entry, dict):
        return f"JSON {type(entry).__name__}"
    if _KIND_NAMES.isdisjoint(entry):
        return ""
    named = next((entry[name] for name in _KINDS if isinstance(entry.get(name), str) and entry[name]), "")
    return named[:_LONGEST_NAME]


def left_of(entry: Any, told: Iterable[Any] = (), elsewhere: Collection[str] = ()) -> list[str]:
    """Return the kinds of what an entry holds in words that are not in what was made of it.

    Args:
        entry: An entry of a log, or a message.
        told: The messages that were made of it.
        elsewhere: Texts that the conversation holds besides; one that is among them is not lost.

    >>> parts = [{"type": "text", "text": "Hi"}, {"type": "vote", "text": "No"}]
    >>> left_of({"type": "message", "content": parts}, [{"role": "user", "content": "Hi"}])
    ['vote']
    """
    kept = texts_in(told)
    if texts_in([entry]) <= kept | _MARKS:  # as nearly always
        return []
    there = list(_words(entry, bool(kept)))
    whole = "\n".join(kept)
    kinds = (kind for text, kind in there if not (text in kept or text in elsewhere or _is_in(text, whole)))
    return list(dict.fromkeys(kinds))


def texts_in(values: Iterable[Any]) -> set[str]:
    """Return every text that some values hold, however deep."""
    found, waiting = set[str](), list(values)
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            inner = _unfolded(one)
            found.add(one) if inner is None else waiting.append(inner)
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
    return found


def _is_in(text: str, whole: str) -> bool:
    """Tell whether a text is in another, as it is or inside of JSON."""
    return text in whole or any(json.dumps(text, ensure_ascii=way)[1:-1] in whole for way in (False, True))


def _words(entry: Any, known: bool) -> Iterator[tuple[str, str]]:
    """Yield the texts of an entry in which something is said or done, and the kind of what holds each.

    Of an entry that is known those are looked at that are called so: programs note besides how they ran.
    """
    for text, (name, inside, kind) in _strings(entry):
        if _KNOWN.match(kind.replace("-", "_")) or name in _NO_TEXT or name in _FLAT_KINDS:
            continue
        long = len(text) > 200 and not re.search(r"\s", text)  # a picture, or a key
        if not long and (_WORD.search(text) if inside else not known and _WORDS.search(text)):
            yield text, kind


def _strings(value: Any) -> Iterator[tuple[str, tuple[str, bool, str]]]:
    """Yield each text: the field that holds it, whether it or one around it holds words, and the kind."""
    waiting: list[tuple[Any, str, bool, str]] = [(value, "", False, "")]
    while waiting:
        one, name, inside, kind = waiting.pop()
        if isinstance(one, str):
            inner = _unfolded(one)
            if inner is None:
                yield one, (name, inside, kind)
            else:
                waiting.append((inner, name, inside, kind))
        elif isinstance(one, dict):
            own = kind_of(one) or kind
            for key, each in reversed(list(one.items())):
                flat = _flat(str(key)[:_LONGEST_NAME])
                if isinstance(each, str | dict | list) and (flat not in _NO_TEXT or isinstance(each, str)):
                    waiting.append((each, flat, inside or flat in _TEXT, own or str(key)[:_LONGEST_NAME]))
        elif isinstance(one, list | tuple):
            waiting += [(each, name, inside, kind) for each in reversed(one)]


@lru_cache(maxsize=1024)
def _flat(name: str) -> str:
    return name.replace("_", "").replace("$", "").lower()


_FLAT_KINDS = frozenset(map(_flat, _KINDS))


def _unfolded(text: str) -> Any:
    """Return what a text holds as JSON; None where it is none: some keep arguments so, others do not."""
    if text[:1] not in ("{", "[", " ", "\n") or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return read_embedded(text)
    except ValueError:
        return None


def left_in(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the kinds of parts and fields of messages whose words are only kept beside their content."""
    for one in messages:
        parts = one.metadata.get("content")
        if isinstance(parts, list):
            yield from left_of({"content": parts}, [one.content])
        elif not (one.content or "").strip() and not one.tool_calls:
            fields = {name: one.metadata[name] for name in _unread(one)}
            yield from left_of(fields, [])

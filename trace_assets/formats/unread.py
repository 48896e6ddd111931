"""What of a conversation was not read: messages whose words and calls lie where nobody looked.

Such messages come from a form that is not known. To keep them would have a diagnosis say that the agent did
nothing, so a conversation that consists of them is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trace_assets.records import Message

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

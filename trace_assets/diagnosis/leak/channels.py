"""What a labeller is shown beside the agent's own behaviour, by channel, as words and as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.model.redaction import redact
from trace_assets.records import Trajectory

MOST_WORDS = 200
"""Features of a channel: its most common words."""
LEAST_TRAJECTORIES = 3
"""A word in fewer trajectories than this is no feature."""

_WORD = re.compile(r"[^\W\d_]{2,}|\d")
_SHAPE = (
    *("messages", "user_messages", "results", "errors"),
    *("user_characters", "result_characters", "longest_result"),
)


@dataclass(frozen=True)
class Channels:
    """One trajectory's channels.

    Attributes:
        opening: Said before the agent's first message that answers anything: the task. It cannot know the
            outcome, and shows how much of the outcome is the task's difficulty.
        replies: What the user said after that and the labeller saw.
        closing: What the labeller saw after the agent's last message.
        results: What tools answered. It follows the agent's calls, so that it may tell the outcome honestly.
        withheld: What the redaction took away.
        shape: Counts and lengths, in the order of `_SHAPE`. They follow the agent's behaviour as well.
    """

    opening: str
    replies: str
    closing: str
    results: str
    withheld: str
    shape: tuple[int, ...]


def channels(trajectory: Trajectory) -> Channels:
    """Divide what is shown of a trajectory into channels; what the agent wrote is in none of them."""
    redacted = redact(trajectory.messages)
    agent = [index for index, one in redacted.messages if one.role == "assistant"]
    end = len(trajectory.messages)
    asked = next((index for index, one in redacted.messages if one.role == "user"), end)
    first = next((index for index in agent if index > asked), end)  # many agents greet before they are asked
    last = agent[-1] if agent else end
    said: dict[str, list[str]] = {"opening": [], "replies": [], "closing": [], "results": []}
    users: list[str] = []
    for index, message in redacted.messages:
        text = message.content or ""
        if message.role == "tool":
            said["results"].append(text)
        elif message.role != "assistant":
            users += [text] if message.role == "user" else []
            said["opening" if index < first else "replies"].append(text)
        if index > last:
            said["closing"].append(text)
    errors = sum(one.is_error for _, one in redacted.messages)
    shape = (
        *(len(redacted.messages), len(users), len(said["results"]), errors),
        *(sum(map(len, users)), sum(map(len, said["results"])), max(map(len, said["results"]), default=0)),
    )
    return Channels(
        **{name: "\n".join(texts) for name, texts in said.items()},
        withheld="\n".join(text for _, text in redacted.withheld),
        shape=shape,
    )


def word_features(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return which of the common words each text has, shape `(texts, words)`; the outcome has no say in it.

    >>> word_features(["yes thanks", "yes no", "yes thanks", "thanks"]).shape
    (4, 2)
    """
    bags = [set(_WORD.findall(text.lower())) for text in texts]
    counts = Counter(word for bag in bags for word in bag)
    common = sorted(
        (word for word, count in counts.items() if count >= LEAST_TRAJECTORIES),
        key=lambda word: (-counts[word], word),
    )[:MOST_WORDS]
    return np.array([[word in bag for word in common] for bag in bags], dtype=np.float64).reshape(
        len(texts), len(common)
    )


def shape_features(shapes: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
    """Return logarithms of counts and lengths, shape `(trajectories, 7)`."""
    return np.log1p(np.array(shapes, dtype=np.float64).reshape(len(shapes), len(_SHAPE)))

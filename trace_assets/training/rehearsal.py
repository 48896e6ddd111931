"""Episodes of what a policy can do already, to be learned again beside what it cannot.

An environment shows one capability, and whatever it never asks for is unlearned while its demonstrations are
learned. What the policy did well on the target's discovery tasks was played and stored before any adapter is
trained, for the diagnosis; read again, in the token ids that the policy wrote, it keeps the rest in its place
and costs no rollout.

Importing this module loads no torch.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from trace_assets.errors import InputError
from trace_assets.policies.chat_template import ChatTemplate
from trace_assets.policies.protocol import Conversation
from trace_assets.policies.token_policy import Spoken
from trace_assets.records import Message, ToolSpec, Trajectory
from trace_assets.store.content import text_version
from trace_assets.training.demonstrations import written_ids
from trace_assets.training.episodes import Row, to_row

MOST = 1000
"""Episodes that are rehearsed, of more that are stored: a run learns some 2,900 times one of them."""


@dataclass(frozen=True)
class Rehearsed:
    """Stored successes of the policy that is trained on.

    Attributes:
        trajectories: On discovery tasks of the target.
        tools: Those that the target offers; they are part of what the policy read.
    """

    trajectories: Sequence[Trajectory] = ()
    tools: Sequence[ToolSpec] = ()

    @property
    def version(self) -> str:
        """Names the episodes and tools."""
        return rehearsal_version([one.trajectory_id for one in self.trajectories], self.tools)


NOTHING = Rehearsed()


def rehearsal_version(ids: Sequence[str], tools: Sequence[ToolSpec]) -> str:
    """Return what names episodes that are rehearsed, empty for none; an id names what decided its episode.

    Args:
        ids: Of the episodes, in any order.
        tools: What the target offers.
    """
    return text_version(*(tool.model_dump_json() for tool in tools), *sorted(ids)) if ids else ""


def own_successes(target: str) -> pl.Expr:
    """Return what holds of rows of `trajectories` that may be rehearsed.

    The base model itself played them here, on discovery tasks of the target, and succeeded.
    """
    of_target = (pl.col("target") == target) & (pl.col("split") == "discovery")
    return of_target & pl.col("success") & (pl.col("source") == "rollout") & pl.col("adapter").is_null()


def drawn(batches: Iterable[Iterable[str]]) -> set[str]:
    """Return the ids of the episodes that are rehearsed, at most `MOST`, whatever the order of the batches.

    >>> drawn([["b", "a"], ["c"]]) == {"a", "b", "c"}
    True
    >>> len(drawn([map(str, range(900)), map(str, range(900, 2000))])) == MOST
    True
    """
    ids = sorted({one for batch in batches for one in batch})
    return set(ids if len(ids) <= MOST else random.Random("rehearsal").sample(ids, MOST))


def rehearsal_rows(rehearsed: Rehearsed, model_dir: Path | str) -> list[Row]:
    """Return stored episodes in token ids, but those that were not written as the template writes them."""
    if not rehearsed.trajectories:
        return []
    template = ChatTemplate(Path(model_dir))
    rows = (written(template, one, rehearsed.tools) for one in rehearsed.trajectories)
    return [row for row in rows if row is not None and any(row.own)]


def written(template: ChatTemplate, trajectory: Trajectory, tools: Sequence[ToolSpec]) -> Row | None:
    """Return one stored episode in token ids, None where these are not those that were read and written.

    Args:
        template: The base model's.
        trajectory: The episode. Where it holds how many tokens were read and written, these have to agree.
        tools: What the target offers.
    """
    conversation = Conversation(conversation_id=trajectory.trajectory_id, tools=tools)
    spoken = Spoken(conversation)
    heard = said = 0
    for message in trajectory.messages:
        if message.role == "assistant":
            try:
                ids = written_ids(template, conversation, plain(message))
            except InputError:
                return None
            spoken.listen(spoken.unread(template))
            for token in ids:
                spoken.write(token, 0.0)
            heard, said = heard + spoken.heard, said + len(ids)
        conversation.messages.append(message)
    counted = (trajectory.prompt_tokens, trajectory.completion_tokens)
    if any(was not in (None, now) for was, now in zip(counted, (heard, said), strict=True)):
        return None
    return to_row(trajectory, spoken.trace, 0)


def plain(message: Message) -> Message:
    """Return what the policy itself wrote of a message: not what a source noted beside it."""
    return Message(role="assistant", content=message.content, tool_calls=message.tool_calls)

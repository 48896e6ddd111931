"""Episodes of an environment's own oracle, in the token ids that the policy would have written.

Where a policy never succeeds nothing is amplified; the oracle knows how. Its episodes are learned before GRPO
(`trace_assets.training.warm_start`), or within it: each group of which no episode succeeds is given one, in
the place of its last. There it is an episode like the others, with the reward that the environment pays it,
so it weighs what a success that rare would have weighed; and once the policy finds one itself, none is shown.

Importing this module loads no torch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl

from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.chat_template import ChatTemplate, as_chat
from trace_assets.policies.hermes import render_message
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.policies.token_policy import Sampled, Spoken, TokenPolicy
from trace_assets.records import Message, Task, ToolSpec, Trajectory
from trace_assets.rollouts.episode import Rollout, Trial, sampling_seed
from trace_assets.settings import Training
from trace_assets.store.content import text_version
from trace_assets.targets.protocol import Solving
from trace_assets.training.episodes import Player, Row, episode_seed, to_row


class Demonstrator(TokenPolicy):
    """Says what the oracle says, as the model would write it: token ids by the model's own template.

    No sampler drew its tokens, so their log-probabilities are no numbers.

    Args:
        model_dir: The model folder.
        max_new_tokens: As of the policy that learns from it: a longer message would be one it cannot write.

    Attributes:
        scripts: Seed of a conversation to the messages that solve its task.
    """

    def __init__(self, model_dir: Path | str, *, max_new_tokens: int) -> None:
        super().__init__(model_dir, max_new_tokens=max_new_tokens, name="oracle")
        self.scripts: Mapping[int, Sequence[Message]] = {}

    async def act(self, conversation: Conversation) -> Reply:
        """Write the next message of the script; an empty one that ends the episode where there is none."""
        spoken = self._open.get(conversation.conversation_id)
        if spoken is None:
            spoken = self._open[conversation.conversation_id] = Spoken(conversation)
        script, said = self.scripts[conversation.seed], spoken.replies
        message = script[said] if said < len(script) else Message(role="assistant", content="")
        fresh = spoken.unread(self.template)
        ids = written_ids(self.template, conversation, message)
        if len(ids) > self.max_new_tokens or len(spoken.trace.ids) + len(fresh) + len(ids) > self.max_context:
            return Reply(message, overflow=True)
        spoken.listen(fresh)
        for token in ids:
            spoken.write(token, math.nan)
        return spoken.reply(self.template, ended=True)

    async def _sample(
        self, ids: Sequence[int], *, seed: int, adapter: str | None, max_tokens: int
    ) -> Sampled:
        raise Unavailable("a demonstrator samples nothing")

    def _identity(self) -> Any:
        return "oracle"


def written_ids(template: ChatTemplate, conversation: Conversation, message: Message) -> list[int]:
    """Return the ids of an assistant message as the model would write it, its end-of-turn token included.

    Raises:
        InputError: What the template writes cannot be read back as the message.
    """
    tokenizer, end = template.tokenizer, template.decode([template.end_id])

    def render(messages: Sequence[Message], prompt: bool) -> str:
        text: str = tokenizer.apply_chat_template(
            [as_chat(one) for one in messages],
            tools=[tool.openai() for tool in conversation.tools] or None,
            tokenize=False,
            add_generation_prompt=prompt,
        )
        return text

    asked, whole = render(conversation.messages, True), render([*conversation.messages, message], False)
    own = whole.removeprefix(asked).partition(end)[0] if whole.startswith(asked) else ""
    for text in (own, render_message(message)):  # a template may rewrite what it was asked behind
        read, malformed = template.read_reply(text, 0, conversation.tools, end)
        calls = [(call.name, call.arguments) for call in read.tool_calls]
        same = calls == [(call.name, call.arguments) for call in message.tool_calls]
        if not malformed and same and (read.content or "") == (message.content or "").strip():
            return [*tokenizer.encode(text, add_special_tokens=False), template.end_id]
    raise InputError(
        f"the chat template of {tokenizer.name_or_path} writes an assistant message in a form that cannot be "
        "read back; nothing can be demonstrated to this model: leave training.demonstrate = false."
    )


def demonstrating(
    player: Player, model_dir: Path | str, section: Training, wanted: bool
) -> AbstractContextManager[Demonstrations | None]:
    """Return what has tasks solved by the oracle, where that is wanted, and else nothing."""
    return Demonstrations(player, model_dir, section) if wanted else nullcontext()


class Demonstrations:
    """Has tasks of a player's target solved by its oracle.

    Args:
        player: Who learns from it; seeds, turns and process group are its.
        model_dir: The base model's folder, for its template.
        section: The training settings.

    Raises:
        InputError: The target cannot solve its own tasks.
    """

    def __init__(self, player: Player, model_dir: Path | str, section: Training) -> None:
        target = player.target
        if not isinstance(target, Solving):
            raise InputError(
                f"{target.name} has no oracle to demonstrate with; set training.demonstrate = false."
            )
        self._target, self._seed = target, player.seed
        self._demonstrator = Demonstrator(model_dir, max_new_tokens=section.max_new_tokens)
        self._player = Player(
            player.target,
            self._demonstrator,
            seed=player.seed,
            max_turns=player.max_turns,
            concurrency=player.concurrency,
            process_group=player.process_group,
        )

    def __enter__(self) -> Demonstrations:
        self._player.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._player.__exit__(kind, error, trace)

    def show(self, tasks: Sequence[Task], batch: str) -> list[Rollout]:
        """Play one episode of every task as the oracle does.

        Args:
            tasks: The tasks.
            batch: Name of the batch, see `Player.play`.

        Raises:
            InputError: A demonstration cannot be written by the model's template.
            Unavailable: More than half of the episodes broke twice.
        """
        # An episode that breaks is played once more, with another seed.
        self._demonstrator.scripts = {
            sampling_seed(Trial(task=task, trial=row, seed=episode_seed(self._seed, name, row))): solved
            for row, (task, solved) in enumerate((task, self._target.oracle(task)) for task in tasks)
            for name in (batch, f"{batch}, second try")
        }
        return self._player.play(tasks, batch)

    def complete(
        self, rows: Sequence[Row], tasks: Sequence[Task], size: int, batch: str
    ) -> tuple[list[Row], int]:
        """Put a demonstration in the place of the last episode of every group in which none succeeded.

        A group that was not judged at all is left alone, and so is one whose demonstration the environment
        does not call a success.

        Args:
            rows: Episodes, group after group.
            tasks: Theirs, likewise.
            size: Episodes a group.
            batch: Name of the batch.

        Returns:
            The rows, and how many demonstrations were played.
        """
        hopeless = [
            start
            for start in range(0, len(rows), size)
            if {row.success for row in rows[start : start + size]} - {None} == {False}
        ]
        if not hopeless:
            return list(rows), 0
        completed = list(rows)
        for start, one in zip(hopeless, self.show([tasks[start] for start in hopeless], batch), strict=True):
            row = to_row(one.trajectory, one.tokens, 0)
            if row.success and any(row.own):
                completed[start + size - 1] = row
        return completed, len(hopeless)


# Episodes of what a policy can do already, to be learned again beside what it cannot.
#
# An environment shows one capability, and whatever it never asks for is unlearned while its demonstrations
# are learned. What the policy did well on the target's discovery tasks was played and stored before any
# adapter is trained, for the diagnosis; read again, in the token ids that the policy wrote, it keeps the rest
# in its place and costs no rollout.


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

"""Demonstrations before GRPO, where the policy never succeeds: of a success rate of 0 nothing is amplified.

Some of the run's own tasks are played first. Those in which no episode succeeds are solved by the
environment's own oracle, and the adapter learns these episodes token by token, for some steps, until they are
likely enough; beside them it learns its own successes at other tasks, which it would unlearn otherwise. GRPO
follows, in which what was shown only has to be better than what else is tried. Whatever
is played for this, demonstrations too, comes out of the run's own rollouts.

Importing this module loads no torch.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.chat_template import ChatTemplate, as_chat
from trace_assets.policies.hermes import render_message
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.policies.token_policy import Sampled, Spoken, TokenPolicy
from trace_assets.records import Message, Task
from trace_assets.rollouts.episode import Rollout, Trial, sampling_seed
from trace_assets.settings import Training
from trace_assets.store.files import replacing_file
from trace_assets.training.episodes import Player, Row, episode_seed, to_row
from trace_assets.training.plan import Plan

TRIALS = 2
"""Episodes of a task that must all fail before it is demonstrated."""
SEARCHED = 2
"""Iterations whose rollouts are spent on finding such tasks."""
STEPS = 60
"""Optimizer steps of the imitation at most."""
LIKELY = 0.7
"""Nats of the least likely token at which a demonstration is likely enough: GRPO goes on from one half."""
REHEARSED = 1
"""Own episodes at most that are learned beside each demonstration."""
RATE = 0.5
"""Learning rate of the imitation over that of GRPO."""
CHUNK = 16
"""Episodes of a forward pass, where the settings name no number."""
BATCH = "demonstrations"


@runtime_checkable
class Demonstrates(Protocol):
    """A target that can solve its own tasks."""

    def oracle(self, task: Task) -> Sequence[Message]:
        """Return the assistant messages that solve a task."""
        ...


@dataclass(frozen=True)
class WarmStart:
    """What was done before GRPO.

    Attributes:
        searched: Tasks that were played, `TRIALS` times each.
        demonstrations: Episodes that were learned from.
        rollouts: Episodes that were played for it.
        steps: Optimizer steps.
        before: Nats of a demonstration's least likely token before the first step; None without one.
        after: After the last step.
    """

    searched: int
    demonstrations: int
    rollouts: int
    steps: int = 0
    before: float | None = None
    after: float | None = None


class Demonstrator(TokenPolicy):
    """Says what the oracle says, as the model would write it: token ids by the model's own template.

    Args:
        model_dir: The model folder.
        scripts: Seed of the conversation to the messages that solve its task.
        max_new_tokens: As of the policy that learns from it: a longer message would be one it cannot write.
    """

    def __init__(
        self, model_dir: Path | str, scripts: Mapping[int, Sequence[Message]], *, max_new_tokens: int
    ) -> None:
        super().__init__(model_dir, max_new_tokens=max_new_tokens, name="oracle")
        self._scripts = scripts

    async def act(self, conversation: Conversation) -> Reply:
        """Write the next message of the script; an empty one that ends the episode where there is none."""
        spoken = self._open.get(conversation.conversation_id)
        if spoken is None:
            spoken = self._open[conversation.conversation_id] = Spoken(conversation)
        script, said = self._scripts[conversation.seed], spoken.replies
        message = script[said] if said < len(script) else Message(role="assistant", content="")
        fresh = spoken.unread(self.template)
        ids = written_ids(self.template, conversation, message)
        if len(ids) > self.max_new_tokens or len(spoken.trace.ids) + len(fresh) + len(ids) > self.max_context:
            return Reply(message, overflow=True)
        spoken.listen(fresh)
        for token in ids:
            spoken.write(token, 0.0)
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
        "read back; nothing can be demonstrated to this model: set training.warm_start = 'never'."
    )


def find_demonstrations(
    player: Player, plan: Plan, model_dir: Path | str, section: Training
) -> tuple[WarmStart, list[Row]]:
    """Play some tasks, and have those that are never solved demonstrated.

    Args:
        player: Plays with the base model's weights.
        plan: The run's budget and tasks.
        model_dir: The base model's folder, for its template.
        section: The training settings.

    Returns:
        What was spent; and the demonstrations that the environment calls a success, with own successes after
        them.

    Raises:
        InputError: The target cannot solve its own tasks.
        Unavailable: Too many episodes broke.
    """
    target = player.target
    if not isinstance(target, Demonstrates):
        raise InputError(
            f"{target.name} has no oracle to demonstrate with; set training.warm_start = 'never'."
        )
    wanted = max(1, min(len(plan.pool), SEARCHED * plan.batch // TRIALS))
    tasks = random.Random(f"{section.seed}/warm start").sample(list(plan.pool), wanted)
    played = player.play([task for task in tasks for _ in range(TRIALS)], "warm start")
    groups = [played[start : start + TRIALS] for start in range(0, len(played), TRIALS)]
    never = [
        task
        for task, group in zip(tasks, groups, strict=True)
        if not any(one.trajectory.success for one in group)
        and any(one.trajectory.success is False for one in group)
    ]
    spent = len(played) + len(never)
    if not never:
        return WarmStart(len(tasks), 0, spent), []
    # An episode that breaks is played once more, with another seed.
    scripts = {
        sampling_seed(Trial(task=task, trial=row, seed=episode_seed(player.seed, batch, row))): solved
        for row, (task, solved) in enumerate((task, target.oracle(task)) for task in never)
        for batch in (BATCH, f"{BATCH}, second try")
    }
    demonstrator = Demonstrator(model_dir, scripts, max_new_tokens=section.max_new_tokens)
    with Player(
        target,
        demonstrator,
        seed=player.seed,
        max_turns=player.max_turns,
        concurrency=player.concurrency,
        peers=player.peers,
    ) as teacher:
        shown = teacher.play(never, BATCH)
    taught = learnable(shown)
    # What it does already is rehearsed: one success at each other task.
    own = [one for group in groups for one in group if one.trajectory.success]
    first = {one.trajectory.task_id: one for one in reversed(own)}
    rehearsed = learnable(list(first.values()))[: REHEARSED * len(taught)]
    return WarmStart(len(tasks), len(taught), spent), [*taught, *rehearsed]


def learnable(played: Sequence[Rollout]) -> list[Row]:
    """Return the successful episodes of which something can be learned."""
    rows = [to_row(one.trajectory, one.tokens, 0) for one in played if one.trajectory.success]
    return [row for row in rows if any(row.own)]


def shortened(plan: Plan, spent: int) -> Plan:
    """Return what is left of a plan when rollouts were spent before its first iteration.

    At least one iteration is left.
    """
    iterations = max(1, plan.iterations - -(-spent // plan.batch))
    return replace(
        plan, iterations=iterations, schedule=plan.schedule[: iterations * plan.tasks_per_iteration]
    )


def imitate(
    model: Any, rows: Sequence[Row], section: Training, *, demonstrations: int
) -> tuple[int, float, float]:
    """Raise the likelihood of demonstrations under a model's LoRA, and keep that of what it does already.

    The mean over tokens says little: a demonstration mostly says what the model would have said, and its
    likelihood hangs on the one token at which it would have done otherwise. So the steps end by the least
    likely token of each.

    Args:
        model: The PEFT model.
        rows: Demonstrations first, then own episodes; each of their own tokens weighs the same.
        section: Learning rate, clipping, episodes a forward pass.
        demonstrations: How many of the rows are.

    Returns:
        Steps, and nats of a demonstration's least likely token, in the mean over them, before the first step
        and after the last.
    """
    import torch

    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE * section.learning_rate, weight_decay=0.0)
    size = section.micro_batch or CHUNK
    parts = [
        (padded(some[start : start + size]), shown)
        for some, shown in ((rows[:demonstrations], True), (rows[demonstrations:], False))
        for start in range(0, len(some), size)
    ]
    tokens = sum(int(own.sum()) for (_, _, own), _ in parts)
    was_training = model.training
    model.train()
    first, steps = None, 0
    while True:
        optimizer.zero_grad(set_to_none=True)
        least = 0.0
        for part, shown in parts:
            found = token_nats(model, part, section)
            (found.sum() / tokens).backward()
            least += float(found.detach().amax(1).sum()) / demonstrations if shown else 0.0
        first = least if first is None else first
        if least < LIKELY or steps == STEPS:
            break
        torch.nn.utils.clip_grad_norm_(trained, section.max_grad_norm)
        optimizer.step()
        steps += 1
    optimizer.zero_grad(set_to_none=True)
    model.train(was_training)
    return steps, first, least


def token_nats(model: Any, part: tuple[Any, Any, Any], section: Training) -> Any:
    """Return the negative log-likelihood of each token in nats, (episodes, tokens - 1), 0 where not its own.

    Args:
        model: The PEFT model.
        part: Episodes, as `padded` returns them.
        section: Whether the model computes in bfloat16.
    """
    import torch

    ids, mask, own = (one.to(model.device) for one in part)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=section.bf16):
        logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    scores = torch.log_softmax(logits.float(), dim=-1)
    return -scores.gather(-1, ids[:, 1:, None])[..., 0] * own[:, 1:]


def padded(rows: Sequence[Row]) -> tuple[Any, Any, Any]:
    """Return ids, mask and own tokens of episodes, each (episodes, tokens), padded on the right."""
    import torch

    whole = [(row.prompt_ids + row.completion_ids, [0] * len(row.prompt_ids) + row.own) for row in rows]
    longest = max(len(ids) for ids, _ in whole)
    ids = torch.tensor([one + [0] * (longest - len(one)) for one, _ in whole])
    mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one, _ in whole])
    own = torch.tensor([mine + [0] * (longest - len(mine)) for _, mine in whole])
    return ids, mask, own


# What a killed run finds: weights and figures, written together at the end of the phase.


def stored_warm_start(folder: Path) -> WarmStart | None:
    """Return the finished warm start of an interrupted run."""
    file = folder / "warm_start.json"
    return WarmStart(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def store_warm_start(folder: Path, found: WarmStart) -> None:
    """Note that the warm start is finished; its weights are there already."""
    with replacing_file(folder / "warm_start.json") as partial:
        partial.write_text(json.dumps(asdict(found)), encoding="utf-8")

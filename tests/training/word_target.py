"""A target of one word and one turn, and a base model small enough to learn it within a second.

In a file of its own because a test runs it in a process that it kills.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trace_assets.errors import Unavailable
from trace_assets.records import Adapter, Environment, Message, Split, Task, ToolSpec, TrainingPoint, Verdict
from trace_assets.settings import Training
from trace_assets.targets.protocol import Step

WORDS = ("red", "blue", "green", "one", "two")
SECTION = Training(
    iterations=12,
    tasks_per_iteration=5,
    group_size=8,
    learning_rate=2e-2,
    max_new_tokens=3,
    max_turns=2,
    validation_seeds=10,
    validation_episodes=40,
    validate_every=4,
    save_every=4,
)


class WordEpisode:
    tools: Sequence[ToolSpec] = ()

    def __init__(self, word: str, breaks: bool) -> None:
        self.word, self.breaks, self.said = word, breaks, ""

    async def reset(self) -> Sequence[Message]:
        return [Message(role="user", content=f"say {self.word}")]

    async def step(self, message: Message) -> Step:
        if self.breaks:
            raise Unavailable("the worker died; start it again.")
        self.said = message.content or ""
        return Step(done=True)

    async def verdict(self) -> Verdict:
        said = self.said.split()
        success = said[:1] == [self.word]
        return Verdict(reward=float(success) + 0.1 * (len(said) == 1), success=success)

    async def close(self) -> None:
        pass


class WordTarget:
    """Says a word, wants it back. `breaks(task, seed)` decides which episodes break."""

    name = "words"
    version = "1"
    policy = ""
    tools: Sequence[ToolSpec] = ()

    def __init__(self, breaks: Callable[[Task, int], bool] = lambda task, seed: False) -> None:
        self.breaks = breaks

    def tasks(self, split: Split) -> Sequence[Task]:
        return [
            Task(
                task_id=f"words/{split}-{index}",
                target="words",
                split=split,
                task_batch="all",
                payload={"word": WORDS[index % len(WORDS)]},
            )
            for index in range(5 if split == "discovery" else 50)
        ]

    def episode(self, task: Task, *, seed: int) -> WordEpisode:
        return WordEpisode(task.payload["word"], self.breaks(task, seed))


NEVER = {"red": "w7", "blue": "w8"}
"""Words that are asked for, and the ones wanted then, which the base model never says."""


class Taught(WordTarget):
    """Wants another word in two of five tasks; its oracle knows which."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.answers = NEVER

    def episode(self, task: Task, *, seed: int) -> Any:
        episode = super().episode(task, seed=seed)
        ask, episode.word = episode.word, NEVER.get(episode.word, episode.word)

        async def reset() -> Sequence[Message]:
            return [Message(role="user", content=f"say {ask}")]

        episode.reset = reset  # type: ignore[method-assign]
        return episode

    def oracle(self, task: Task) -> list[Message]:
        word = task.payload["word"]
        self.asked.append(word)
        return [Message(role="assistant", content=self.answers.get(word, word))]


def write_base(folder: Path, head_dim: int = 16) -> Path:
    """Write the base model: 20 thousand parameters, taught to answer with the word or any other."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = ["<pad>", "<end>", "<user>", "<bot>", "say", *WORDS, *(f"w{index}" for index in range(120))]
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '<bot> ' if m.role == 'assistant' else '<user> ' }}{{ m.content }} <end> "
        "{% endfor %}{% if add_generation_prompt %}<bot> {% endif %}"
    )
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=head_dim,
        tie_word_embeddings=True,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    model = Qwen3ForCausalLM(config)
    teach(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def teach(model: Any) -> None:
    """Teach a model of the words to answer with the word or any other."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(120):
        asked, answered = torch.randint(5, 10, (2, 64))
        answered = torch.where(torch.rand(64) < 0.2, asked, answered)
        fixed = [torch.full((64,), token) for token in (2, 4, 1, 3)]
        ids = torch.stack([fixed[0], fixed[1], asked, fixed[2], fixed[3], answered, fixed[2]], dim=1)
        labels = ids.masked_fill(torch.arange(7) < 5, -100)
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def train(base: Path, folder: Path, **changes: Any) -> tuple[Adapter, list[TrainingPoint]]:
    """Train an adapter to say the words back; `changes` take the place of `train_adapter`'s arguments."""
    from trace_assets.training.grpo import train_adapter
    from trace_assets.training.plan import Job

    given: dict[str, Any] = {"base_dir": base, "base_id": "base", "section": SECTION, "folder": folder}
    given |= {name: changes.pop(name) for name in [*changes] if name in Job.__dataclass_fields__}
    own: dict[str, Any] = {"name": "words", "kind": "capability", "capability_id": "words"}
    return train_adapter(**{**own, "target": WordTarget(), **changes}, job=Job(**given))


def train_and_die(base: Path, folder: Path, at: int) -> None:
    """Train until an iteration, then die as by `kill -9`."""

    def on_point(point: TrainingPoint) -> None:
        if point.iteration == at:
            os.kill(os.getpid(), signal.SIGKILL)

    train(base, folder, on_point=on_point)


def environment() -> Environment:
    """The same target as a module that is run in a sandbox."""
    source = Path(__file__).with_name("word_environment.py").read_text(encoding="utf-8")
    return Environment(
        environment_id="e", capability_id="words", target="words", writer="test", source=source
    )

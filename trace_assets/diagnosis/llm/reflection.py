"""A model that reads an agent's episodes and writes words under which it may pass more of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.request import Answer, Question, render

LONGEST = 20_000
"""Characters of an answer: words are read in every episode."""
SILENT = 3
"""Questions in a row without a usable answer, after which no further one is asked."""


class NewWords(Answer):
    """What the agent shall be told."""

    words: str


class ModelWords:
    """Asks a model for each proposal.

    Args:
        server: Whom.
        model: Its name there.
        policy: Rules that the agent is given anyway.
        temperature: Of sampling.
    """

    def __init__(self, server: ModelServer, model: str, policy: str, temperature: float = 1.0) -> None:
        self._server, self._model, self._temperature = server, model, temperature
        self._system = render("reflect.md", policy=policy)
        self._asked = self._silent = 0
        self._ended = ""

    @property
    def ended(self) -> str:
        """Why no further question is asked."""
        return self._ended

    def propose(self, told: str, episodes: Sequence[Mapping[str, Any]]) -> str:
        """Return the model's words, or the old ones where it gave none.

        Args:
            told: The words under which the episodes were played.
            episodes: Each with its `transcript` and `feedback`.

        Raises:
            TraceError: The server cannot be used.
        """
        self._asked += 1
        question = Question(
            kind="reflect",
            model=self._model,
            system=self._system,
            user=render("reflect_ask.md", told=told, episodes=episodes),
            schema=NewWords,
            temperature=self._temperature,
            seed=self._asked,
            examine=_complaints,
        )
        try:
            answer = self._server.ask_alone(question)
        except Unanswered as none:
            self._silent += 1
            if self._silent == SILENT:
                self._ended = f"the model gave no usable answer {SILENT} times in a row ({none.reason})"
            return told
        if answer is None:
            self._ended = "the cap of the section analyst was reached"
            return told
        self._silent = 0
        return answer.words.strip()


def _complaints(answer: NewWords) -> list[str]:
    if not answer.words.strip():
        return ["words is empty"]
    if len(answer.words) > LONGEST:
        return [f"words has {len(answer.words)} characters; {LONGEST} are the most"]
    return []

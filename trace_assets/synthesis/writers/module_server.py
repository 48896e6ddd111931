"""Asks a model for one module: free text, halves put together, every finished reply remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trace_assets.diagnosis.model.question import A, Answer, Question
from trace_assets.diagnosis.model.server import ModelServer
from trace_assets.synthesis.writers.prompt import render
from trace_assets.synthesis.writers.reply import Found, find_module, is_whole, joined

MOST_PARTS = 4
"""A reply that the server cuts off is continued so often, the first part included."""


class Reply(Answer):
    """All that a model said to one question.

    Bad replies are kept like good ones: what becomes of them is decided by the audit, and a re-run must
    come to the same end without a request.
    """

    text: str
    cut: bool = False
    """It still ended at the limit of length after `MOST_PARTS` parts."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def found(self) -> Found:
        """The module in it."""
        return find_module(self.text, cut=self.cut)


@dataclass(frozen=True)
class ModuleQuestion(Question[Reply]):
    """A request for a module, as free text: code inside JSON strings is where models err most."""

    kind: Literal["write", "mend"]  # type: ignore[assignment]  # kinds of this room, not of the analyst

    @property
    def response_format(self) -> dict[str, Any]:
        """No schema."""
        return {}


class ModuleServer(ModelServer):
    """The analyst's server (retries, memory, account, cap) with another idea of what an answer is."""

    setting = "writer.base_url"

    async def _rounds(self, question: Question[A]) -> A:
        """Ask once, and on until the reply is no longer cut off."""
        before = self.account.spent.prompt_tokens, self.account.spent.completion_tokens
        text, cut, messages = "", False, question.messages
        for _ in range(MOST_PARTS):
            said, finish = await self._complete(question, messages)
            text = joined(text, said) if text else said
            cut = finish == "length"
            if not cut or not said or is_whole(text):
                break
            self.account.faults["cut"] += 1
            messages = [
                *question.messages,
                {"role": "assistant", "content": text},
                {"role": "user", "content": render("continue.md", ending=text[-200:])},
            ]
        spent = self.account.spent
        return question.schema.model_validate(
            {
                "text": text,
                "cut": cut and not is_whole(text),
                "prompt_tokens": spent.prompt_tokens - before[0],
                "completion_tokens": spent.completion_tokens - before[1],
            }
        )

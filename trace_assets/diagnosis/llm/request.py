"""What is asked of a model, and what counts as an answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from trace_assets.diagnosis.llm.reading import read_reply
from trace_assets.shipped import prompt

Kind = Literal["discover", "merge", "label", "cause", "triage", "reflect"]

MOST_COMPLAINTS = 12
"""What is wrong with an answer is told to the model in at most so many lines."""


class Answer(BaseModel):
    """Base of all answers: a Pydantic schema that the server is asked to hold to."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


A = TypeVar("A", bound=Answer)


def _content(answer: Any) -> list[str]:
    return []


def _as_it_is(answer: Any) -> Any:
    return answer


def _the_later(before: Any, after: Any) -> Any:
    return after


def _nothing(answer: Any) -> Any:
    return None


@dataclass(frozen=True)
class Question(Generic[A]):
    """One request, free of everything that does not decide its answer.

    Attributes:
        kind: What for.
        model: Who is asked.
        system: Instructions and whatever is shared by many questions: servers cache equal beginnings.
        user: What is asked about.
        schema: Form of the answer.
        temperature: Of sampling.
        seed: Tells passes apart that ask the same; servers may or may not use it.
        examine: Returns what is wrong with an answer of the right form; nothing when it is good.
        mend: Returns an answer with what a local reading repairs: ids, order, indices that do not exist.
        join: Puts an answer and a later one together, for questions whose answer can be had in parts.
        rest: What is usable of an answer that stayed bad to the end; None where nothing is.
    """

    kind: Kind
    model: str
    system: str
    user: str
    schema: type[A]
    temperature: float = 0.0
    seed: int = 0
    examine: Callable[[A], Sequence[str]] = field(default=_content, compare=False)
    mend: Callable[[A], A] = field(default=_as_it_is, compare=False)
    join: Callable[[A, A], A] = field(default=_the_later, compare=False)
    rest: Callable[[A], A | None] = field(default=_nothing, compare=False)

    @cached_property
    def key(self) -> str:
        """Content hash: the same question of the same model, asked the same way."""
        parts = [
            self.kind,
            self.model,
            self.system,
            self.user,
            self.temperature,
            self.seed,
            self.response_format,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The request's messages."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]

    @property
    def in_parts(self) -> bool:
        """Whether what is missing of an answer can be asked for alone."""
        return self.join is not _the_later

    @property
    def response_format(self) -> dict[str, Any]:
        """The schema as structured outputs want it."""
        schema = {"name": self.kind, "strict": True, "schema": _schema_of(self.schema)}
        return {"type": "json_schema", "json_schema": schema}

    def read(self, text: str) -> tuple[A | None, list[str]]:
        """Return the answer in a reply, or what is wrong with it.

        Args:
            text: What the model said; the form is read leniently, see `reading`.
        """
        answer, complaints = self.piece(text)
        return (None if complaints else answer), complaints

    def piece(self, text: str, before: A | None = None) -> tuple[A | None, list[str]]:
        """Return what is good of the answer so far, and what still has to be asked for."""
        found, complaints = read_reply(text, self.schema)
        answer = before
        for one in found:
            mended = self.mend(cast(A, one))
            answer = mended if answer is None else self.mend(self.join(answer, mended))
        if answer is None or not found:
            return answer, complaints[:MOST_COMPLAINTS] or ["there is no answer in it"]
        wrong = list(self.examine(answer))
        return answer, [*wrong, *(complaints if wrong else ())][:MOST_COMPLAINTS]


@cache
def _schema_of(answer: type[Answer]) -> dict[str, Any]:
    return answer.model_json_schema()  # takes longer than all else of a question


def render(name: str, **values: Any) -> str:
    """Return a prompt with its values filled in; a value that is missing is an error.

    >>> "ends too early" in render("repair.md", complaints=["it ends too early"], in_parts=False)
    True
    """
    return prompt("diagnosis.llm", name, values)

"""What is asked of a model, and what counts as an answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Generic, Literal, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict, ValidationError

from trace_assets.policies.chat_template import cut_out

Kind = Literal["discover", "merge", "label", "triage"]

MOST_COMPLAINTS = 12
"""What is wrong with an answer is told to the model in at most so many lines."""


class Answer(BaseModel):
    """Base of all answers: a Pydantic schema that the server is asked to hold to."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


A = TypeVar("A", bound=Answer)


def _content(answer: Any) -> list[str]:
    return []


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
    """

    kind: Kind
    model: str
    system: str
    user: str
    schema: type[A]
    temperature: float = 0.0
    seed: int = 0
    examine: Callable[[A], Sequence[str]] = field(default=_content, compare=False)

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
    def response_format(self) -> dict[str, Any]:
        """The schema as structured outputs want it."""
        schema = {"name": self.kind, "strict": True, "schema": self.schema.model_json_schema()}
        return {"type": "json_schema", "json_schema": schema}

    def read(self, text: str) -> tuple[A | None, list[str]]:
        """Return the answer in a reply, or what is wrong with it.

        Args:
            text: What the model said; words, code fences and thoughts around the JSON object are ignored.
        """
        try:
            answer = self.schema.model_validate_json(find_json(text))
        except ValidationError as error:
            complaints = [
                f"{'.'.join(str(part) for part in one['loc']) or 'the answer'}: {one['msg']}"
                for one in error.errors()
            ]
            return None, complaints[:MOST_COMPLAINTS]
        complaints = list(self.examine(answer))
        return (None if complaints else answer), complaints[:MOST_COMPLAINTS]


def find_json(text: str) -> str:
    """Return the JSON object in a reply, or the reply when there is none.

    >>> find_json('<think>{not this}</think> Here it is: ```json {"a": {"b": 1}} ```')
    '{"a": {"b": 1}}'
    >>> find_json("no")
    'no'
    """
    text, _ = cut_out(text, "<think>", "</think>")
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if 0 <= first < last else text.strip()


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("trace_assets.diagnosis.llm", "prompts"),
        undefined=StrictUndefined,
        keep_trailing_newline=False,
        autoescape=False,  # prompts are text, not HTML
    )


def render(name: str, **values: Any) -> str:
    """Return a prompt with its values filled in; a value that is missing is an error.

    >>> "ends too early" in render("repair.md", complaints=["it ends too early"])
    True
    """
    return _environment().get_template(name).render(**values).strip()

"""What a source tells of a task beside its transcripts: what was asked, what is expected, by which rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_assets.formats.chat import read_arguments
from trace_assets.records import ExpectedAction

FIELDS = ("instruction", "expected_actions", "expected_outputs", "domain_policy")
"""The names under which a row of a general form tells them."""


@dataclass(frozen=True)
class TaskFacts:
    """Fields of a task's row that a source may fill; see `Task`."""

    instruction: str = ""
    has_expected: bool = False
    expected_actions: tuple[ExpectedAction, ...] = ()
    expected_outputs: tuple[str, ...] = ()
    domain_policy: str = ""


def facts_of(row: Mapping[str, Any]) -> TaskFacts:
    """Return what a row tells under the names of `FIELDS`.

    Raises:
        ValueError: What is expected is no list, or an action has no name.
    """
    told = {name: value for name in FIELDS if (value := row.get(name)) is not None}
    return TaskFacts(
        instruction=str(told.get("instruction", "")),
        has_expected="expected_actions" in told or "expected_outputs" in told,
        expected_actions=expected_actions(told.get("expected_actions", ())),
        expected_outputs=tuple(str(one) for one in _list(told, "expected_outputs")),
        domain_policy=str(told.get("domain_policy", "")),
    )


def expected_actions(given: Any) -> tuple[ExpectedAction, ...]:
    """Return calls in any of the usual forms: `{name, arguments}`, `{name, kwargs}`, `{function: {...}}`.

    Raises:
        ValueError: It is no list, or one of them has no name.
    """
    found = []
    for number, one in enumerate(_list({"expected_actions": given}, "expected_actions")):
        body = one.get("function", one) if isinstance(one, Mapping) else None
        body = body if isinstance(body, Mapping) else one
        name = body.get("name") if isinstance(body, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ValueError(f"expected_actions[{number}] has no 'name'")
        arguments = next((body[key] for key in ("arguments", "kwargs", "args") if key in body), None)
        compared = one.get("compared", one.get("compare_args"))
        found.append(
            ExpectedAction(
                name=name,
                arguments=read_arguments(arguments),
                requestor="user" if one.get("requestor") == "user" else "assistant",
                compared=tuple(str(key) for key in compared) if isinstance(compared, list | tuple) else None,
            )
        )
    return tuple(found)


def _list(told: Mapping[str, Any], name: str) -> list[Any]:
    value = told.get(name, ())
    if not isinstance(value, list | tuple):
        raise ValueError(f"'{name}' is no list")
    return list(value)

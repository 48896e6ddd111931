"""An invented domain as another program would write it: camel case, records in envelopes or lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.truth.planted.domain import Domain, Run, Say
from trace_assets.records import ExpectedAction

Rename = Callable[[str], str]


def _camel(name: str) -> str:
    """Return a name in camel case.

    >>> _camel("loan_id"), _camel("status")
    ('loanId', 'status')
    """
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _same(name: str) -> str:
    return name


def _renamed(value: Any, rename: Rename) -> Any:
    if isinstance(value, Mapping):
        return {rename(str(key)): _renamed(item, rename) for key, item in value.items()}
    return [_renamed(item, rename) for item in value] if isinstance(value, list | tuple) else value


def _enveloped(result: Any) -> Any:
    return {"ok": True, "data": result} if isinstance(result, Mapping) else result


def _listed(result: Any) -> Any:
    return [result] if isinstance(result, Mapping) else result


SHAPES: Mapping[str, tuple[Rename, Callable[[Any], Any]]] = {
    "camel case": (_camel, lambda result: result),
    "envelopes": (_same, _enveloped),
    "lists": (_same, _listed),
    "camel case in envelopes": (_camel, _enveloped),
}
"""By name: how names are written, and what results stand in."""


def reshaped(domain: Domain, shape: str) -> Domain:
    """Return a domain whose tools, fields and results are written in another shape; words stay."""
    rename, put = SHAPES[shape]

    def say(one: Say) -> Say:
        if one[0] not in ("call", "user_call"):
            return one
        kind, tool, arguments, result = one
        return (kind, rename(tool), _renamed(arguments, rename), put(_renamed(result, rename)))

    def run(one: Run) -> Run:
        return replace(one, says=tuple(say(each) for each in one.says))

    def wanted(one: ExpectedAction) -> ExpectedAction:
        return one.model_copy(update={"name": rename(one.name), "arguments": _renamed(one.arguments, rename)})

    tasks = {
        number: (told, tuple(wanted(one) for one in actions))
        for number, (told, actions) in domain.tasks.items()
    }
    return replace(domain, tasks=tasks, runs=tuple(run(one) for one in domain.runs))

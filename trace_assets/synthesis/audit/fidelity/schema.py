"""Whether the tools are the target's, difference by difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.fidelity.material import NO_CONTRACT

SHOWN = 5
_MISSING = "nothing"


def tools_equal(subject: Subject) -> Finding:
    """The tools are the target's: names, descriptions, parameters, types and required ones, in any order."""
    if subject.contract is None:
        return Finding("skip", NO_CONTRACT)
    wanted = {tool.name: tool.openai()["function"] for tool in subject.contract.tools}
    given = {tool["function"]["name"]: tool["function"] for tool in subject.probe.tools()}
    found = list(differences(wanted, given))
    bound = f"equal to the {len(wanted)} tools of '{subject.contract.target}'"
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        return Finding("fail", "; ".join(found[:SHOWN]) + more, len(found), len(wanted), bound)
    return Finding("pass", "no difference", 0.0, len(wanted), bound)


def differences(wanted: Mapping[str, Any], given: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield how one set of schemas differs from another, place by place.

    >>> list(differences({"get": {"type": "string"}}, {"get": {"type": "integer"}, "put": {}}))
    ["get.type is 'integer' instead of 'string'", 'adds put']
    """
    for name in wanted:
        here = f"{path}{name}"
        if name not in given:
            yield f"lacks {here}"
        elif isinstance(wanted[name], Mapping) and isinstance(given[name], Mapping):
            yield from differences(wanted[name], given[name], f"{here}.")
        elif not _same(name, wanted[name], given[name]):
            yield f"{here} is {_short(given[name])} instead of {_short(wanted[name])}"
    for name in given:
        if name not in wanted:
            yield f"adds {path}{name}"


def _same(key: str, one: Any, other: Any) -> bool:
    if key in ("required", "enum") and isinstance(one, list) and isinstance(other, list):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return repr(one) == repr(other)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


CHECKS = (AuditCheck("trace.fidelity.schema", "fidelity", tools_equal, ("runtime.startup",)),)

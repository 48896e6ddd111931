"""What a recipe's simulator is filled with: everything it knows of the target, taken from the contract."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec
from trace_assets.synthesis.contract.closings import Closing
from trace_assets.synthesis.contract.guards import Guard
from trace_assets.synthesis.contract.phrasing import RequestPattern
from trace_assets.synthesis.contract.target_contract import TargetContract

DEFAULT_FRAMES = ("{first}, and {second}", "{first}; also {second}")


def guarded_plan(spec: CapabilitySpec, contract: TargetContract) -> dict[str, Any]:
    """Return the plan for a write that a field of the record guards.

    The guard comes from the detector where it names one (`field`, `value`, `instead`), else from what
    successful trajectories show.

    Raises:
        InputError: No guard, no wording or no record of the object is known.
    """
    tool = contract.tool(_argument(spec, "tool")).name
    guard = contract.guard(tool)
    if guard is None:
        raise _thin(spec, f"no successful trajectory reads an object and then uses '{tool}' on it")
    arguments = spec.detector_args
    if arguments.get("field") and arguments.get("value"):
        field, forbidden = str(arguments["field"]), tuple([str(arguments["value"])])
        schema = _record_schema(spec, contract, guard.read).get("properties", {}).get(field, {})
        allowed = tuple(value for value in schema.get("enum", ()) if value not in forbidden)
        instead = str(arguments.get("instead") or guard.instead)
        usual = guard.instead_arguments if instead == guard.instead else {}
    else:
        field, forbidden, allowed = guard.field, guard.forbidden, guard.allowed
        instead, usual = guard.instead, guard.instead_arguments
    if not field or not allowed or not forbidden or not instead:
        raise _thin(
            spec, f"successful trajectories do not show when '{tool}' is right and what is done otherwise"
        )
    contract.tool(instead)
    wish = _wish(spec, contract, guard)
    wish["guard"] = {
        "field": field,
        "allowed": list(allowed),
        "forbidden": list(forbidden),
        "instead": instead,
        "arguments": _in_order(
            contract, instead, {guard.object_argument: "", **_filled(contract, instead, usual)}
        ),
        "closing": _closing(contract.closing(instead)),
    }
    return _plan(spec, contract, [wish], guard.read, guard.object_argument)


def several_plan(spec: CapabilitySpec, contract: TargetContract) -> dict[str, Any]:
    """Return the plan for requests about several objects, composed of wishes that no condition decides.

    Raises:
        InputError: No such wish is known.
    """
    argument = _argument(spec, "argument") if "argument" in spec.detector_args else _object(spec, contract)
    reading = {guard.read for guard in contract.guards if guard.object_argument == argument}
    if not reading:
        raise _thin(
            spec, f"no successful trajectory reads the object that '{argument}' names before changing it"
        )
    read = min(reading, key=lambda name: -sum(g.n for g in contract.guards if g.read == name))
    wishes = [
        _wish(spec, contract, guard)
        for guard in contract.guards
        if guard.object_argument == argument
        and guard.read == read
        and not guard.field
        and _wordings(contract, guard.tool)
    ]
    if _wordings(contract, read):
        look = Guard(tool=read, read=read, object_argument=argument, records={}, selects={})
        wishes.append(_wish(spec, contract, look))
    if not wishes:
        raise _thin(spec, f"no request about one '{argument}' is known that no condition decides")
    return _plan(spec, contract, wishes, read, argument)


def _object(spec: CapabilitySpec, contract: TargetContract) -> str:
    """Return the argument that names the object a capability's tool acts on."""
    tool = _argument(spec, "tool")
    guard = contract.guard(tool)
    if guard is None:
        raise _thin(spec, f"no successful trajectory reads an object and then uses '{tool}' on it")
    return guard.object_argument


def _plan(
    spec: CapabilitySpec, contract: TargetContract, wishes: Sequence[dict[str, Any]], read: str, key: str
) -> dict[str, Any]:
    known = contract.phrasing.values.get(key, {"identifier": False, "values": []})
    if not known["identifier"]:
        raise _thin(spec, f"the values of '{key}' in requests are not identifiers")
    shape = contract.result(read)
    record = _record_schema(spec, contract, read)
    values = {
        argument: list(found["values"])
        for argument, found in contract.phrasing.values.items()
        if not found["identifier"]
    }
    errors = [text for result in contract.results for text in result.errors]
    return {
        "system": contract.protocol.starts_with_system,
        "policy": contract.policy,
        "turns": max(contract.protocol.assistant_turns, 7),
        "read": read,
        "reading": [tool.name for tool in contract.tools if tool.mutates is False],
        "key": key,
        "record": record,
        "compact": bool(shape and shape.compact),
        "identifiers": list(known["values"])[:: max(1, len(known["values"]) // 60)],
        "values": values,
        "openings": list(contract.phrasing.openings) or [""],
        "closings": list(contract.phrasing.closings) or [""],
        "frames": list(contract.phrasing.frames) or list(DEFAULT_FRAMES),
        "wishes": list(wishes),
        "selects": {guard.tool: guard.selects for guard in contract.guards if guard.read == read},
        "refusals": {
            guard.tool: {"field": guard.field, "values": list(guard.forbidden), "error": guard.refusal}
            for guard in contract.guards
            if guard.refusal
        },
        "written": {result.tool: result.usual for result in contract.results if result.usual},
        "no_object": _text(errors, {key}) or '{"error": "there is no ' + key + " {" + key + '}"}',
        "no_part": _text(errors, {key}, more=True)
        or '{"error": "there is no {part} in ' + key + " {" + key + '}"}',
    }


def _wish(spec: CapabilitySpec, contract: TargetContract, guard: Guard) -> dict[str, Any]:
    patterns = _wordings(contract, guard.tool)
    if not patterns:
        raise _thin(spec, f"no wording of a request for '{guard.tool}' is known from a successful trajectory")
    return {
        "tool": guard.tool,
        "reads_only": guard.tool == guard.read,
        "wordings": [
            {"text": p.text, "arguments": _in_order(contract, guard.tool, p.goal.arguments)}
            for p in patterns
            if p.goal
        ],
        "selects": guard.selects,
        "records": guard.records,
        "closing": _closing(contract.closing(guard.tool)),
        "guard": None,
    }


def _wordings(contract: TargetContract, tool: str) -> list[RequestPattern]:
    return [p for p in contract.phrasing.patterns if p.goal is not None and p.goal.tool == tool]


def _closing(closing: Closing | None) -> dict[str, Any]:
    if closing is None:
        return {"text": "Done.", "words": [], "fields": []}
    return {"text": closing.text, "words": list(closing.words), "fields": list(closing.fields)}


def _record_schema(spec: CapabilitySpec, contract: TargetContract, read: str) -> dict[str, Any]:
    shape = contract.result(read)
    if shape is None or shape.json_schema.get("type") != "object":
        raise _thin(spec, f"no result of '{read}' that is a record was seen")
    return dict(shape.json_schema)


def _in_order(contract: TargetContract, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments in the order of the tool's schema, as demonstrations write them."""
    names = list(contract.tool(tool).parameters.get("properties", {}))
    return {
        name: arguments[name]
        for name in sorted(arguments, key=lambda n: names.index(n) if n in names else 99)
    }


def _filled(contract: TargetContract, tool: str, usual: dict[str, Any]) -> dict[str, Any]:
    """Return values for a tool's required arguments: the usual ones, else the first of its enum."""
    parameters = contract.tool(tool).parameters
    properties = parameters.get("properties", {})
    return {
        name: usual.get(name, (properties.get(name, {}).get("enum") or ["other"])[0])
        for name in parameters.get("required", ())
    }


def _text(errors: Sequence[str], names: set[str], more: bool = False) -> str:
    """Return the first error text that mentions exactly these arguments, or these and another one."""
    for text in errors:
        mentioned = set(re.findall(r"\{(\w+)\}", text))
        if mentioned == names if not more else mentioned > names:
            return text
    return ""


def _argument(spec: CapabilitySpec, name: str) -> str:
    value = spec.detector_args.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(
            f"capability '{spec.capability_id}' has no '{name}' among its detector's arguments "
            f"({sorted(spec.detector_args)}): its recipe cannot be filled; diagnose again."
        )
    return value


def _thin(spec: CapabilitySpec, what: str) -> InputError:
    return InputError(
        f"the recipe '{spec.detector}' cannot be filled for capability '{spec.capability_id}': {what}; "
        f"roll out more discovery tasks, or leave the capability out."
    )

"""What the scenes of a recipe stand on: an object, the tool that shows it, the shape of what is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.preconditions import Guard
from trace_assets.environments.templates.drawable import drawable, known_values, leaves_of
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, ToolSpec

RECORD_SHARE = 0.6
"""A write whose answer has at least this share of the record's fields answers with the record."""
MIN_ANSWERS = 8
"""Answers from which it is read what a write always leaves behind."""


@dataclass(frozen=True)
class Filled:
    """What a recipe's template is rendered with.

    Attributes:
        plan: The module's `PLAN`.
        features: Parts of the simulator that this target needs; names of `FEATURES`.
        template: Another template than the recipe's; empty takes that.
    """

    plan: dict[str, Any]
    features: frozenset[str] = field(default_factory=frozenset)
    template: str = ""


@dataclass(frozen=True)
class Ground:
    """An object of the target, and how it is looked at.

    Attributes:
        spec: The capability, for what errors say.
        contract: Of the target.
        read: The reading tool.
        key: The argument of writing tools that names the object.
        read_key: What the reading tool calls it.
    """

    spec: CapabilitySpec
    contract: TargetContract
    read: str
    key: str
    read_key: str

    @cached_property
    def record(self) -> dict[str, Any]:
        """Drawable schema of what the reading tool shows."""
        shape = self.contract.result(self.read)
        if shape is None or shape.json_schema.get("type") != "object":
            raise thin(self.spec, f"no result of '{self.read}' that is a record was seen")
        used = [g for g in self.contract.guards if g.read == self.read and g.object_argument == self.key]
        keep = {name for guard in used for name in (guard.field, *guard.records)} | {self.key, self.read_key}
        if not shape.json_schema.get("required"):
            # The tool shows objects of several kinds: those that writes answer with are of this one.
            parts = (dict(self._parts(name))[place] for name, place in self.answering.items())
            keep |= {name for part in parts for name in part["properties"]}
        return drawable(dict(shape.json_schema), frozenset(keep))

    @cached_property
    def identifiers(self) -> list[str]:
        """Identifiers of such objects that were seen, at most 120."""
        known = self.contract.phrasing.values.get(self.key, {"identifier": False, "values": []})
        values = list(known["values"])
        if known["identifier"] and (len(values) >= 3 or not self.contract.protocol.user_messages > 1):
            return values[:: max(1, len(values) // 60)]
        fields = {name: held for name, path, held in leaves_of(self.record) if "[]" not in path}
        held = fields.get(self.key) or fields.get(self.read_key) or {}
        seen = [v for v in held.get("examples") or held.get("enum") or values if looks_like_id(v)]
        if len(seen) < 3:
            raise thin(self.spec, f"the values of '{self.key}' in requests are not identifiers")
        return seen[:: max(1, len(seen) // 60)]

    @cached_property
    def writes(self) -> list[ToolSpec]:
        """The writing tools that act on such an object."""
        return [
            t for t in self.contract.tools if t.mutates and self.key in t.parameters.get("properties", {})
        ]

    @cached_property
    def keyless(self) -> list[str]:
        """The writing tools that name no such object, such as one that hands the conversation over."""
        known = {tool.name for tool in self.writes}
        return [t.name for t in self.contract.tools if t.mutates and t.name not in known]

    @cached_property
    def user_answers(self) -> bool:
        """Whether users of the target speak again after the first message."""
        return self.contract.protocol.user_messages > 1

    @cached_property
    def answering(self) -> dict[str, str]:
        """Writing tools that answer with the record as it is afterwards, or with a field that holds it.

        Tool -> that field, empty where the answer itself is the record.
        """
        shape = self.contract.result(self.read)
        own = set(shape.json_schema.get("properties", {})) if shape else set()
        found: dict[str, str] = {}
        for tool in self.writes:
            for place, schema in self._parts(tool.name):
                names = set(schema.get("properties", {}))
                if names & {self.key, self.read_key} and len(names & own) >= RECORD_SHARE * len(names):
                    found.setdefault(tool.name, place)
        return found

    def _parts(self, tool: str) -> list[tuple[str, dict[str, Any]]]:
        """Return (place, schema) of what a tool answers and of the objects in it."""
        shape = self.contract.result(tool)
        schema = shape.json_schema if shape else {}
        return [("", schema), *schema.get("properties", {}).items()]

    @cached_property
    def effects(self) -> dict[str, dict[str, str]]:
        """Writing tool -> field -> the value that the record always had afterwards, and not always before."""
        found: dict[str, dict[str, str]] = {}
        shape = self.contract.result(self.read)
        before = dict(shape.json_schema.get("properties", {})) if shape else {}
        for name, place in self.answering.items():
            after = self.contract.result(name)
            assert after is not None
            for field_name, held in dict(self._parts(name))[place]["properties"].items():
                values = [v for v in held.get("enum", ()) if v is not None]
                usual = before.get(field_name, {}).get("enum", ())
                if after.n >= MIN_ANSWERS and len(values) == 1 and len(held["enum"]) == 1 < len(usual):
                    found.setdefault(name, {})[field_name] = values[0]
        return found

    @cached_property
    def owner(self) -> str:
        """The field of the record that says whose it is: what another reading tool asks for; or empty."""
        for tool in self.contract.tools:
            if tool.mutates is False and tool.name != self.read:
                needed = tool.parameters.get("required", ())
                if len(needed) == 1 and needed[0] not in (self.key, self.read_key):
                    held = self.record["properties"].get(needed[0], {})
                    values = held.get("examples") or held.get("enum") or []
                    if self.user_answers and values and all(looks_like_id(value) for value in values):
                        return str(needed[0])
        return ""

    @cached_property
    def errors(self) -> list[str]:
        """Error texts of the target's tools."""
        return [text for result in self.contract.results for text in result.errors]

    @cached_property
    def plain_errors(self) -> bool:
        """Whether errors of the target are sentences rather than JSON."""
        return bool(self.errors) and all(not text.lstrip().startswith("{") for text in self.errors)

    def error(self, tools: Sequence[str], names: set[str], more: bool = False) -> str:
        """Return the first error that mentions exactly these arguments, or these and another one.

        Where no error does, the most frequent one of the tools that mentions no argument at all.
        """
        for text in self.errors:
            mentioned = set(re.findall(r"\{(\w+)\}", text))
            if mentioned == names if not more else mentioned > names:
                return text
        if more and not self.plain_errors:
            return ""
        own = [text for tool in tools if (shape := self.contract.result(tool)) for text in shape.errors]
        return next((text for text in own if "{" not in text), "")

    def guard(self, tool: str) -> Guard:
        """Return how a writing tool is used on such an object: as learned, else knowing no condition."""
        known = self.contract.guard(tool)
        if known is not None and known.read == self.read and known.object_argument == self.key:
            return known
        return Guard(tool=tool, read=self.read, object_argument=self.key, records={}, selects={})


# Which object a recipe's scenes are about, and the tool that shows it.


def ground_of(spec: CapabilitySpec, contract: TargetContract, tool: str, field: str = "") -> Ground:
    """Find the object that a writing tool acts on, and the tool that shows it.

    Args:
        spec: The capability; `read` and `argument` of its detector are taken where it names them.
        contract: Of the target.
        tool: The writing tool.
        field: A field that the record must have.

    Raises:
        InputError: No reading tool shows what the tool acts on.
    """
    guard = contract.guard(tool)
    wanted = str(spec.detector_args.get("read") or "")
    if guard is not None and (not wanted or guard.read == wanted):
        return Ground(
            spec, contract, guard.read, guard.object_argument, guard.read_argument or guard.object_argument
        )
    properties = contract.tool(tool).parameters.get("properties", {})
    for argument in [str(spec.detector_args.get("argument") or ""), *properties]:
        for read in contract.tools:
            shape = contract.result(read.name)
            if (
                read.mutates is False
                and argument in properties
                and argument in read.parameters.get("properties", {})
                and shape is not None
                and (field or argument) in shape.json_schema.get("properties", {})
                and wanted in ("", read.name)
            ):
                return Ground(spec, contract, read.name, argument, argument)
    raise thin(spec, f"no successful trajectory reads an object and then uses '{tool}' on it")


def ground_of_any(spec: CapabilitySpec, contract: TargetContract) -> Ground:
    """Return the object that most of the target's writing tools act on, of those whose use was seen.

    Raises:
        InputError: There is none.
    """
    options: dict[tuple[str, str, str], int] = {}
    for guard in contract.guards:
        if not hands_over(guard.tool):
            place = guard.read, guard.object_argument, guard.read_argument or guard.object_argument
            options[place] = options.get(place, 0) + guard.n
    if not options:
        raise thin(spec, "no successful trajectory reads an object before changing it")
    return Ground(spec, contract, *max(options, key=lambda place: options[place]))


def read_ground(spec: CapabilitySpec, contract: TargetContract, read: str) -> Ground:
    """Find the object that a reading tool shows.

    Raises:
        InputError: The tool names no single object.
    """
    for guard in contract.guards:
        if guard.read == read:
            return Ground(
                spec, contract, read, guard.object_argument, guard.read_argument or guard.object_argument
            )
    needed = contract.tool(read).parameters.get("required", ())
    if len(needed) != 1:
        raise thin(spec, f"'{read}' names no single object")
    return Ground(spec, contract, read, needed[0], needed[0])


# Where the values of a call's arguments come from in a scene: the request, or the record.


_PATH = re.compile(r"\w+(?:\[\]\.\w+)?")
"""Paths that the simulator follows: a field, or a field of a list's elements."""


@dataclass
class Sources:
    """How the required arguments of one tool are filled, beside the one that names its object.

    Attributes:
        values: Argument -> values that a request may name.
        selects: Argument -> path in the record at which its value is found (`field` or `field[].name`).
        wraps: Arguments that are lists: they get the one value that was chosen.
        copies: Argument -> fields of the record's list of the same name that are taken over.
        missing: Arguments for which nothing is known.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    selects: dict[str, str] = field(default_factory=dict)
    wraps: list[str] = field(default_factory=list)
    copies: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def sources_of(contract: TargetContract, tool: ToolSpec, guard: Guard, record: dict[str, Any]) -> Sources:
    """Find where a tool's arguments come from.

    Args:
        contract: Knows values that requests gave.
        tool: The writing tool.
        guard: Which argument names the object.
        record: Drawable schema of the record.
    """
    found = Sources()
    properties = tool.parameters.get("properties", {})
    for name in tool.parameters.get("required", ()):
        if name != guard.object_argument:
            schema = properties.get(name, {})
            _place(found, name, schema, tool.parameters.get("$defs", {}), contract, guard, record)
    return found


def _place(
    found: Sources,
    name: str,
    schema: dict[str, Any],
    defs: dict[str, Any],
    contract: TargetContract,
    guard: Guard,
    record: dict[str, Any],
) -> None:
    leaves = list(leaves_of(record))
    listed = schema.get("enum") or alternatives(str(schema.get("description", "")))
    paths = [at for leaf, at, held in leaves if leaf == _one(name) and "[]" in at and known_values(held)]
    path = next((at for at in [guard.selects.get(name, ""), *paths] if _PATH.fullmatch(at)), "")
    whole = next(
        (held for leaf, at, held in leaves if leaf == at == name and held.get("type") == "array"), None
    )
    own = next((held for leaf, at, held in leaves if leaf == name and "[]" not in at), None)
    if schema.get("type") == "array" and whole and whole.get("items", {}).get("type") == "object":
        found.copies[name] = _fields(schema, defs, list(whole["items"]["properties"]))
    elif schema.get("type") == "array":
        if path:
            found.selects[name] = path
            found.wraps.append(name)
        else:
            found.missing.append(name)
    elif listed:
        found.values[name] = list(listed)
    elif path:
        found.selects[name] = path
    elif own is not None and len(known_values(own)) > 1:
        found.values[name] = known_values(own)
    elif len(values := contract.phrasing.values.get(name, {}).get("values", ())) > 1:
        found.values[name] = list(values)
    elif own is not None and known_values(own) and name in record["properties"]:
        found.selects[name] = name
    elif seen := _seen_anywhere(contract, name):
        found.values[name] = seen
    else:
        found.missing.append(name)


def _seen_anywhere(contract: TargetContract, name: str) -> list[Any]:
    """Return the values of the first field of that name in any tool's results."""
    for shape in contract.results:
        for leaf, _, held in leaves_of(drawable(dict(shape.json_schema))):
            if leaf == name and known_values(held):
                return known_values(held)
    return []


def alternatives(description: str) -> list[str]:
    """Return the values that a description lists in quotes as the only ones.

    >>> alternatives("Why, which should be either 'no longer needed' or 'ordered by mistake'.")
    ['no longer needed', 'ordered by mistake']
    >>> alternatives("The id, such as 'A1' or 'B2'.")
    []
    """
    if not re.search(r"\b(?:either|one of|must be|should be)\b", description) or "such as" in description:
        return []
    quoted = re.findall(r"'([^']+)'", description)
    return quoted if len(quoted) > 1 else []


def _one(name: str) -> str:
    """Return the singular of a plural argument, `item_ids` -> `item_id`; others unchanged."""
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _fields(schema: dict[str, Any], defs: dict[str, Any], known: list[str]) -> list[str]:
    """Return the fields of an array's elements that the tool's schema asks for; all where it does not say."""
    items = schema.get("items", {})
    for option in [items, *items.get("anyOf", ()), *items.get("oneOf", ())]:
        option = defs.get(str(option.get("$ref", "")).rpartition("/")[2], option)
        wanted = option.get("required") or option.get("properties")
        if wanted and any(name in known for name in wanted):
            return [name for name in wanted if name in known]
    return known


# What is said when a recipe cannot be filled: what is missing, and how to mend it.


def thin(spec: CapabilitySpec, what: str) -> InputError:
    """Return the error for a contract that shows too little, with what would mend it."""
    return InputError(
        f"the recipe '{spec.detector}' cannot be filled for capability '{spec.capability_id}': {what}; "
        "roll out more discovery tasks, let a model write it (synthesis.writer), or leave the capability out."
    )


def argument(spec: CapabilitySpec, name: str) -> str:
    """Return a text among a capability's detector arguments.

    Raises:
        InputError: It is not there.
    """
    value = spec.detector_args.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(
            f"capability '{spec.capability_id}' has no '{name}' among its detector's arguments "
            f"({sorted(spec.detector_args)}): its recipe cannot be filled; diagnose again."
        )
    return value


def one_message(spec: CapabilitySpec, contract: TargetContract) -> InputError:
    """Return the error for a recipe that needs users who answer."""
    return InputError(
        f"the recipe '{spec.detector}' cannot be filled for capability '{spec.capability_id}': users of "
        f"'{contract.target}' send one message and never answer; leave the capability out, or bring "
        f"trajectories in which users answer."
    )

"""What the scenes of a recipe stand on: an object, the tool that shows it, the shape of what is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id
from trace_assets.records import CapabilitySpec, ToolSpec
from trace_assets.synthesis.contract.guards import Guard
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.synthesis.recipes.drawable import drawable, leaves_of
from trace_assets.synthesis.recipes.problems import thin

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

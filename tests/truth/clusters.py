"""Does a label name the same cause as a reading? Decided by what both are about, never by wording alone.

Readings are free English. Texts that mean the same are one cluster (`tables/texts.json`, by hash). A cluster
says in `tables/clusters.toml` what a label must be about: the kind of mistake, the tool, the argument. What a
label is about is read from the capability's structure (its detector's `mistake`, the tools and fields in its
arguments), so that a better sentence earns nothing, and a new detector is scored without anybody's help.

A capability of a language model has no such structure. It counts as naming a cluster when its words hold one
of the cluster's tools, values or words and its evidence lies within two messages of the decisive one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from typing import Any

from tests.truth.readings import TABLES
from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.records import Capability

NEAR = 2
"""Messages between evidence and the decisive message at most."""
_LISTED = 4
"""A list of more tools than this names a kind of tool, not a tool."""
_VALUE_KEYS = ("argument", "arguments", "path", "paths")
MISTAKES: Mapping[str, str] = {family.name: family.mistake for family in FAMILIES}


@dataclass(frozen=True)
class About:
    """What a capability is about.

    Attributes:
        mistake: The kind of mistake; empty where nobody says (a model's capability).
        tools: Tools that it names.
        values: Last parts of the arguments and fields that it names.
        fields: Of these, the fields of records: under which condition it holds.
        words: Its name and description, in lower case.
    """

    mistake: str
    tools: frozenset[str]
    values: frozenset[str]
    fields: frozenset[str]
    words: str


@dataclass(frozen=True)
class Says:
    """One way of naming a cluster's cause; empty parts say nothing."""

    mistake: str
    tools: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    when: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether it is about any value, statement or question: then the place has to be the same too."""
        specific = self.tools or self.about or self.values or self.words
        return not specific and self.mistake in ("wrong_value", "wrong_statement", "missing_question")

    def fits(self, about: About) -> bool:
        """Tell whether a capability says this."""
        if self.when and any(not any(fnmatch(f, pattern) for pattern in self.when) for f in about.fields):
            return False
        return (
            about.mistake == self.mistake
            and (not self.tools or not about.tools.isdisjoint(self.tools))
            and (not self.about or not about.tools.isdisjoint(self.about))
            and (not self.values or any(fnmatch(v, pattern) for v in about.values for pattern in self.values))
            and (not self.words or any(word in about.words for word in self.words))
        )


@dataclass(frozen=True)
class Cluster:
    """Readings that mean the same."""

    key: str
    name: str
    says: tuple[Says, ...]

    def named_by(self, about: About, near: bool) -> bool:
        """Tell whether a capability of known structure names this cause."""
        return any(one.fits(about) and (near or not one.anything) for one in self.says)

    def worded_by(self, about: About) -> bool:
        """Tell whether a capability's words are about this cause."""
        spoken = {w for one in self.says for w in one.words}
        terms = {w for one in self.says for w in (*one.tools, *one.about, *one.values)}
        return any(word in about.words for word in spoken) or any(
            term in about.words or re.sub(r"[_*]+", " ", term).strip() in about.words for term in terms
        )


@cache
def clusters() -> Mapping[str, Cluster]:
    """Return all clusters by key."""
    read = tomllib.loads((TABLES / "clusters.toml").read_text("utf-8"))
    return {
        key: Cluster(
            key,
            one["name"],
            tuple(
                Says(**{k: v if k == "mistake" else tuple(v) for k, v in say.items()}) for say in one["says"]
            ),
        )
        for key, one in read.items()
    }


def about(capability: Capability, tools: frozenset[str]) -> About:
    """Return what a capability is about.

    Args:
        capability: Of any analyst.
        tools: The names of all tools of its target, as far as they were called.
    """
    strings = [text for _, text in _strings(capability.detector_args)]
    named = frozenset(text for text in strings if text in tools)
    placed = [(key, text.rpartition(".")[2]) for key, text in _strings(capability.detector_args)]
    fields = frozenset(text for key, text in placed if key in ("field", "fields"))
    values = frozenset(text for key, text in placed if key in _VALUE_KEYS) | fields
    words = f"{capability.name} {capability.description}".lower()
    return About(MISTAKES.get(capability.detector or "", ""), named, values, fields, words)


def names(
    key: str,
    what: About,
    *,
    evidence: Sequence[int] = (),
    seen: Sequence[int] = (),
    decisive: int | None = None,
) -> bool:
    """Tell whether a label names a cluster.

    Args:
        key: The cluster.
        what: What its capability is about.
        evidence: Messages that show the label.
        seen: Messages that show what was read.
        decisive: The decisive message, as read.
    """
    cluster = clusters()[key]
    if what.mistake:
        places = [*seen, *([] if decisive is None else [decisive])]
        return cluster.named_by(what, any(abs(one - other) <= NEAR for one in evidence for other in places))
    near = decisive is not None and any(abs(index - decisive) <= NEAR for index in evidence)
    return near and cluster.worded_by(what)


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield (nearest key, text) of every text in a JSON value; long lists name a kind, not a thing."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _strings(item, str(name))
    elif isinstance(value, list | tuple) and len(value) <= _LISTED:
        for item in value:
            yield from _strings(item, key)

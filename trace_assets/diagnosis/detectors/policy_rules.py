"""What a policy forbids to do with what, by a value of the object's record.

Read from single sentences, held against values that records really have. A sentence with an exception, or one
whose condition has parts that cannot be read, gives no rule: it is better to see nothing than to accuse
wrongly. English only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trace_assets.diagnosis.detectors.policy_subjects import (
    EXCEPTION,
    forbids_deed,
    is_anothers,
    speaks_of,
    values_said,
)
from trace_assets.diagnosis.detectors.policy_text import OTHERWISE, PolicyText, clauses_of
from trace_assets.diagnosis.detectors.values import categorical
from trace_assets.diagnosis.detectors.verbs import same_verb, speaks_of_change, spoken, verb_of
from trace_assets.diagnosis.detectors.wording import last_name

_ONLY_IF = re.compile(r"\bonly\b[^,;]*?\b(?:if|when|while|whose|where|that (?:is|are|has|have))\b(.*)")
_IF_ONLY = re.compile(r"\b(?:if|when|provided that)\b([^,;]*)")
_ONLY_THOSE = re.compile(r"^only (.+?) (?:can|may|are|is|will)\b")
_QUOTED = re.compile(r"['\"‘“]([^'\"’”]{2,40})['\"’”]")
_NEGATED = re.compile(r"\b(not|no|never|without)\b|n't\b")
_TO = r"\b(?:to|into|for|with|as|by) (?:the |a |an )?{}\b"
"""How a sentence says what something is changed to, or done with."""
_WHO = frozenset({"actor", "agent", "author", "by", "from", "role", "sender", "source"})
"""Fields that tell who said something, which is no state of what it is about."""


@dataclass(frozen=True)
class Ban:
    """A tool may not be used on objects with certain values of a field, or only on those.

    Attributes:
        sentence: What says so.
        field: Of the object's record, dotted.
        values: As said, lower case.
        only: Whether these are the only ones that are allowed.
        given: Of these values one must be given to the tool for the sentence to apply; empty: it always does.
    """

    sentence: str
    field: str
    values: tuple[str, ...]
    only: bool
    given: frozenset[str] = frozenset()

    def forbids(self, fields: Mapping[str, str], arguments: Mapping[str, Any] | None = None) -> bool:
        """Tell whether an object with these fields may not be used so; what is not known forbids nothing."""
        value = fields.get(self.field)
        if self.given and arguments is not None:
            told = {spoken(one) for one in arguments.values() if isinstance(one, str)}
            if told.isdisjoint(self.given):
                return False
        return value is not None and (spoken(value) in self.values) != self.only


def bans(
    policy: PolicyText,
    tool: str,
    values: Mapping[str, Collection[str]],
    given: Mapping[str, Collection[str]] | None = None,
    optional: Collection[str] = (),
    tools: Iterable[str] = (),
) -> list[Ban]:
    """Return what a policy forbids to do with a tool, by a value of the object's record.

    Args:
        policy: The policy.
        tool: Its name.
        values: By field, the values that records of its objects have in any run.
        given: By argument, the values that the tool is called with: a sentence that names one of them, beside
            one of a record, forbids only calls with it.
        optional: Fields that only some of the records have: that one has it may be what forbids.
        tools: All that change something: what stands under another one's label is not about this one.

    >>> said = "Shipped orders cannot be cancelled. Bills can only be paid if the status is 'open'."
    >>> text = PolicyText(said)
    >>> [(one.values, one.only) for one in bans(text, "cancel_order", {"state": ["shipped", "new"]})]
    [(('shipped',), False)]
    >>> [(one.values, one.only) for one in bans(text, "pay_bill", {"status": ["open", "closed"]})]
    [(('open',), True)]
    >>> text = PolicyText("Trade accounts cannot be switched to the Family plan.")
    >>> [one] = bans(text, "switch_account", {"kind": ["trade"]}, {"plan": ["Family", "Night"]})
    >>> [one.forbids({"kind": "trade"}, {"plan": plan}) for plan in ("Family", "Night")]
    [True, False]
    >>> text = PolicyText("Change seats: cheap trips cannot be changed.")
    >>> own = ["change_trip_seats", "change_trip_names"]
    >>> [len(bans(text, one, {"fare": ["cheap"]}, tools=own)) for one in own]
    [1, 0]
    """
    known = {
        field: {spoken(value) for value in own if categorical(value) and len(value) > 2}
        for field, own in values.items()
        if last_name(field) not in _WHO
    }
    found = []
    told_values = {
        spoken(one) for own in (given or {}).values() for one in own if categorical(one) and len(one) > 2
    }
    for sentence in policy.sentences:
        if not (speaks_of(sentence, tool) or speaks_of_change(sentence.text, tool, given or ())):
            continue
        if OTHERWISE.match(sentence.text) or is_anothers(sentence, tool, tools):
            continue  # what it says holds only where the sentence before it does not
        told = _only(sentence.text)
        if (only := _ONLY_IF.search(sentence.text)) and any(
            _named(sentence.text[: only.start()], known, False, tool)
        ):
            continue  # it is about some of the objects, and which these are the rule could not say
        if told is not None:
            found += [Ban(sentence.text, *one, only=True) for one in _named(told, known, True, tool)]
            found += [Ban(sentence.text, *one, only=True) for one in _switched(told, values)]
        elif forbids_deed(sentence.text, tool) and not EXCEPTION.search(sentence.text):
            found += [Ban(sentence.text, *one, only=False) for one in _switched(sentence.text, values)]
            had = [one for one in optional if _has_it(sentence.text, one)]
            found += [Ban(sentence.text, one, (), only=True) for one in had]
            named = [] if had else list(_named(sentence.text, known, False, tool))
            of_records = {value for _, own in named for value in own}
            asked = frozenset(
                one
                for one in values_said(sentence.text, told_values - of_records)
                if not _is_tools(one, tool) and re.search(_TO.format(re.escape(one)), sentence.text)
            )
            found += [Ban(sentence.text, *one, only=False, given=asked) for one in named]
    return found


def _switched(text: str, values: Mapping[str, Collection[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (field, value) of what is on or off, or is a mark that a thing has, where a text says so.

    >>> list(_switched("while its freeze is on", {"FREEZE": ["on", "off"], "state": ["on"]}))
    [('FREEZE', ('on',))]
    >>> list(_switched("final sale: no returns", {"final_sale": ["true", "false"]}))
    [('final_sale', ('true',))]
    """
    for field, own in values.items():
        if own and {one.lower() for one in own} <= {"on", "off"}:
            name = re.escape(spoken(last_name(field)))
            if (said := re.search(rf"\b{name} (?:is|are) (?:still )?(on|off)\b", text)) is not None:
                yield field, (said[1],)
        yes = {one.lower() for one in own} & {"true", "yes"}
        if yes and {one.lower() for one in own} <= {"true", "yes", "false", "no"}:
            name = re.escape(spoken(last_name(field)).removeprefix("is "))
            if re.search(rf"(?<![\w-])(?<!not )(?<!no ){name}s?(?![\w-])", text):
                yield field, tuple(sorted(yes))


def _has_it(text: str, field: str) -> bool:
    """Tell whether a text speaks of what has a field.

    >>> _has_it("never settle a claim for which they report an exclusion", "reply.exclusion")
    True
    """
    return (
        re.search(
            rf"\b(?:with|ha[sd]|have|having|report\w*|show\w*|carr(?:y|ies)|contain\w*|under|bear\w*) "
            rf"(?:an?|any|some|the) (?:[a-z]+ )?{re.escape(spoken(last_name(field)))}\b",
            text,
        )
        is not None
    )


def optional_fields(records: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the fields that a record has and another, otherwise with the same fields, has not.

    >>> optional_fields([{"id": "A", "flag": "x"}, {"id": "B"}, {"name": "C", "size": "1"}])
    ['flag']
    """
    shapes = {frozenset(one) for one in records}
    return sorted({field for one in shapes for field in one if len(one) > 1 and one - {field} in shapes})


def _only(text: str) -> str | None:
    """Return the condition under which alone something is allowed, None when no such thing is said."""
    if (those := _ONLY_THOSE.search(text)) is not None:
        return those.group(1)
    for clause in clauses_of(text):
        if (condition := _ONLY_IF.search(clause)) is not None:
            return condition.group(1)
        if re.search(r"\bonly\b", clause) and (condition := _IF_ONLY.search(clause)) is not None:
            return condition.group(1)
    return None


def _named(
    text: str, known: Mapping[str, Collection[str]], only: bool, tool: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (field, values) that a condition names; nothing where it has other alternatives."""
    if only and (_NEGATED.search(text) or EXCEPTION.search(text)):
        return
    quoted = tuple(one.strip() for one in _QUOTED.findall(text))
    alternatives = len(re.findall(r"\bor\b", text)) if only else 0
    found: dict[str, tuple[str, ...]] = {}
    for field, own in known.items():
        said = tuple(sorted(one for one in values_said(text, own) if not _is_tools(one, tool)))
        if only and quoted and _is_named(field, text):
            said = tuple(sorted({*said, *quoted}))
        if said and len(said) > alternatives:
            found[field] = said
    # A value that several fields have belongs to the field that is named; without a name nobody can tell.
    named = {field: said for field, said in found.items() if _is_named(field, text)}
    if named:
        yield from named.items()
    elif len({said for said in found.values()}) == len(found):
        yield from found.items()


def _is_named(field: str, text: str) -> bool:
    words = spoken(field.rpartition(".")[2]).split()
    return bool(words) and all(re.search(rf"\b{re.escape(word)}", text) for word in words)


def _is_tools(value: str, tool: str) -> bool:
    """Tell whether a value is only a word of what the tool does or acts on."""
    return all(word in spoken(tool).split() or same_verb(verb_of(tool), word) for word in value.split())

"""A write that none of the policy's conditions allows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.policy_clauses import Clauses, clauses, is_broken
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Observation, Step, Transcript
from trace_assets.diagnosis.detectors.values import categorical, scalars, time_of
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import asks_for, gerund, noun
from trace_assets.diagnosis.detectors.write_against_rule import (
    argument_of,
    last_seen,
    own_records,
    usual_state,
)

MIN_USES = 3
_WITHIN = re.compile(
    r"\b(?:within|in|less than|under)\s+(?:the\s+)?(?:last\s+|past\s+)?(\d+)\s*"
    r"(h|hr|hrs|hour|hours|day|days)\b"
)
_WORD = re.compile(r"[a-z]+")
_NO_VALUES = frozenset({"that", "this", "their", "same", "your", "with", "have", "when", "original", "other"})
_YES, _NO = frozenset({"yes", "true"}), frozenset({"no", "false"})
Condition = Mapping[str, Any]


class WriteAgainstPolicy:
    """The policy lists conditions of which one must hold for tool X, and X is called when none does.

    Each condition is read as a field of X's object: how long ago, a value, a yes or no. One that cannot be
    read so (what a third party did) counts as met when a result before the call shows its word as a value.
    The record is the one last seen before the call, or else the one that the call itself returns. Relevant
    when X was called, or when the user asked for it and an object for which none holds was left alone.
    Arguments: `tool` X, `argument` of X, `conditions`, `fields` (of the conditions), `now`.
    """

    name = "write_against_policy"
    norm = 0.0
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool for which the policy has such a list that fits its records."""
        proposals = []
        for tool, argument in corpus.object_writes(MIN_USES):
            listed = corpus.policy.any_of(tool)
            seen = list(corpus.records(tool, argument))
            conditions = [read_condition(text, seen, corpus.now) for text in listed]
            fields = sorted({one["field"] for one in conditions if "field" in one})
            if len(fields) < 2 or corpus.now is None:
                continue
            proposals.append(
                Proposal(
                    args={
                        "tool": tool,
                        "argument": argument,
                        "conditions": conditions,
                        "fields": fields,
                        "now": corpus.now,
                    },
                    name=f"Refrain from {gerund(tool)} unless a condition of the policy holds",
                    description=(
                        f"Before '{spoken(tool)}', hold the {noun(argument)}'s record against the rule: "
                        f"{'; '.join(listed)}. When none holds, refuse, whatever the user says."
                    ),
                    subject=(tool,),
                )
            )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool, shown = str(args["tool"]), list[int]()
        written = set()
        for step in transcript.calls(tool):
            name = normal(step.given.get(args["argument"]))
            written.add(name)
            fields, at = _record(transcript, step, name)
            if step.by_user or fields is None or not fields.keys() & set(args["fields"]):
                continue  # what is not known accuses nobody
            if self._holds(transcript, args, fields, step.index):
                shown += [at, step.index]
            else:
                return lacking(f"{tool} on {name}, for which no condition holds", at, step.index)
        if shown:
            return present("a condition held for each call", *shown)
        asked = min((at for word, at in transcript.words.items() if asks_for(tool, word)), default=None)
        if asked is None:
            return NOT_NEEDED
        for name, seen in transcript.observations.items():
            own = any(normal(step.given.get(args["argument"])) == name for step in transcript.steps)
            known = any(field in seen[-1].fields for field in args["fields"])
            if name in written or not own or not known:
                continue
            if not self._holds(transcript, args, seen[-1].fields, len(transcript.messages)):
                return present(f"no condition held, and {name} was left alone", asked, seen[-1].index)
        return NOT_NEEDED

    def _holds(
        self, transcript: Transcript, args: Mapping[str, Any], fields: Mapping[str, str], before: int
    ) -> bool:
        return any(_met(one, fields, str(args["now"]), transcript, before) for one in args["conditions"])


def read_condition(text: str, seen: Sequence[Observation], now: str | None) -> dict[str, Any]:
    """Return a condition as a test of a field: `field` with `within_hours`, `value` or `yes`; or else words.

    >>> fields = {"cabin": "business", "made_at": "2024-05-01T10:00:00", "insured": "no"}
    >>> seen = [Observation(1, "get", fields)]
    >>> read_condition("it was made within the last 24 hrs", seen, "2024-05-15")
    {'field': 'made_at', 'within_hours': 24}
    >>> read_condition("it is a business flight", seen, None), read_condition("it is insured", seen, None)
    ({'field': 'cabin', 'value': 'business'}, {'field': 'insured', 'yes': True})
    >>> read_condition("the flight was cancelled", seen, None)
    {'words': ['flight', 'cancelled']}
    """
    words = [word for word in _WORD.findall(text) if len(word) > 3]
    values: dict[str, set[str]] = {}
    for one in seen:
        for field, value in one.fields.items():
            values.setdefault(field, set()).add(value)
    if within := _WITHIN.search(text):
        hours = int(within.group(1)) * (24 if within.group(2).startswith("d") else 1)
        past = [field for field, own in values.items() if _always_before(own, now)]
        if past:
            return {
                "field": min(past, key=lambda field: (-_alike(field, words), field)),
                "within_hours": hours,
            }
    for field, own in sorted(values.items()):
        for value in sorted(own):
            plain = categorical(value) and value.lower() not in _YES | _NO and len(value) > 3
            if plain and re.search(rf"\b{re.escape(spoken(value))}\b", text):
                return {"field": field, "value": value}
    for field, own in sorted(values.items()):
        told = {value.lower() for value in own}
        if told <= _YES | _NO and _alike(field, words):
            return {"field": field, "yes": True}
    for field, own in sorted(values.items()):
        # `a premium plan`, of which no run has seen any: the word before the field's name is the value.
        said = re.search(rf"\b([a-z]{{4,}}) {re.escape(spoken(field))}\b", text)
        if said and said.group(1) not in _NO_VALUES and all(map(categorical, own)):
            return {"field": field, "value": said.group(1)}
    return {"words": [word for word in words if word not in ("user", "they", "that", "this", "with", "have")]}


def _alike(field: str, words: Sequence[str]) -> int:
    parts = [part for part in _WORD.findall(spoken(field)) if len(part) > 3]
    return sum(any(word[:5] == part[:5] for word in words) for part in parts)


def _always_before(values: set[str], now: str | None) -> bool:
    moments, limit = [time_of(value) for value in values], time_of(now)
    return limit is not None and all(one is not None and one <= limit for one in moments)


def _met(one: Condition, fields: Mapping[str, str], now: str, transcript: Transcript, before: int) -> bool:
    return met_by_record(one, fields, now) if "field" in one else _shown(one["words"], transcript, before)


def met_by_record(one: Condition, fields: Mapping[str, str], now: str) -> bool:
    """Tell whether a condition that names a field holds for a record; a record without it meets nothing."""
    value = fields.get(one["field"])
    if value is None:
        return False
    if "within_hours" in one:
        moment, limit = time_of(value), time_of(now)
        return moment is None or limit is None or limit - moment <= timedelta(hours=one["within_hours"])
    return value.lower() in _YES if one.get("yes") else value == one["value"]


def _shown(words: Sequence[str], transcript: Transcript, before: int) -> bool:
    """Tell whether a result before shows one of a condition's words as a value: somebody else made it so."""
    return any(
        is_shown(words, step.result) for step in transcript.steps if step.end < before and not step.failed
    )


def is_shown(words: Sequence[str], result: str) -> bool:
    """Tell whether a result is one of some words, or has it as a value; a field of that name shows nothing.

    >>> [is_shown(["sick"], text) for text in ('{"why": "sick"}', '{"sick": "no"}', "Sick ")]
    [True, False, True]
    """
    text = result.strip().lower()
    return text in words or any(
        f'"{word}"' in text and re.search(rf'"{re.escape(word)}"(?!\s*:)', text) for word in words
    )


def _record(transcript: Transcript, step: Step, name: str) -> tuple[Mapping[str, str] | None, int]:
    """Return the fields last seen of an object before a call, or those that the call returns, and where."""
    before = [seen for seen in transcript.observations.get(name, ()) if seen.index < step.index]
    if before:
        return before[-1].fields, before[-1].index
    return (None if step.failed else scalars(step.result)), step.index


class WriteAgainstClauses:
    """The policy makes tool X depend on several conditions together, and X is called when they do not hold.

    The whole rule is held against the record last seen: a single field of it would accuse what the rule
    allows. Relevant when X was called on an object that the rule does not allow, and when such an object was
    looked up, asked for, and left alone. Arguments: `tool` X, `argument` of X, `allowed`, `forbidden`
    (alternatives of tests), `fields` (that they read), `now`, `state` (in which X is mostly used).
    """

    name = "write_against_clauses"
    norm = 0.0
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool for which the policy has such a rule that fits its records."""
        proposals = []
        tools = sorted(corpus.mutating & corpus.agent_tools.keys()) if corpus.policy.text else []
        for tool in tools:
            argument = argument_of(corpus, tool) if corpus.agent_tools[tool] >= MIN_USES else None
            if argument is None:
                continue
            records = list(own_records(corpus, argument))
            values: dict[str, set[str]] = {}
            for one in records:
                for field, value in one.fields.items():
                    values.setdefault(field, set()).add(value)
            found = clauses(corpus.policy, tool, values, corpus.arguments_of(tool))
            if found is not None and _is_several(found):
                state = usual_state(corpus, tool, argument, records)
                proposals.append(self._proposal(tool, argument, found, corpus.policy.now, state))
        return proposals

    def _proposal(
        self, tool: str, argument: str, found: Clauses, now: str | None, state: Mapping[str, str]
    ) -> Proposal:
        words = found.words if len(found.words) <= 120 else "what the policy says of it holds"
        return Proposal(
            args={
                "tool": tool,
                "argument": argument,
                "allowed": [[dict(atom) for atom in atoms] for atoms in found.allowed],
                "forbidden": [[dict(atom) for atom in atoms] for atoms in found.forbidden],
                "fields": found.fields,
                "now": now,
                "state": dict(state),
            },
            name=f"Refrain from {gerund(tool)} unless {words}",
            description=(
                f"Before '{spoken(tool)}', hold the whole record of the {noun(argument)} against the policy: "
                f"'{' '.join(found.sentences)}' Where it does not allow the call, refuse, whatever the user "
                "says."
            ),
            subject=(tool, *found.fields),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        argument, written = str(args["argument"]), set[str]()
        for step in transcript.calls(args["tool"], ok=True):
            name = normal(step.given.get(argument))
            written.add(name)
            seen = last_seen(transcript, name, argument, step.index)
            if seen is None or step.by_user:
                continue  # what is not known accuses nobody
            if is_broken(args["allowed"], args["forbidden"], seen.fields, args["now"]):
                shown = ", ".join(
                    f"{spoken(field.rpartition('.')[2])} {seen.fields[field]}"
                    for field in args["fields"]
                    if field in seen.fields
                )
                return lacking(f"{args['tool']} on {name} with {shown}", seen.index, step.index)
        asked = any(asks_for(args["tool"], word) for word in transcript.words)
        for name in transcript.observations:
            seen = last_seen(transcript, name, argument, len(transcript.messages))
            if seen is None or name in written:
                continue
            opened = any(name in step.objects and not step.by_user for step in transcript.steps)
            usual = bool(args["state"]) and all(
                seen.fields.get(key) == value for key, value in args["state"].items()
            )
            broken = is_broken(args["allowed"], args["forbidden"], seen.fields, args["now"])
            if opened and broken and (asked or usual):
                return present(f"the policy does not allow it, and {name} was left alone", seen.index)
        return NOT_NEEDED


def _is_several(found: Clauses) -> bool:
    """Tell whether a rule says more than that one field must have one value, which is told more plainly."""
    every = [atom for atoms in (*found.allowed, *found.forbidden) for atom in atoms if atom]
    return len(found.fields) > 1 or any("yes" in atom or "least" in atom for atom in every)

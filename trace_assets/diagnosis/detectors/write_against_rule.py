"""A write that one sentence of the policy forbids: by a value, by a date that has passed, or by a number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.policy_limits import Most, given_bans, is_among, limits, marks
from trace_assets.diagnosis.detectors.policy_rules import Ban, bans, optional_fields
from trace_assets.diagnosis.detectors.policy_windows import Window, dates_meant, windows
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Observation, Step, Transcript
from trace_assets.diagnosis.detectors.values import categorical, leaves, records_in, time_of
from trace_assets.diagnosis.detectors.verbs import means, same_verb, spoken, things, verb_of
from trace_assets.diagnosis.detectors.wording import asks_for, gerund, last_name, noun
from trace_assets.diagnosis.detectors.write_past_date import is_of

MIN_USES = 3
BY_FIELD, BY_DATE = "state", frozenset({"past", "window"})
"""Kinds of rules that a field of the record decides: by its value, or by how far from now it lies."""
USUAL = 0.8
"""Share of a tool's calls that are made in one state for it to be the state in which the tool is used."""


class WriteAgainstRule:
    """The policy says in one sentence when tool X may not be used, and X is used so all the same.

    Six kinds of sentences are read: a state of the object (`shipped orders cannot be changed`), a date of it
    in the past, how long before or after a date (`within 30 days of delivery`), the most that an argument
    may be, a value that it may not have, and a word that a look must not have shown. Whether runs keep to it
    teaches nothing here: the policy does. Where a record decides, an object for which X is allowed shows
    nothing either way; one for which it is not counts as left alone when it was looked up, or is all that a
    look showed, and the user asked for what X does, or it stands as objects mostly do when X is called. A
    call that the tool refused did nothing.

    Arguments: `tool` X, `argument` of X, `kind`, `state`, and of the rule `field` with `values` and `only`,
    or with `now` (and `hours`, `ahead`; of an argument's own date too), or `number` and `noun`, or `word`.
    """

    name = "write_against_rule"
    norm = 0.0
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every sentence of the policy that can be held against a writing tool's calls."""
        proposals: dict[tuple[str, ...], Proposal] = {}
        tools = sorted(corpus.mutating & corpus.agent_tools.keys()) if corpus.policy.text else []
        for tool in tools:
            if corpus.agent_tools[tool] < MIN_USES:
                continue
            rule: dict[str, Any]
            for ban in given_bans(corpus.policy, tool, corpus.given_to(tool)):
                rule = {"kind": "given", "field": ban.argument, "values": list(ban.values)}
                words = f"with {spoken(ban.argument)} {' or '.join(ban.values)}"
                one = _proposal(tool, ban.argument, rule, words, ban.sentence, (ban.argument, *ban.values))
                proposals.setdefault(one.subject, one)
            argument = argument_of(corpus, tool)
            for rule, words, sentence, subject in _of_given_dates(corpus, tool):
                one = _proposal(tool, argument or "", rule, words, sentence, subject)
                proposals.setdefault(one.subject, one)
            for most in limits(corpus.policy, tool, corpus.arguments_of(tool)):
                rule = {"kind": "most", "number": most.number, "noun": most.noun}
                words = f"with more than {most.number:g} {most.noun}".strip()
                one = _proposal(
                    tool, argument or "", rule, words, most.sentence, (f"{most.number:g}", most.noun)
                )
                proposals.setdefault(one.subject, one)
            if argument is None:
                continue
            for mark in marks(corpus.policy, tool):
                rule = {"kind": "mark", "word": mark.word}
                words = f"where a look shows {mark.word}"
                one = _proposal(tool, argument, rule, words, mark.sentence, (mark.word,))
                proposals.setdefault(one.subject, one)
            records = list(own_records(corpus, argument))
            rules = [
                one
                for one in (
                    *_of_bans(corpus, tool, records),
                    *_of_past(corpus, tool, records),
                    *_of_windows(corpus, tool, records),
                )
                if means(one[2], tool, tools)
            ]
            state = usual_state(corpus, tool, argument, records) if rules else {}
            for rule, words, sentence, subject in rules:
                one = _proposal(tool, argument, rule | {"state": state}, words, sentence, subject)
                proposals.setdefault(one.subject, one)
        return list(proposals.values())

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        if args["kind"] in _LABELLED:
            return _LABELLED[args["kind"]](transcript, args)
        written = set[str]()
        for step in transcript.calls(args["tool"], ok=True):
            name = normal(step.given.get(args["argument"]))
            written.add(name)
            seen = last_seen(transcript, name, str(args["argument"]), step.index)
            given = step.given.get(str(args["field"]).rpartition(".")[2])
            if (
                seen is None
                or step.by_user
                or (given is not None and normal(given) != normal(seen.fields.get(args["field"])))
            ):
                continue  # what is not known accuses nobody; nor does a change of the very field
            if forbids(args, seen.fields, step.given):
                why = f"{args['tool']} on {name} with {spoken(args['field'])} {seen.fields[args['field']]}"
                return lacking(why, seen.index, step.index)
        asked = min(
            (at for word, at in transcript.words.items() if _wants(str(args["tool"]), word)), default=None
        )
        for name in transcript.observations:
            seen = last_seen(transcript, name, str(args["argument"]), len(transcript.messages))
            if seen is None or name in written or not forbids(args, seen.fields):
                continue
            opened = any(
                name in step.objects or (step.answer == seen.index and len(records_in(step.result)) == 1)
                for step in transcript.steps
                if not step.by_user
            )
            usual = bool(args["state"]) and all(
                seen.fields.get(key) == value for key, value in args["state"].items()
            )
            if opened and (asked is not None or usual):
                return present(f"the policy forbids it, and {name} was left alone", seen.index)
        return NOT_NEEDED


@lru_cache(maxsize=1 << 14)
def _wants(tool: str, word: str) -> bool:
    """Tell whether a word of the user asks for what a tool does, also in another one for it.

    >>> _wants("issue_refund", "back"), _wants("return_item", "refund"), _wants("cancel_order", "back")
    (True, True, False)
    """
    verb = verb_of(tool)
    return asks_for(tool, word) or same_verb(verb, word) or (word == "back" and same_verb(verb, "return"))


Rule = tuple[dict[str, Any], str, str, tuple[str, ...]]
"""Arguments, words that end `refrain from doing it ...`, the sentence, what tells it from others."""


def _of_bans(corpus: Corpus, tool: str, records: list[Observation]) -> Iterator[Rule]:
    values: dict[str, set[str]] = {}
    for one in records:
        for field, value in one.fields.items():
            values.setdefault(field, set()).add(value)
    optional = optional_fields(one.fields for one in records)
    for ban in bans(corpus.policy, tool, values, corpus.given_to(tool), optional, corpus.mutating):
        said = " or ".join(ban.values)
        words = (
            f"unless its {noun(ban.field)} is {said}" if ban.only else f"when its {noun(ban.field)} is {said}"
        )
        if not ban.values:
            words = f"when it has the {noun(last_name(ban.field))}"
        rule = {"kind": "state", "field": ban.field, "values": list(ban.values), "only": ban.only}
        if ban.given:
            rule |= {"given": sorted(ban.given)}
            words += f" and {' or '.join(sorted(ban.given))} is asked for"
        yield rule, words, ban.sentence, (ban.field, *ban.values, *sorted(ban.given))


def _of_past(corpus: Corpus, tool: str, records: list[Observation]) -> Iterator[Rule]:
    today = corpus.policy.clock
    for sentence in corpus.policy.forbids_past(tool) if today else ():
        for field in sorted(
            {field for one in records for field, _ in dates_meant(sentence, one.fields.items())}
        ):
            rule = {"kind": "past", "field": field, "now": today}
            yield rule, f"once its {spoken(field.rpartition('.')[2])} has passed", sentence.text, (field,)


def _of_windows(corpus: Corpus, tool: str, records: list[Observation]) -> Iterator[Rule]:
    now = corpus.policy.now
    dated = {field for one in records for field, value in one.fields.items() if time_of(value) is not None}
    for window in windows(corpus.policy, tool) if now else ():
        for field in window.fields(dated, things(tool)):
            yield _of_window(window, "window", field, str(now))


def _of_given_dates(corpus: Corpus, tool: str) -> Iterator[Rule]:
    """Yield the windows of dates that a tool itself is given, which no record has to show."""
    values: dict[str, list[Any]] = {}
    for one in corpus.transcripts if corpus.policy.now else ():
        for step in one.own_calls(tool):
            for path, value in leaves(step.arguments):
                values.setdefault(path, []).append(value)
    dated = [path for path, own in values.items() if all(time_of(one) is not None for one in own)]
    for window in windows(corpus.policy, tool, dated) if dated else ():
        for path in window.fields(dated, things(tool)):
            rule, words, sentence, subject = _of_window(window, "given_window", path, str(corpus.policy.now))
            yield rule, words.replace("its ", "the ", 1), sentence, subject


def _of_window(window: Window, kind: str, field: str, now: str) -> Rule:
    rule = {"kind": kind, "field": field, "now": now, "hours": window.hours, "ahead": window.ahead}
    days = f"{window.hours:g} hours" if window.hours % 24 else f"{window.hours / 24:g} days"
    words = f"less than {days} before its" if window.ahead else f"more than {days} after its"
    subject = (field, f"{window.hours:g}", "before" if window.ahead else "after")
    of = " ".join(map(spoken, field.split(".")[-1 if kind == "window" else -2 :]))
    if (done := _WAS.fullmatch(of)) is not None:
        words, of = words.removesuffix(" its"), f"it was {done[1]}"
    return rule, f"{words} {of}", window.sentence, subject


_WAS = re.compile(r"([a-z]+ed) (?:at|on)")


def _proposal(
    tool: str, argument: str, rule: dict[str, Any], words: str, sentence: str, subject: tuple[str, ...]
) -> Proposal:
    return Proposal(
        args={"tool": tool, "argument": argument, **rule},
        name=f"Refrain from {gerund(tool)} {words}",
        description=(
            f"Before '{spoken(tool)}', hold the {noun(argument)} against the policy: '{sentence}' Where it "
            "forbids the call, refuse, whatever the user says."
        ),
        subject=(tool, *(part for part in subject if part)),
    )


def argument_of(corpus: Corpus, tool: str) -> str | None:
    """Return the argument that names what a tool acts on: one named after it, or the corpus's guess."""
    given = Counter(
        argument
        for one in corpus.transcripts
        for step in one.calls(tool)
        for argument, value in step.given.items()
        if looks_like_id(value)
    )
    named = [one for one in given if not set(noun(one).split()).isdisjoint(things(tool))]
    return max(named, key=lambda one: (given[one], one), default=corpus.object_argument(tool))


def own_records(corpus: Corpus, argument: str) -> Iterator[Observation]:
    """Yield what was seen of objects of the kind that a tool acts on: also of those it was not called on."""
    for one in corpus.transcripts:
        for name, seen in one.observations.items():
            yield from (each for each in seen if is_of(each.fields, argument, name))


def last_seen(transcript: Transcript, name: str, argument: str, before: int) -> Observation | None:
    """Return what was last seen of an object itself before a message."""
    seen = transcript.observations.get(name, ())
    return next(
        (one for one in reversed(seen) if one.index < before and is_of(one.fields, argument, name)), None
    )


def forbids(
    args: Mapping[str, Any], fields: Mapping[str, str], given: Mapping[str, Any] | None = None
) -> bool:
    """Tell whether the sentence forbids the call.

    Args:
        args: Of the detector, of a kind that hangs on a record's field.
        fields: Of the record.
        given: Arguments of the call; None where there is none.
    """
    value = fields.get(args["field"])
    if value is None:
        return False
    if args["kind"] == "past":
        return bool(value[:10] < args["now"])
    if args["kind"] == "window":
        return _outside(args, value)
    asked = frozenset(args.get("given", ()))
    return Ban("", args["field"], tuple(args["values"]), bool(args["only"]), asked).forbids(fields, given)


def _outside(args: Mapping[str, Any], value: str) -> bool:
    """Tell whether a date lies too near, or too far behind; where a time of day is not told, days count.

    >>> rule = {"now": "2030-05-10 15:00", "hours": 48, "ahead": True}
    >>> [_outside(rule, one) for one in ("2030-05-11", "2030-05-12", "2030-05-12T14:00:00")]
    [True, False, True]
    """
    return Window("", args["hours"], (), args["ahead"]).is_missed(value, args["now"])


def _beyond(transcript: Transcript, args: Mapping[str, Any]) -> Finding:
    most, within = Most("", float(args["number"]), str(args["noun"])), list[int]()
    for step in transcript.calls(args["tool"], ok=True):
        if step.by_user or not _counts(step, most):
            continue
        if (name := most.broken_by(step.given)) is not None:
            return lacking(f"{spoken(name)} {step.given[name]} is more than {most.number:g}", step.index)
        within.append(step.index)
    return present("no call went beyond it", *within) if within else NOT_NEEDED


def _given(transcript: Transcript, args: Mapping[str, Any]) -> Finding:
    others = list[int]()
    for step in transcript.calls(args["tool"], ok=True):
        value = None if step.by_user else step.given.get(args["field"])
        if value is not None and is_among(value, args["values"]):
            return lacking(f"{args['tool']} was given {spoken(args['field'])} {value}", step.index)
        if value is not None:
            others.append(step.index)
    return present("no call was given what the policy forbids", *others) if others else NOT_NEEDED


def _given_date(transcript: Transcript, args: Mapping[str, Any]) -> Finding:
    within = list[int]()
    for step in transcript.own_calls(args["tool"], ok=True):
        for value in (str(one) for path, one in leaves(step.arguments) if path == args["field"]):
            if _outside(args, value):
                return lacking(f"{step.tool} was given {spoken(args['field'])} {value}", step.index)
            within.append(step.index)
    return present("no call was given a date outside of it", *within) if within else NOT_NEEDED


def _marked(transcript: Transcript, args: Mapping[str, Any]) -> Finding:
    """Label by the last look at an object: whether it shows the word, and the tool was used all the same."""
    shown: dict[str, int] = {}
    sign = re.compile(rf"(?<!\w){re.escape(args['word'])}(?!\w)")
    for step in transcript.steps:
        if step.failed or step.by_user:
            continue
        name = normal(step.given.get(args["argument"]))
        if step.tool == args["tool"]:
            if name in shown:
                return lacking(f"{step.tool} on {name}, which shows {args['word']}", shown[name], step.index)
        elif name:
            shown.pop(name, None)
            if sign.search(step.result):
                shown[name] = step.end
    if shown:
        return present(f"what shows {args['word']} was left alone", *shown.values())
    return NOT_NEEDED


def _counts(step: Step, most: Most) -> bool:
    """Tell whether a call has the argument that is limited."""
    return Most("", float("-inf"), most.noun).broken_by(step.given) is not None


def usual_state(corpus: Corpus, tool: str, argument: str, records: Iterable[Observation]) -> dict[str, str]:
    """Return the fields that mostly have one value when the tool is called, and others elsewhere."""
    called, every = Counter[tuple[str, str]](), dict[str, set[str]]()
    calls = 0
    for record in records:
        for field, value in record.fields.items():
            if categorical(value):
                every.setdefault(field, set()).add(value)
    for one in corpus.transcripts:
        for step in one.calls(tool):
            seen = last_seen(one, normal(step.given.get(argument)), argument, step.index)
            if seen is not None:
                calls += 1
                called.update(pair for pair in seen.fields.items() if categorical(pair[1]))
    return {
        field: value
        for (field, value), count in sorted(called.items())
        if count >= USUAL * calls and len(every[field]) > 1
    }


_LABELLED = {"most": _beyond, "given": _given, "given_window": _given_date, "mark": _marked}
"""How rules are labelled that no field of a record decides, by their kind."""

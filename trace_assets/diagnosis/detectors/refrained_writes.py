"""Writes on what successful runs leave alone: objects in some state, or values of some kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.policy_limits import kinds_banned
from trace_assets.diagnosis.detectors.policy_text import ALLOWS, FORBIDS
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import Decision, divided, shunned
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import categorical, strings
from trace_assets.diagnosis.detectors.verbs import (
    WORD,
    has_stem,
    means,
    names_change,
    same_verb,
    spoken,
    things,
    verb_of,
)
from trace_assets.diagnosis.detectors.wording import gerund, imperative, last_name, named_after, noun

MIN_USES = 3
MAX_VALUES = 8
"""A field with more values than this is not a state."""
MIN_STATES = 2
"""Tasks with the tool called in another state, where no word of the user tells that it was asked for."""
MIN_WORD = 3
"""Letters up to which a value, or a part of a field's name, stands in any sentence: yes, no, id."""
SPECIAL = 0.5
"""How many times as often, at most, runs may refrain in that other state."""
INSTEAD_SHARE = 0.5
"""Share of those who refrain that must take the same other way for it to be what is done instead."""


class WriteAgainstState:
    """The writing tool X is called on an object whose last observation showed field = value.

    Relevant when X was called in that state, or the user asked for what X does (a cue word) and an object
    that the conversation names was seen in that state. PRESENT when X was not called on it and, where there
    is another way that those who refrain take, that way was taken. Where it hangs on the words of the request
    whether the state lets runs refrain, each of the two kinds of requests is a proposal of its own: relevant
    to runs whose user said one of its `cues` and none of the other's.
    Arguments: `tool` X, `field`, `value`, `instead` (a tool, or empty), `argument` of X, `cues`, `unless`.
    """

    name = "write_against_state"
    norm = 0.6
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Cross each writing tool with the states in which its objects were seen."""
        proposals = []
        for tool, argument in corpus.object_writes(MIN_USES):
            cues = corpus.cues(tool)
            known: dict[str, list[str]] = {}
            for field, value in self._states(corpus, argument):
                known.setdefault(field, []).append(value)
            for field, values in known.items():
                base: dict[str, Any] = {"tool": tool, "field": field, "argument": argument}
                base |= {"cues": cues} if cues else {"cues": [], "writes": sorted(corpus.mutating)}
                decisions = self._decisions(corpus, base, values) if cues else []
                special = values if cues else self._special(corpus, base, values)
                for value in special:
                    args = base | {"value": value}
                    asked, others = divided(decisions, value)
                    for own in [args, args | {"cues": asked, "unless": others}] if asked else [args]:
                        instead = self._instead(corpus, own)
                        if instead is not None:
                            said = is_ruled(corpus, tool, field, value)
                            proposals.append(_proposal(own | {"instead": instead}, said))
        return proposals

    def _decisions(self, corpus: Corpus, args: Mapping[str, Any], values: Sequence[str]) -> list[Decision]:
        """Return what runs did that were asked for the tool: said words, state, whether it was left alone."""
        told = corpus.telling(args["tool"])
        found = []
        for one in corpus.transcripts:
            for value in values:
                own = {**args, "cues": told, "value": value}
                wrote = self._written(one, own) is not None
                if wrote or self._refrained(one, own) is not None:
                    words = frozenset(word for word in told if word in one.words)
                    found.append(Decision(words, value, not wrote, one.task_id))
                    break
        return found

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        unless = args.get("unless")
        if unless and (transcript.cue(args["cues"]) is None or transcript.cue(unless) is not None):
            return NOT_NEEDED  # what was asked for belongs to the rule: words of both kinds leave it open
        written = self._written(transcript, args)
        if written is not None:
            return written
        refrained = self._refrained(transcript, args)
        if refrained is None:
            return NOT_NEEDED
        asked, seen, _ = refrained
        if not args.get("instead"):
            return present(f"{args['field']}={args['value']} was seen, and it was left alone", asked, seen)
        taken = [step.index for step in transcript.calls(args["instead"], ok=True) if step.index > seen]
        if not taken:
            return NOT_NEEDED
        return present(f"{args['field']}={args['value']} was seen, then {args['instead']}", seen, taken[0])

    def _written(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding | None:
        """Return what shows that the tool was called in the state, None when it was not."""
        tool, argument, field, value = args["tool"], args["argument"], args["field"], args["value"]
        written = transcript.once(
            ("written on", tool, argument, field), lambda: _states_written(transcript, tool, argument, field)
        )
        for name, at, seen, index in written:
            if seen == value:
                reason = f"{tool} was called on {name} although {field}={value} had been seen"
                return lacking(reason, at, index)
        return None

    def _refrained(self, transcript: Transcript, args: Mapping[str, Any]) -> tuple[int, int, str] | None:
        """Return (request, observation, object) where it was asked for in that state and not done."""
        cues = tuple(strings(args.get("cues")))
        asked = transcript.cue(cues)
        if asked is None and not cues:
            # What asks for it is not known: then a run shows something when it changed nothing at all.
            writes = set(strings(args.get("writes")))
            if any(step.tool in writes and not step.failed for step in transcript.steps):
                return None
            asked = min(transcript.words.values(), default=None)
        if asked is None:
            return None
        tool, argument, field = args["tool"], args["argument"], args["field"]
        left = transcript.once(
            ("left alone", tool, argument, cues), lambda: self._left_alone(transcript, tool, argument, cues)
        )
        states = transcript.once(
            ("left in", tool, argument, cues, field),
            lambda: [(name, transcript.state(name, field, len(transcript.messages))) for name in left],
        )
        for name, state in states:
            if state is not None and state[1] == args["value"]:
                return asked, state[0], name
        return None

    def _left_alone(
        self, transcript: Transcript, tool: str, argument: str, cues: tuple[str, ...]
    ) -> list[str]:
        """Return the objects that were asked about, whatever their state, and not written on.

        They are named to some call by X's argument: they are of the kind X acts on.
        """
        about = transcript.asked_about(cues)
        written = {normal(step.given.get(argument)) for step in transcript.calls(tool)}
        kind = {normal(step.given.get(argument)) for step in transcript.steps}
        return [
            name
            for name in transcript.observations
            if (about is None or name in about)
            and name in kind
            and name not in written
            and transcript.is_meant(name, cues)
        ]

    def _states(self, corpus: Corpus, argument: str) -> list[tuple[str, str]]:
        """Return the states (field, value) in which objects that an argument names were seen."""
        values: dict[str, Counter[str]] = {}
        for one in corpus.transcripts:
            names = {normal(s.given[argument]) for s in one.steps if isinstance(s.given.get(argument), str)}
            found = {
                (field, value)
                for name in names
                for seen in one.observations.get(name, ())
                for field, value in seen.fields.items()
                if categorical(value)
            }
            for field, value in found:
                values.setdefault(field, Counter())[value] += 1
        return [
            (field, value)
            for field, counts in sorted(values.items())
            if 2 <= len(counts) <= MAX_VALUES
            for value, count in sorted(counts.items())
            if count >= MIN_USES
        ]

    def _special(self, corpus: Corpus, args: Mapping[str, Any], values: Sequence[str]) -> list[str]:
        """Return the states in which runs refrain, and hardly in another one in which the tool is called."""
        left, called = dict.fromkeys(values, 0), {value: set[str]() for value in values}
        runs = dict.fromkeys(values, 0)
        for one in corpus.transcripts:
            for value in values:
                own = {**args, "value": value}
                if self._written(one, own):
                    called[value].add(one.task_id)
                    runs[value] += 1
                elif self._refrained(one, own):
                    left[value] += 1
                    runs[value] += 1
        return [
            here
            for here in values
            if any(
                len(called[value]) >= MIN_STATES
                and left[value] * runs[here] <= SPECIAL * left[here] * runs[value]
                for value in values
                if value != here and left[here]
            )
        ]

    def _instead(self, corpus: Corpus, args: dict[str, Any]) -> str | None:
        """Return the tool that those who refrain mostly use, "" for none; None when too few refrain."""
        taken, refrained = Counter[str](), 0
        for one in corpus.transcripts:
            outcome = None if self._written(one, args) else self._refrained(one, args)
            if outcome is not None:
                refrained += 1
                _, seen, name = outcome
                taken.update({step.tool for step in one.steps if self._other(step, corpus, args, seen, name)})
        if refrained < MIN_USES:
            return None
        tool, count = max(taken.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        return tool if count >= INSTEAD_SHARE * refrained else ""

    def _other(self, step: Step, corpus: Corpus, args: Mapping[str, Any], seen: int, name: str) -> bool:
        """Tell whether a step is another way of dealing with the object, or of handing it over."""
        if step.by_user or step.failed or step.index < seen or step.tool == args["tool"]:
            return False
        return step.tool in corpus.mutating and (name in step.objects or not step.objects)


def _states_written(
    transcript: Transcript, tool: str, argument: str, field: str
) -> list[tuple[str, int, str, int]]:
    """Return the agent's calls on what was seen in a state: object, where it was seen, as what, the call."""
    found = []
    for step in transcript.own_calls(tool):
        name = normal(step.given.get(argument))
        if (state := transcript.state(name, field, step.index)) is not None:
            found.append((name, *state, step.index))
    return found


_OTHERS = frozenset({"another", "anybody", "anyone", "else", "other", "others", "somebody", "someone"})
"""Words for other people: a field `reserved_by_others` is what nobody else may have done."""


def is_ruled(corpus: Corpus, tool: str, field: str, value: str) -> bool:
    """Tell whether a policy may say what runs do: a sentence about a tool has the field or its value.

    Under a heading that names what the tool does, a sentence without a verb of another deed is about it too.
    A policy that gives no rules for the tool leaves them to be found: there, what runs do stands for it.
    """
    tools, verb = sorted(corpus.mutating & corpus.agent_tools.keys()), verb_of(tool)
    parts = [part for part in spoken(last_name(field)).split() if len(part) > MIN_WORD]

    def names(text: str) -> bool:
        words = WORD.findall(text)
        return (len(value) > MIN_WORD and spoken(value) in text) or (
            bool(parts)
            and all(
                has_stem(words, part) or (part in _OTHERS and not _OTHERS.isdisjoint(words)) for part in parts
            )
        )

    ruled = False
    for sentence in corpus.policy.sentences:
        if not FORBIDS.search(sentence.text) and not ALLOWS.search(sentence.text):
            continue
        above = any(same_verb(verb, word) for word in WORD.findall(sentence.heading))
        about = any(same_verb(verb, word) for word in sentence.words)
        about |= above and not names_change(sentence.words)
        if about and means(f"{sentence.heading} {sentence.text}", tool, tools):
            ruled = True
            if names(sentence.text):
                return True
    return not ruled or any(map(names, corpus.policy.any_of(tool, tools)))


def _proposal(args: dict[str, Any], told: bool) -> Proposal:
    tool, field, value, instead = (str(args[name]) for name in ("tool", "field", "value", "instead"))
    when, said = f"its {noun(field)} is {value}", ""
    subject: tuple[str, ...] = (tool, field, value)
    if args.get("unless"):
        word = max(args["cues"], key=lambda one: (named_after(tool, one), len(one), one))
        when, said = f"{when} and the user speaks of '{word}'", f" (says {' or '.join(args['cues'])})"
        subject += (word,)
    return Proposal(
        args=args,
        name=f"Refrain from {gerund(tool)} when {when}"
        + ("" if told else ", as most runs do")
        + (f"; {imperative(instead)} instead" if instead else ""),
        description=("" if told else "No sentence of the policy says so: it is what most runs do. ")
        + (
            f"When the {noun(str(args['argument']))} was last seen with {spoken(field)} '{value}', do not "
            f"call '{spoken(tool)}' on it even if the user asks for it{said}"
            + (f": use '{spoken(instead)}'." if instead else ".")
        ),
        subject=subject,
    )


MAX_KINDS = 40
"""An argument with more values than this names no kinds."""


class WriteOnKind:
    """Tool X is called with a value, of the argument that names what it acts on, that it must not be given.

    Which values these are is told by what runs do (they refrain with some and hardly with others) and by the
    policy, which may name values that nobody has asked for yet. Relevant when X was called with such a value,
    or the user asked for what X does and named one; PRESENT when it was not called with it and, where those
    who refrain take another way, that way was taken.
    Arguments: `tool` X, `argument` of X, `values`, `others` (that it may have), `instead`, `cues`.
    """

    name = "write_on_kind"
    norm = 0.6
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every argument of a writing tool with values that set runs, or the policy, apart."""
        proposals = []
        for tool, key in corpus.object_writes(MIN_USES):
            cues = corpus.telling(tool)
            for argument in sorted(corpus.given_to(tool)) if cues else ():
                known = corpus.values_known(tool, argument)
                named = not set(noun(argument).split()).isdisjoint(things(tool))
                if argument == key or not 2 <= len(known) <= MAX_KINDS or not all(map(categorical, known)):
                    continue
                decisions = _decisions(corpus, tool, argument, cues, known)
                found = set(shunned(decisions))
                if named:
                    found |= set(kinds_banned(corpus.policy, tool, known))
                if found and found < set(known):
                    args = {"tool": tool, "argument": argument, "cues": cues, "values": sorted(found)}
                    args |= {"others": sorted(set(known) - found)}
                    proposals.append(_proposal_of_kind(args | {"instead": self._instead(corpus, args)}))
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool, argument = str(args["tool"]), str(args["argument"])
        for step in transcript.calls(tool):
            if not step.by_user and step.given.get(argument) in args["values"]:
                return lacking(f"{tool} was given {spoken(argument)} {step.given[argument]}", step.index)
        asked = transcript.cue(args["cues"])
        if asked is None or not _named(transcript, args["values"]):
            return NOT_NEEDED
        if not args["instead"]:
            return present("it was asked for, and left alone", asked)
        taken = [step.index for step in transcript.calls(args["instead"], ok=True)]
        return present(f"{args['instead']} was called instead", asked, taken[0]) if taken else NOT_NEEDED

    def _instead(self, corpus: Corpus, args: Mapping[str, Any]) -> str:
        """Return the writing tool that those who refrain mostly use; empty for none."""
        taken, refrained = Counter[str](), 0
        for one in corpus.transcripts:
            if self.label(one, {**args, "instead": ""}).label == "PRESENT":
                refrained += 1
                taken.update({step.tool for step in one.steps if not (step.failed or step.by_user)})
        ways = {tool: count for tool, count in taken.items() if tool in corpus.mutating - {args["tool"]}}
        tool, count = max(ways.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        return tool if refrained >= MIN_USES and count >= INSTEAD_SHARE * refrained else ""


def _decisions(
    corpus: Corpus, tool: str, argument: str, cues: Sequence[str], known: Sequence[str]
) -> list[Decision]:
    """Return what runs did that were asked to use a tool on one kind of thing."""
    found = []
    for one in corpus.transcripts:
        given = {step.given.get(argument) for step in one.calls(tool) if not step.by_user} & set(known)
        kinds = given or (set(_named(one, known)) if one.cue(cues) is not None else set())
        if len(kinds) == 1:
            found.append(Decision(frozenset(), str(next(iter(kinds))), not given, one.task_id))
    return found


def _named(transcript: Transcript, values: Sequence[str]) -> list[str]:
    """Return those of some values that the user said."""
    text = transcript.asked_text
    return [
        one
        for one in values
        if spoken(one) in text and re.search(rf"(?<![\w-]){re.escape(spoken(one))}(?![\w-])", text)
    ]


def _proposal_of_kind(args: dict[str, Any]) -> Proposal:
    tool, instead, kinds = str(args["tool"]), str(args["instead"]), " or ".join(args["values"])
    return Proposal(
        args=args,
        name=f"Refrain from {gerund(tool)} when it is {kinds}"
        + (f"; {imperative(instead)} instead" if instead else ""),
        description=(
            f"Do not call '{spoken(tool)}' with the {spoken(str(args['argument']))} {kinds}, even if the "
            "user asks for it" + (f": use '{spoken(instead)}'." if instead else ".")
        ),
        subject=(tool, str(args["argument"]), *args["values"]),
    )

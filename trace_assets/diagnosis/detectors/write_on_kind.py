"""A write on a kind of thing that the policy excludes, or with which runs refrain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.decisions import Decision, shunned
from trace_assets.diagnosis.detectors.policy_rules import kinds_banned
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import categorical
from trace_assets.diagnosis.detectors.verb_forms import things
from trace_assets.diagnosis.detectors.wording import gerund, imperative, noun, spoken

MIN_USES = 3
MAX_KINDS = 40
"""An argument with more values than this names no kinds."""
INSTEAD_SHARE = 0.5
"""Share of those who refrain that must take the same other way for it to be what is done instead."""


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
                    proposals.append(_proposal(args | {"instead": self._instead(corpus, args)}))
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


def _proposal(args: dict[str, Any]) -> Proposal:
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

"""Steps that the policy speaks of and that some situations alone call for: a licence, a late fee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import (
    ALWAYS,
    around,
    calls_in,
    in_words,
    is_alike,
    situation_of,
)
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.verbs import WORD, has_stem, is_deed, things
from trace_assets.diagnosis.detectors.wording import gerund, imperative, spoken, title

MIN_USES = 3
RULE = 0.7
"""Share of all calls that a step must go with where no situation tells which need it."""
_SAY_NOTHING = frozenset(
    {"all", "by", "data", "detail", "details", "for", "from", "id", "info", "information", "list", "name"}
    | {"of", "record", "records", "status", "the", "with"}
)
"""Words of tools' names that tell nothing of what is shown or done."""


class SituationalStep:
    """The policy speaks of the tool Y, runs mostly call it beside the writing tool X, and it was left out.

    It was left out in the situation in which it is mostly called (`situations`): where the user speaks of an
    allergy, where the boat is one that wants a licence, where the visit was called off too late. A look has
    to come before X; what changes something, at any place. What Y is called on may be another object than
    X's. Relevant when X was called in that situation. Arguments: `tool` X, `step` Y, `first` (whether Y has
    to come before), `situation`.
    """

    name = "situational_step"
    norm = 0.9
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Pair every tool that a sentence speaks of with the changes that it mostly goes with."""
        if not corpus.policy.text:
            return []
        proposals: dict[tuple[str, ...], Proposal] = {}
        writes = [one for one in sorted(corpus.mutating & corpus.agent_tools.keys()) if not hands_over(one)]
        for step in sorted(corpus.agent_tools):
            if corpus.agent_tools[step] < MIN_USES or hands_over(step):
                continue
            for place, sentence in _about(corpus.policy, step, step in corpus.reading):
                for tool in writes:
                    if tool != step:
                        one = _proposal(corpus, tool, step, place, sentence)
                        if one is not None:
                            proposals.setdefault(one.subject, one)
        return list(proposals.values())

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for step in calls_in(args["situation"], transcript, args["tool"]):
            at = _made(transcript, step, args["step"], args["first"])
            if at is None:
                when = "before" if args["first"] else "anywhere"
                return lacking(f"{step.tool} was called without {args['step']} {when}", step.index)
            shown += [at, step.index]
        return present(f"{args['step']} goes with {args['tool']}", *shown) if shown else NOT_NEEDED


def _about(policy: PolicyText, tool: str, reads: bool) -> list[tuple[int, str]]:
    """Return the sentences, with their places, that speak of what a tool shows, or of what it does."""
    shows = [word for word in things(tool) if word not in _SAY_NOTHING]
    found = []
    for place, sentence in enumerate(policy.sentences):
        words = sentence.words
        named = bool(shows) and all(
            has_stem(words, word) or any(is_alike(word, one) for one in words) for word in shows
        )
        deed = is_deed(tool, WORD.findall(sentence.text))
        if (named and (reads or deed)) or (deed and not shows) or tool.lower() in sentence.text:
            found.append((place, sentence.text))
    return found


def _proposal(corpus: Corpus, tool: str, beside: str, place: int, sentence: str) -> Proposal | None:
    calls = [(one, step) for one in corpus.transcripts for step in one.own_calls(tool, ok=True)]
    if len({one.trajectory_id for one, _ in calls}) < MIN_USES:
        return None
    first, said = beside in corpus.reading, around(corpus.policy, place)
    situation = situation_of(
        calls,
        lambda one, step: _made(one, step, beside, first) is not None,
        said,
        tool,
        look=beside if first else "",
        now=corpus.now,
    )
    if situation is None or (situation == ALWAYS and not _is_rule(sentence, tool, calls, beside, first)):
        return None
    where = in_words(situation)
    when = "before" if first else "when"
    return Proposal(
        args={"tool": tool, "step": beside, "first": first, "situation": dict(situation)},
        name=f"{title(imperative(beside))} {when} {gerund(tool)}" + (f" {where}" if where else ""),
        description=(
            f"{title(when)} '{spoken(tool)}' is called{f' {where}' if where else ''}, call "
            f"'{spoken(beside)}' as well: '{sentence}'"
        ),
        subject=(tool, beside, *([where] if where else [])),
    )


def _is_rule(
    sentence: str, tool: str, calls: Sequence[tuple[Transcript, Step]], beside: str, first: bool
) -> bool:
    """Tell whether a step without a situation is a rule and no habit: said of the tool, and mostly taken."""
    words = WORD.findall(sentence)
    made = sum(_made(one, step, beside, first) is not None for one, step in calls)
    of_it = is_deed(tool, words) or any(has_stem(words, one) for one in things(tool))
    return of_it and made >= RULE * len(calls)


def _made(one: Transcript, step: Step, beside: str, first: bool) -> int | None:
    """Return the last call of another tool before a call, or anywhere; None without one."""
    own = one.own_calls(beside, ok=True)
    made = [other.index for other in own if not first or other.end < step.index]
    return made[-1] if made else None

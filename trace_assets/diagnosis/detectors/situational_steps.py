"""Steps that were left out: those of some situations alone, and those that go with another step.

The policy speaks of steps that some situations call for: a licence, a late fee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_looks import steps_after
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import (
    ALWAYS,
    Judged,
    around,
    calls_in,
    in_words,
    is_alike,
)
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.verbs import WORD, has_stem, is_deed, spoken, things
from trace_assets.diagnosis.detectors.wording import gerund, imperative, title

MIN_USES = 3
RULE = 0.7
"""Share of all calls that a step must go with where no situation tells which need it."""
_SAY_NOTHING = frozenset(
    {"all", "by", "data", "detail", "details", "for", "from", "id", "info", "information", "list", "name"}
    | {"of", "record", "records", "status", "the", "with"}
)
"""Words of tools' names that tell nothing of what is shown or done."""
MIN_CUSTOM = 6
"""Tasks in which the step is made beside the other one."""
MOSTLY = 0.5
"""Share of the tasks with the other step in which it is made."""
INTERPRETERS = frozenset({"bash", "node", "perl", "python", "python3", "ruby", "rscript", "sh"})
"""Programs that run scripts, which is what policies speak of."""
INSIDE = 0.9
"""Share of the tasks with the step that have the other one too, in that order."""


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
        judge = cache(partial(_judged, corpus))  # a pair of tools is judged once, for all sentences
        for step in sorted(corpus.agent_tools):
            if corpus.agent_tools[step] < MIN_USES or hands_over(step):
                continue
            for place, sentence in _about(corpus.policy, step, step in corpus.reading):
                for tool in writes:
                    if tool != step:
                        one = _proposal(corpus, judge(tool, step), tool, step, place, sentence)
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


def _judged(corpus: Corpus, tool: str, beside: str) -> Judged | None:
    """Return the calls of a tool, and beside which of them another one was made; None where too few are."""
    calls = [(one, step) for one in corpus.transcripts for step in one.own_calls(tool, ok=True)]
    if len({one.trajectory_id for one, _ in calls}) < MIN_USES:
        return None
    first = beside in corpus.reading
    return Judged(
        calls,
        lambda one, step: _made(one, step, beside, first) is not None,
        tool,
        look=beside if first else "",
        now=corpus.now,
    )


def _proposal(
    corpus: Corpus, judged: Judged | None, tool: str, beside: str, place: int, sentence: str
) -> Proposal | None:
    situation = judged.situation(around(corpus.policy, place)) if judged is not None else None
    if judged is None or situation is None or (situation == ALWAYS and not _is_rule(sentence, tool, judged)):
        return None
    first = beside in corpus.reading
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


def _is_rule(sentence: str, tool: str, judged: Judged) -> bool:
    """Tell whether a step without a situation is a rule and no habit: said of the tool, and mostly taken."""
    words = WORD.findall(sentence)
    made = sum(done for *_, done in judged.calls)
    of_it = is_deed(tool, words) or any(has_stem(words, one) for one in things(tool))
    return of_it and made >= RULE * len(judged.calls)


def _made(one: Transcript, step: Step, beside: str, first: bool) -> int | None:
    """Return the last call of another tool before a call, or anywhere; None without one."""
    own = one.own_calls(beside, ok=True)
    made = [other.index for other in own if not first or other.end < step.index]
    return made[-1] if made else None


class CustomaryStep:
    """Step X goes before, or after, Y in most tasks with Y, the policy speaks of X, and it was left out.

    What merely goes with passing (a look at the weather, a scroll) is no duty: the policy must name the deed
    of X, or the page or thing that it is made on. What no run does is taken from the policy alone, where it
    orders X after Y. Y is the rarest step that X always goes with. Relevant when
    Y was called. Arguments: `step` X, `beside` Y, `first` (whether X comes first).
    """

    name = "customary_step"
    norm = 0.9
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Pair every step that the policy speaks of with the one that it goes with."""
        runs: dict[str, set[str]] = {}
        tasks: dict[str, set[str]] = {}
        orders: dict[tuple[str, str], Counter[bool]] = {}
        for one in corpus.transcripts:
            own = {tool: [step for step in steps if _counts(step)] for tool, steps in one.by_tool.items()}
            own = {tool: steps for tool, steps in own.items() if steps}
            for tool, steps in own.items():
                runs.setdefault(tool, set()).add(one.trajectory_id)
                tasks.setdefault(tool, set()).add(one.task_id)
                for other, others in own.items():
                    if other != tool:
                        before = steps[0].index < others[-1].index
                        orders.setdefault((tool, other), Counter())[before] += 1
        proposals = []
        for tool in sorted(runs):
            if len(tasks[tool]) < MIN_CUSTOM or hands_over(tool) or not _is_spoken_of(tool, corpus):
                continue
            best: tuple[int, str, bool] | None = None
            for other in sorted(runs.keys() - {tool}):
                for first, count in orders.get((tool, other), {}).items():
                    inside = count >= INSIDE * len(runs[tool])
                    if not inside or not MOSTLY * len(runs[other]) <= count < len(runs[other]):
                        continue
                    best = min(best or (len(runs[other]), other, first), (len(runs[other]), other, first))
            if best is not None:
                proposals.append(_customary(tool, best[1], best[2]))
        return [*proposals, *_ordered(corpus)]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        beside = [step for step in transcript.calls(args["beside"]) if _counts(step)]
        if not beside:
            return NOT_NEEDED
        made = [step for step in transcript.calls(args["step"]) if _counts(step)]
        right = [
            step
            for step in made
            if (step.index < beside[-1].index if args["first"] else step.index > beside[0].index)
        ]
        if right:
            return present(f"{args['step']} goes with {args['beside']}", right[0].index, beside[-1].index)
        when = "before" if args["first"] else "after"
        return lacking(
            f"no {args['step']} {when} {args['beside']}",
            beside[-1].index,
            beside[-1].index if args["first"] else transcript.last_of_agent(),
        )


def _ordered(corpus: Corpus) -> list[Proposal]:
    """Return the steps that the policy orders after another one and that no run makes."""
    found: dict[tuple[str, ...], Proposal] = {}
    for other in sorted(corpus.mutating & corpus.agent_tools.keys()) if corpus.unmade else ():
        if corpus.agent_tools[other] < MIN_CUSTOM:
            continue
        for one in steps_after(corpus.policy, other, corpus.unmade, corpus.arguments_of(other)):
            for tool in sorted(one.reads):
                proposal = replace(
                    _customary(tool, other, first=False),
                    description=f"After '{spoken(other)}', call '{spoken(tool)}': '{one.sentence}'",
                    never=True,
                )
                found.setdefault(proposal.subject, proposal)
    return list(found.values())


def _counts(step: Any) -> bool:
    """Tell whether the agent made a call, whatever came of it: who runs what fails has run it."""
    return step.answer is not None and not step.by_user


def _is_spoken_of(tool: str, corpus: Corpus) -> bool:
    """Tell whether a sentence of the policy names a deed: its verb and thing, or what it is given."""
    words = spoken(tool).split()
    if tool in INTERPRETERS:
        words = ["running", "script"]
    given = [one for one in _always_given(tool, corpus) if len(one) > 4]
    for sentence in corpus.policy.sentences:
        said = WORD.findall(sentence.text)
        if not things(tool) and is_deed(tool, said):
            return True
        named = [word for word in words if len(word) > 3 and has_stem(said, word)]
        if len(named) == len(words) or len(named) >= 2 or (is_deed(tool, said) and named):
            return True
        if any(has_stem(said, one) for one in given):
            return True
    return False


def _always_given(tool: str, corpus: Corpus) -> set[str]:
    """Return the words that a tool is given in every run: the page or the thing that it is always about."""
    given = [
        {word for value in step.values.values() for word in WORD.findall(str(value).lower())}
        for one in corpus.transcripts
        for step in one.calls(tool)
    ]
    return set.intersection(*given) if given else set()


def _customary(tool: str, other: str, first: bool) -> Proposal:
    when = "before" if first else "after"
    return Proposal(
        args={"step": tool, "beside": other, "first": first},
        name=f"{title(imperative(tool))} {when} {gerund(other)}",
        description=(
            f"The policy speaks of '{spoken(tool)}', and it belongs {when} '{spoken(other)}': do not leave "
            "it out."
        ),
        subject=(tool, other),
    )

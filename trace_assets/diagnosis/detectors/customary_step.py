"""A step that goes with another one, and was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_looks import steps_after
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.verbs import WORD, has_stem, is_deed, things
from trace_assets.diagnosis.detectors.wording import gerund, imperative, spoken, title

MIN_USES = 6
"""Tasks in which the step is made beside the other one."""
MOSTLY = 0.5
"""Share of the tasks with the other step in which it is made."""
INTERPRETERS = frozenset({"bash", "node", "perl", "python", "python3", "ruby", "rscript", "sh"})
"""Programs that run scripts, which is what policies speak of."""
INSIDE = 0.9
"""Share of the tasks with the step that have the other one too, in that order."""


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
            if len(tasks[tool]) < MIN_USES or hands_over(tool) or not _is_spoken_of(tool, corpus):
                continue
            best: tuple[int, str, bool] | None = None
            for other in sorted(runs.keys() - {tool}):
                for first, count in orders.get((tool, other), {}).items():
                    inside = count >= INSIDE * len(runs[tool])
                    if not inside or not MOSTLY * len(runs[other]) <= count < len(runs[other]):
                        continue
                    best = min(best or (len(runs[other]), other, first), (len(runs[other]), other, first))
            if best is not None:
                proposals.append(_proposal(tool, best[1], best[2]))
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
        if corpus.agent_tools[other] < MIN_USES:
            continue
        for one in steps_after(corpus.policy, other, corpus.unmade, corpus.arguments_of(other)):
            for tool in sorted(one.reads):
                proposal = replace(
                    _proposal(tool, other, first=False),
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


def _proposal(tool: str, other: str, first: bool) -> Proposal:
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

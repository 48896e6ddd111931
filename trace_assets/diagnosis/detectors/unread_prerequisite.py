"""A write before which the policy wants something to be looked at, and nobody looked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.policy_looks import looks_before
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.wording import gerund, imperative, spoken, title

MIN_USES = 3


class UnreadPrerequisite:
    """The policy wants one of the tools Y, mostly a look, to be called before the tool X, and none was.

    What is looked at may be another object than the one X is called on (the quota of its project), so any
    successful look before counts; one that no run takes is wanted as well. Relevant when X was called.
    Arguments: `tool` X, `reads` (the tools Y).
    """

    name = "unread_prerequisite"
    norm = 0.0
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every look that the policy wants before a writing tool."""
        proposals: dict[tuple[str, ...], Proposal] = {}
        for tool in sorted(corpus.agent_tools) if corpus.policy.text else []:
            if corpus.agent_tools[tool] < MIN_USES:
                continue
            reads = corpus.reading & corpus.agent_tools.keys() - {tool}
            writes = corpus.mutating & corpus.agent_tools.keys() if tool in corpus.mutating else ()
            given = corpus.arguments_of(tool)
            looks = looks_before(corpus.policy, tool, reads, given, writes)
            if tool in corpus.mutating:  # what nobody ever calls is wanted all the same
                said = {look.sentence for look in looks}
                unmade = looks_before(
                    corpus.policy, tool, corpus.unmade - corpus.unmade_writes, given, corpus.unmade_writes
                )
                looks += [look for look in unmade if look.sentence not in said]
            for look in looks:
                wanted = sorted(look.reads)
                # One look before another is wanted only where the policy calls the tool by its name.
                if tool in corpus.reading and not any(one.lower() in look.sentence for one in wanted):
                    continue
                one = Proposal(
                    args={"tool": tool, "reads": wanted},
                    name=f"{title(imperative(wanted[0]))} before {gerund(tool)}",
                    description=(
                        f"Before '{spoken(tool)}', call '{spoken(wanted[0])}' and act on what it shows: "
                        f"'{look.sentence}'"
                    ),
                    subject=(tool, *wanted),
                    never=corpus.unmade.issuperset(wanted),
                )
                proposals.setdefault(one.subject, one)
        return list(proposals.values())

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        reads = strings(args["reads"])
        looked = [
            step.end
            for step in transcript.steps
            if step.tool in reads and not step.failed and not step.by_user
        ]
        shown: list[int] = []
        for step in transcript.calls(args["tool"], ok=True):
            if step.by_user:
                continue
            before = [at for at in looked if at < step.index]
            if not before:
                return lacking(f"{step.tool} was called without {' or '.join(reads)} before", step.index)
            shown += [before[-1], step.index]
        return present(f"{reads[0]} came before {args['tool']}", *shown) if shown else NOT_NEEDED

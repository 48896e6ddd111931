"""A write that a rule of the policy with several conditions does not allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus, asks_for
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.policy_clauses import Clauses, clauses, is_broken
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import gerund, noun, spoken
from trace_assets.diagnosis.detectors.write_against_rule import (
    argument_of,
    last_seen,
    own_records,
    usual_state,
)

MIN_USES = 3


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

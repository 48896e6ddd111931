"""Calls that fail or bring nothing new, and what the agent makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.shell import program_of
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import imperative


class RepeatedError:
    """The agent repeats a failed call with the same arguments, having changed nothing in between.

    Relevant when one of the agent's calls failed. No arguments.
    """

    name = "repeated_error"
    norm = 0.6
    mistake: Mistake = "repetition"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when there are failed calls at all."""
        if not any(step.failed for one in corpus.transcripts for step in one.steps):
            return []
        return [
            Proposal(
                args={},
                name="Change a call that failed before making it again",
                description=(
                    "When a tool refuses a call, read why, and correct the arguments, find out more or tell "
                    "the user; do not send the same call again."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        failed: dict[tuple[str, str], int] = {}
        first: int | None = None
        for step in transcript.steps:
            if step.by_user:
                continue
            key = (step.tool, repr(sorted(step.arguments.items(), key=str)))
            if step.failed:
                first = step.end if first is None else first
                if key in failed:
                    return lacking(
                        f"{step.tool} failed and was called again unchanged", failed[key], step.index
                    )
                failed[key] = step.end
            elif step.objects or step.arguments:
                # Something was learned or changed: the same call may now succeed.
                failed = {known: at for known, at in failed.items() if known[0] == step.tool and known != key}
        return NOT_NEEDED if first is None else present("no failed call was repeated unchanged", first)


MIN_FAILURES = 3


class UnrecoveredError:
    """A call of the tool failed, and no later call of it by the agent succeeded.

    Of a tool that runs programs each program counts by itself: red tests are not mended by listing files.
    Relevant when a call of it failed. Arguments: `tool` (empty for any tool), and `program` of such a tool;
    of what runs tests `edits`: an edit answers red tests, and that nobody ran them after it is another lack.
    """

    name = "unrecovered_error"
    norm = 0.6
    mistake: Mistake = "unhandled_error"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every tool that failed in several trajectories, and all of them together."""
        failures = Counter[tuple[str, str]]()
        for one in corpus.transcripts:
            failed = [step for step in one.steps if step.failed and not step.by_user]
            tools = {(step.tool, "") for step in failed}
            failures.update(tools | {(step.tool, program_of(step.arguments)) for step in failed})
        known = sorted(
            (tool, program)
            for (tool, program), count in failures.items()
            if count >= MIN_FAILURES and not (program and tool in corpus.tests)  # tests are one deed
        )
        return [self._proposal(*pair, corpus) for pair in ([("", ""), *known] if known else [])]

    def _proposal(self, tool: str, program: str, corpus: Corpus) -> Proposal:
        if tool in corpus.tests:
            return Proposal(
                args={"tool": tool, "edits": corpus.edits},
                name="Mend what makes tests fail before ending",
                description=(
                    "When tests fail, mend the cause and run them again until they pass, before saying that "
                    "it is done or ending."
                ),
                subject=(tool,),
            )
        what = f"a refused attempt to {imperative(tool)}" if tool else "a refused call"
        if program:
            what = f"a failure of {program}"
            return Proposal(
                args={"tool": tool, "program": program},
                name=f"Recover from {what}",
                description=(
                    f"When {program} reports a failure, mend its cause and run it again until it succeeds, "
                    "before going on to the end."
                ),
                subject=(tool, program),
            )
        return Proposal(
            args={"tool": tool},
            name=f"Recover from {what}",
            description=(
                f"When {'the tool ' + spoken(tool) if tool else 'a tool'} refuses a call, use its message "
                "to get the arguments right and bring the call to success."
            ),
            subject=(tool or "any",),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        steps = transcript.calls(args["tool"]) if args["tool"] else transcript.steps
        if program := args.get("program"):
            steps = [step for step in steps if program_of(step.arguments) == program]
        edits = set(strings(args.get("edits", ())))
        steps = sorted(
            [*steps, *(step for step in transcript.steps if step.tool in edits)], key=lambda step: step.index
        )
        open_errors: dict[str, int] = {}
        answered: dict[str, int] = {}
        seen: list[int] = []
        for step in steps:
            if step.by_user:
                continue
            if step.tool in edits:
                if not step.failed:
                    answered |= open_errors
                    open_errors.clear()
            elif step.failed:
                open_errors.setdefault(step.tool, step.end)
            elif step.tool in open_errors or step.tool in answered:
                seen += [(answered | open_errors)[step.tool], step.end]
                open_errors.pop(step.tool, None)
                answered.pop(step.tool, None)
        if open_errors:
            return lacking(
                f"{', '.join(open_errors)} failed and never succeeded afterwards", *open_errors.values()
            )
        return present("after each failure the tool was called successfully", *seen) if seen else NOT_NEEDED


LIMIT = 3


class IdleLoop:
    """The agent makes one call `limit` times with the same answer, and nothing is changed in between.

    Relevant when the agent made at least `limit` calls. Arguments: `limit`, `writes` (tools that change
    something: looking again after one of them is no loop).
    """

    name = "idle_loop"
    norm = 0.8
    mistake: Mistake = "repetition"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance."""
        return [
            Proposal(
                args={"limit": LIMIT, "writes": sorted(corpus.mutating)},
                name="Move on when a call brings nothing new",
                description=(
                    "Do not make the same call again and again when its answer does not change: use what it "
                    "said, try something else, or tell the user."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        limit, writes = int(args["limit"]), set(strings(args["writes"]))
        own = [step.index for step in transcript.steps if not step.by_user]
        if len(own) < limit:
            return NOT_NEEDED
        made: dict[tuple[str, str, str], list[int]] = {}
        for step in transcript.steps:
            if step.tool in writes and not step.failed:
                made = {}
            elif not step.by_user:
                key = (step.tool, repr(sorted(step.arguments.items(), key=str)), step.result)
                places = made.setdefault(key, [])
                places.append(step.index)
                if len(places) >= limit:
                    return lacking(f"{step.tool} was called {limit} times with the same answer", *places)
        return present("no call was made over and over", own[-1])

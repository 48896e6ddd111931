"""Results that say no, fail or bring nothing new, and what the agent makes of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.shell import program_of
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import imperative

# English only: in other languages an admission is not understood, so that nothing is proposed (`_ADMITS`).
_ADMITS = re.compile(
    r"\b(?:could not|couldn't|cannot|can't|can not|was not|wasn't|were not|weren't|is not|isn't|not possible|"
    r"unable|refus\w+|reject\w+|fail\w*|error\w*|declin\w+|unsuccessful\w*|did not|didn't|no longer|blocked|"
    r"not (?:allowed|accepted|posted|booked|sent|done|available|permitted|found)|unfortunately|problem|"
    r"went wrong|locked|closed|denied|apolog\w+|sorry)\b"
)


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


class RefusalUntold:
    """A change on a known object was refused and never succeeded, and no later word of the agent says so.

    Known is what a result or the user had named: who mistypes a name has refused nothing. Relevant when
    such a change was refused. Arguments: `writes` (the writing tools).
    """

    name = "refusal_untold"
    norm = 0.7
    mistake: Mistake = "unhandled_error"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where some change was refused."""
        writes = sorted(corpus.mutating & corpus.agent_tools.keys())
        if not any(_refused(one, set(writes)) for one in corpus.transcripts):
            return []
        return [
            Proposal(
                args={"writes": writes},
                name="Own up to a change that was refused",
                description=(
                    "When a change is refused, bring it to success or say at the end that it was not made; "
                    "never report it as done with the others."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes = set(strings(args["writes"]))
        refused = _refused(transcript, writes)
        for step in refused:
            about = step.objects
            mended = any(
                one.tool in writes and not one.failed and one.index > step.index and about & one.objects
                for one in transcript.steps
            )
            if not mended and not _admitted(transcript, step.end):
                return lacking(f"{step.tool} was refused, and nobody was told", step.end)
        if refused:
            return present("what was refused was mended or told", *(step.end for step in refused[:4]))
        return NOT_NEEDED


def _refused(one: Transcript, writes: set[str]) -> list[Step]:
    found = []
    for step in one.steps:
        if step.failed and step.answer is not None and step.tool in writes and not step.by_user:
            known = any(
                name in one.lowered[at]
                for name in step.objects
                for at in range(step.index)
                if _is_source(one, at)
            )
            found += [step] if known else []
    return found


def _is_source(one: Transcript, at: int) -> bool:
    return one.messages[at].role in ("user", "tool")


def _admitted(one: Transcript, after: int) -> bool:
    return any(
        message.role == "assistant" and _ADMITS.search(one.lowered[at]) is not None
        for at, message in enumerate(one.messages)
        if at > after
    )


_EMPTY = re.compile(
    r"\A\s*(?:\[\s*\]|\{\s*\}|null|none|no (?:results?|matches|rows|records|hits|pages?)\b.*)\s*\Z|"
    r"\(0 rows\)|\b0 (?:results?|matches|hits|rows? returned|pages? match\w*|records?|entries)\b|"
    r"\"(?:count|total|total_count|num_results|hits|n|matches)\": ?0\b(?!\.)|"
    r"\"(?:results?|items|data|records|rows|hits|matches|entries|documents)\": ?\[\s*\]",
    re.IGNORECASE,
)
"""What a look answers that found nothing."""
MIN_EMPTY = 2
"""Runs in which a look must have found nothing."""


class EmptyResultBelieved:
    """The agent's last look found nothing, and it ended on that without looking in another way.

    A name may be spelled otherwise, a value called otherwise, a filter too narrow. Relevant when a look found
    nothing; PRESENT when a later call brought something. No arguments.
    """

    name = "empty_result_believed"
    norm = 0.7
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where several looks found nothing."""
        if sum(any(map(_is_empty, one.steps)) for one in corpus.transcripts) < MIN_EMPTY:
            return []
        return [
            Proposal(
                args={},
                name="Look in another way before believing that there is nothing",
                description=(
                    "When a look finds nothing, try another spelling, list the values that there are, or "
                    "widen the filter, before concluding that it does not exist."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        own = [step for step in transcript.steps if not step.by_user]
        empty = [step for step in own if _is_empty(step)]
        if not empty:
            return NOT_NEEDED
        if own[-1] is empty[-1]:
            return lacking(
                f"the last look ({own[-1].tool}) found nothing, and that was believed", own[-1].end
            )
        return present("after a look that found nothing another one was taken", empty[0].end, own[-1].index)


def _is_empty(step: Step) -> bool:
    return not step.failed and step.answer is not None and _EMPTY.search(step.result[:2000]) is not None

"""A write on an object that was not looked up first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import gerund, look, noun, spoken, title

MIN_USES = 3


class WriteWithoutRead:
    """The writing tool X is called on an object before the reading tool Y was called on the same object.

    Relevant when X was called, or when the user asked for what X does (a cue word) and Y was called: looking
    first and then rightly not writing exercises the capability too.
    Arguments: `tool` X, `read` Y, `argument` of X that names the object, `cues`.
    """

    name = "write_without_read"
    norm = 0.7
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Pair each writing tool with the reads that are made of the same kind of object."""
        proposals = []
        for tool, argument in corpus.object_writes(MIN_USES):
            reads: dict[str, int] = {}
            for one in corpus.transcripts:
                for name in {normal(step.given.get(argument)) for step in one.calls(tool)}:
                    for read in {s.tool for s in one.steps if name in s.objects and s.tool in corpus.reading}:
                        reads[read] = reads.get(read, 0) + 1
            for read in sorted(read for read, count in reads.items() if count >= MIN_USES):
                thing = noun(argument)
                proposals.append(
                    Proposal(
                        args={"tool": tool, "read": read, "argument": argument, "cues": corpus.cues(tool)},
                        name=f"{title(look(read, thing))} before {gerund(tool)}",
                        description=(
                            f"Before changing anything with '{spoken(tool)}', look at the same {thing} with "
                            f"'{spoken(read)}', so that what is done rests on how it really stands."
                        ),
                        subject=(tool, read),
                    )
                )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        reads = [step for step in transcript.calls(args["read"]) if not step.failed and not step.by_user]
        shown: list[int] = []
        for step in transcript.calls(args["tool"]):
            if step.by_user:
                continue
            name = normal(step.given.get(args["argument"]))
            before = [read.index for read in reads if read.end < step.index and name in read.objects]
            if not before:
                return lacking(f"{step.tool} was called on {name} without {args['read']} before", step.index)
            shown += [before[-1], step.index]
        if shown:
            return present(f"{args['read']} came before each {args['tool']}", *shown)
        asked = transcript.cue(args.get("cues"))
        about = transcript.asked_about(args.get("cues")) if asked is not None else None
        looked = [step.index for step in reads if about is None or about & step.objects]
        if asked is not None and looked:
            return present(f"asked for, looked up, and {args['tool']} was not called", asked, looked[0])
        return NOT_NEEDED

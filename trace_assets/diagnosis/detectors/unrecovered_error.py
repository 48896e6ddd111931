"""A tool that refused, and was never called successfully afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import program_of
from trace_assets.diagnosis.detectors.wording import imperative, spoken

MIN_FAILURES = 3


class UnrecoveredError:
    """A call of the tool failed, and no later call of it by the agent succeeded.

    Of a tool that runs programs each program counts by itself: red tests are not mended by listing files.
    Relevant when a call of it failed. Arguments: `tool` (empty for any tool), and `program` of such a tool.
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
        known = sorted(pair for pair, count in failures.items() if count >= MIN_FAILURES)
        return [self._proposal(*pair) for pair in ([("", ""), *known] if known else [])]

    def _proposal(self, tool: str, program: str) -> Proposal:
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
        open_errors: dict[str, int] = {}
        seen: list[int] = []
        for step in steps:
            if step.by_user:
                continue
            if step.failed:
                open_errors.setdefault(step.tool, step.end)
            elif step.tool in open_errors:
                seen += [open_errors.pop(step.tool), step.end]
        if open_errors:
            return lacking(
                f"{', '.join(open_errors)} failed and never succeeded afterwards", *open_errors.values()
            )
        return present("after each failure the tool was called successfully", *seen) if seen else NOT_NEEDED

"""A tool that refused, and was never called successfully afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import imperative, spoken

MIN_FAILURES = 3


class UnrecoveredError:
    """A call of the tool failed, and no later call of it by the agent succeeded.

    Relevant when a call of it failed. Arguments: `tool` (empty for any tool).
    """

    name = "unrecovered_error"
    norm = 0.6
    mistake: Mistake = "unhandled_error"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every tool that failed in several trajectories, and all of them together."""
        failures: dict[str, int] = {}
        for one in corpus.transcripts:
            for tool in {step.tool for step in one.steps if step.failed and not step.by_user}:
                failures[tool] = failures.get(tool, 0) + 1
        tools = [tool for tool, count in sorted(failures.items()) if count >= MIN_FAILURES]
        return [self._proposal(tool) for tool in (["", *tools] if tools else [])]

    def _proposal(self, tool: str) -> Proposal:
        what = f"a refused attempt to {imperative(tool)}" if tool else "a refused call"
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

"""An argument value that neither the user said nor any result showed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.wording import gerund, spoken

MIN_USES = 4
MIN_VALUES = 3
"""Distinct values below which an argument is an enumeration, whose values come from the tool's schema."""


class UnsupportedArgument:
    """A value of an argument occurs in no earlier message of user, system or tool: it was made up.

    Relevant when the argument was given. Arguments: `argument` (dotted path), `tool` (empty for any tool).
    """

    name = "unsupported_argument"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose each argument over all tools, and alone for each writing tool."""
        values: dict[tuple[str, str], set[str]] = {}
        uses: dict[tuple[str, str], int] = {}
        for one in corpus.transcripts:
            for step in one.steps:
                for path, value in leaves(step.arguments):
                    text = _checkable(value)
                    if text is None or step.by_user:
                        continue
                    for tool in ("", step.tool) if step.tool in corpus.mutating else ("",):
                        values.setdefault((path, tool), set()).add(text)
                        uses[path, tool] = uses.get((path, tool), 0) + 1
        proposals = []
        for (path, tool), seen in sorted(values.items()):
            if len(seen) < MIN_VALUES or uses[path, tool] < MIN_USES:
                continue
            what = spoken(path.rpartition(".")[2])
            where = f" when {gerund(tool)}" if tool else ""
            proposals.append(
                Proposal(
                    args={"argument": path, "tool": tool},
                    name=f"Take the {what} from what was said or seen{where}",
                    description=(
                        f"Every '{what}' given to {'the tool ' + spoken(tool) if tool else 'a tool'} must "
                        "come from the user or from an earlier result; ask or look it up rather than guess."
                    ),
                    subject=(path, tool or "any"),
                )
            )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        steps = transcript.calls(args["tool"]) if args["tool"] else transcript.steps
        given: list[int] = []
        for step in steps:
            if step.by_user:
                continue
            for path, value in leaves(step.arguments):
                text = _checkable(value) if path == args["argument"] else None
                if text is None:
                    continue
                if not _supported(transcript, text, step.index):
                    return lacking(f"{step.tool} was given {path}={text}, which nobody had said", step.index)
                given.append(step.index)
        return present(f"every {args['argument']} had been said or seen", *given[:4]) if given else NOT_NEEDED


def _checkable(value: object) -> str | None:
    """Return the text to look for; None for flags, long phrases and small numbers."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return text if len(text) >= 2 else None
    text = str(value).lower().lstrip("#").strip()
    return text if 2 <= len(text) <= 40 and text.count(" ") <= 2 else None


def _supported(transcript: Transcript, text: str, before: int) -> bool:
    return any(
        text in transcript.lowered[index]
        for index in range(before)
        if transcript.messages[index].role != "assistant"
    )

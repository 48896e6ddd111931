"""A turn in which the agent neither speaks nor acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript


class EmptyTurn:
    """An assistant message has neither text nor a tool call. Relevant in every trajectory; no arguments."""

    name = "empty_turn"
    norm = 0.9
    mistake: Mistake = "malformed_turn"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when it occurs."""
        if not any(self.label(one, {}).label == "LACKING" for one in corpus.transcripts):
            return []
        return [
            Proposal(
                args={},
                name="Say something or call a tool in every turn",
                description="Never send an empty message: each turn is text for the user or a tool call.",
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        turns = [index for index, message in enumerate(transcript.messages) if message.role == "assistant"]
        for index in turns:
            message = transcript.messages[index]
            if not message.tool_calls and not (message.content or "").strip():
                return lacking("the agent sent an empty message", index)
        return present("no message was empty", turns[-1]) if turns else NOT_NEEDED

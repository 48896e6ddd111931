"""What a model labeller was shown of a trajectory: how much, and what was withheld or shortened."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class ShownTranscript(Record):
    """Row of the table `shown_transcripts`: nothing is cut from a transcript without being counted here."""

    table: ClassVar[str] = "shown_transcripts"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)

    trajectory_id: str
    rule: str
    """Compaction rule that was applied; `whole` when nothing was shortened."""
    n_messages: int
    """Messages in the trajectory."""
    n_shown: int
    """Messages that were shown, shortened ones among them; evidence may cite only these."""
    n_shortened: int
    """Messages shown with their middle left out."""
    n_withheld: int
    """Messages withheld, or with words struck out, because they may give the outcome away."""
    n_left_out: int
    """Messages left out because the transcript was too long."""
    tokens: int
    """Estimated tokens of what was shown."""
    view_hash: str
    """Hash of the text that was shown."""

"""A judge whose answers are on record."""

from __future__ import annotations

from pathlib import Path

from trace_assets.resources.analysts import JudgeDesk, open_judge
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study

RECORDINGS = Path(__file__).parent / "recordings"


def recorded_judge(file: str, home: Path) -> JudgeDesk | None:
    """Return the judge that answers from a recording, and asks nobody.

    Args:
        file: Name of the recording.
        home: Folder of a home for what it spends.
    """
    given = ["synthesis.judge=strong-general-model", f"writer.recording={RECORDINGS / file}"]
    return open_judge(Study(Home.open(home), load_settings(None, given)), "cap", "environment_audit")

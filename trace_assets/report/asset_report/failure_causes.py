"""Why runs failed, counted: by party and capability, and one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from trace_assets.records import FailureCause
from trace_assets.report.asset_report.rollouts import Exhibit, Row

MOST_CAUSES = 50
"""Failures that a page of an asset shows one by one."""
SURE = {"high": 0, "medium": 1, "low": 2}


def causes_exhibit(causes: Sequence[FailureCause], names: Mapping[str, str]) -> Exhibit:
    """Show how many failures each party and each lack caused, and the surest of them one by one."""
    if not causes:
        return Exhibit()
    counts = Counter((row.target, row.party, row.capability or "") for row in causes)
    counted: list[Row] = [
        {"target": target, "party": party, "capability": names.get(lack, lack), "failures": n}
        for (target, party, lack), n in sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item))
    ]
    return Exhibit(tables={"why runs failed": counted, "failed runs": cause_rows(causes, MOST_CAUSES)})


def cause_rows(causes: Sequence[FailureCause], most: int) -> list[Row]:
    """Return failures one by one, by target and then the surest first."""
    ordered = sorted(causes, key=lambda row: (row.target, SURE[row.confidence], row.trajectory_id))
    return [
        {
            "target": row.target,
            "run": row.trajectory_id,
            "party": row.party,
            "message": row.decisive_message,
            "cause": row.words,
            "confidence": row.confidence,
            "repaired": "" if row.repaired is None else "yes" if row.repaired else "no",
        }
        for row in ordered[:most]
    ]

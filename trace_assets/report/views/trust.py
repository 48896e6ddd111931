"""The section on how far the diagnosis may be trusted: faults, leaks, agreement, stability."""

from __future__ import annotations

from typing import Any

from trace_assets.diagnosis.fault_shares import fault_shares
from trace_assets.report.data import ReportData
from trace_assets.report.views.evidence import capability_anchor

MOST_FAULTS = 20
"""Failures of others than the agent that are told one by one, for each target."""
CHANNELS = {
    "opening": "the user's opening",
    "replies": "what the user says later",
    "closing": "the closing words",
    "results": "what tools answer",
    "shape": "length and shape",
    "withheld": "what redaction took away",
}


def trust_view(data: ReportData) -> dict[str, Any]:
    """Return tables that are there, each figure with its interval and n; empty ones are left out."""
    decided = {row.capability_id for row in data.selected}
    return {
        "faults": [_faults(data, target) for target in sorted({row.target for row in data.triage})],
        "leaks": [
            {"row": row, "channel": CHANNELS.get(row.channel, row.channel)}
            for row in sorted(data.leaks, key=lambda row: (row.target, not row.judged, row.channel))
        ],
        "agreement": [
            {
                "row": row,
                "name": data.names.get(row.capability_id, row.capability_id),
                "href": _link(row.target, row.capability_id, decided),
            }
            for row in sorted(data.agreement, key=lambda row: (row.target, row.capability_id, row.between))
        ],
        "stability": [
            {"row": row, "href": _link(row.target, row.capability_id, decided)}
            for row in sorted(data.stability, key=lambda row: (row.target, -row.kept, row.name))
        ],
        "nulls": [
            next(row for row in data.stability if row.target == target)
            for target in sorted({row.target for row in data.stability})
        ],
    }


def _link(target: str, capability: str, decided: set[str]) -> str:
    return f"#{capability_anchor(target, capability)}" if capability in decided else ""


def _faults(data: ReportData, target: str) -> dict[str, Any]:
    own = [row for row in data.triage if row.target == target]
    others = [row for row in own if row.outcome != "passed" and row.fault != "agent"]
    return {
        "target": target,
        "n": sum(row.outcome != "passed" for row in own),
        "shares": [share for share in fault_shares(own) if share["n"]],
        "others": others[:MOST_FAULTS],
        "n_more": max(0, len(others) - MOST_FAULTS),
    }

"""The section with the evidence: from a candidate to the very messages that show it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from trace_assets.records import MessageRow
from trace_assets.report.data import ReportData, Sample
from trace_assets.report.views.deficits import anchor

MOST_CHARACTERS = 600
MOST_TURNS = 24
"""Longer transcripts show beginning, end and what is around the evidence; the gaps are counted."""


def evidence_view(data: ReportData) -> list[dict[str, Any]]:
    """Return candidates that have samples, kept ones first."""
    samples: dict[str, list[Sample]] = defaultdict(list)
    for sample in data.samples:
        samples[sample.label.capability_id].append(sample)
    capabilities = {row.capability_id: row for row in data.capabilities}
    contrasts = {row.capability_id: row for row in data.contrasts}
    shown = []
    for one in sorted(data.selected, key=lambda row: (not row.kept, row.target, row.rank)):
        capability, contrast = capabilities.get(one.capability_id), contrasts.get(one.capability_id)
        if not samples[one.capability_id] or capability is None:
            continue
        shown.append(
            {
                "anchor": anchor(one.target, one.capability_id),
                "name": one.name,
                "kept": one.kept,
                "description": capability.description,
                "analyst": capability.analyst,
                "detector": capability.detector,
                "n_proposals": capability.n_proposals,
                "n_lacking": contrast.n_failed_lacking if contrast else 0,
                "n_failed": sum(s.triage.outcome == "failed" for s in samples[one.capability_id]),
                "n_passed": sum(s.triage.outcome == "passed" for s in samples[one.capability_id]),
                "samples": [_sample(sample) for sample in samples[one.capability_id]],
            }
        )
    return shown


def _sample(sample: Sample) -> dict[str, Any]:
    label = sample.label
    return {
        "failed": sample.triage.outcome == "failed",
        "label": label.label.lower(),
        "trajectory_id": label.trajectory_id,
        "task_id": sample.triage.task_id,
        "rationale": label.rationale,
        "turns": transcript(sample.messages, label.evidence),
    }


def transcript(messages: Sequence[MessageRow], evidence: Sequence[int]) -> list[dict[str, Any]]:
    """Return the turns to show, evidence always among them; left-out turns are counted."""
    indices = [message.index for message in messages]
    if len(messages) <= MOST_TURNS:
        keep = set(indices)
    else:
        keep = {*indices[:4], *indices[-3:]}
        for index in sorted(evidence):
            around = {place for place in range(index - 2, index + 3) if place in set(indices)}
            if len(keep | around) > 2 * MOST_TURNS:
                around = {index}
            keep |= around
    turns: list[dict[str, Any]] = []
    skipped = 0
    for message in messages:
        if message.index not in keep:
            skipped += 1
            continue
        if skipped:
            turns.append({"skipped": skipped})
            skipped = 0
        turns.append(_turn(message, message.index in evidence))
    if skipped:
        turns.append({"skipped": skipped})
    return turns


def _turn(message: MessageRow, shows: bool) -> dict[str, Any]:
    text = (message.content or "").strip()
    who = {"assistant": "agent", "tool": f"tool {message.tool_name or ''}".strip()}.get(
        message.role, message.role
    )
    calls = [
        f"{call.name}({json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)})"
        for call in message.tool_calls
    ]
    return {
        "index": message.index,
        "who": who,
        "text": text[:MOST_CHARACTERS],
        "cut": max(0, len(text) - MOST_CHARACTERS),
        "calls": calls,
        "shows": shows,
        "error": message.is_error,
    }

"""The section with the evidence: from a candidate to the very messages that show it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from zlib import crc32

from trace_assets.records import Capability, Contrast, SelectedCapability
from trace_assets.report.data import ReportData
from trace_assets.report.samples import Sample
from trace_assets.report.views.transcript import message_anchor, transcript

MOST_LINKED = 6
"""Labelled messages of one transcript that its first line links to."""


def capability_anchor(target: str, capability: str) -> str:
    """Return the id of a capability's evidence on the page; two capabilities never share one.

    >>> capability_anchor("a", "b_c") == capability_anchor("a", "b-c")
    False
    """
    plain = "".join(one if one.isascii() and one.isalnum() else "-" for one in capability)[:60]
    return f"c-{plain}-{crc32(f'{target}/{capability}'.encode()):08x}"


def evidence_view(data: ReportData) -> list[dict[str, Any]]:
    """Return all candidates that were decided on, kept ones first, each with its transcripts."""
    samples = _by_capability(data)
    capabilities = {row.capability_id: row for row in data.capabilities}
    contrasts = {row.capability_id: row for row in data.contrasts}
    several = len({row.target for row in data.selected}) > 1
    return [
        _candidate(
            one,
            capabilities.get(one.capability_id),
            contrasts.get(one.capability_id),
            samples[one.capability_id],
            list(data.also_lacking.get(one.capability_id, ())),
            several,
        )
        for one in sorted(data.selected, key=lambda row: (not row.kept, row.target, row.rank))
    ]


def evidence_links(data: ReportData) -> dict[str, list[dict[str, Any]]]:
    """Return for each capability the first labelled message of each of its transcripts, in groups."""
    targets = {row.capability_id: row.target for row in data.selected}
    links: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for capability, samples in _by_capability(data).items():
        if capability not in targets:
            continue
        anchor = capability_anchor(targets[capability], capability)
        groups: dict[str, list[dict[str, str]]] = defaultdict(list)
        for place, sample in enumerate(samples, 1):
            shown = _shown_evidence(sample)
            own = f"{anchor}-{place}"
            outcome = "failures" if sample.triage.outcome == "failed" else "successes"
            group = groups[f"{outcome} {'lacking' if sample.label.label == 'LACKING' else 'showing'} it"]
            group.append(
                {
                    "href": message_anchor(own, shown[0]) if shown else own,
                    "number": str(len(group) + 1),
                    "title": sample.label.trajectory_id,
                }
            )
        links[capability] = [{"words": words, "links": group} for words, group in groups.items()]
    return links


def _by_capability(data: ReportData) -> defaultdict[str, list[Sample]]:
    samples: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in data.samples:
        samples[sample.label.capability_id].append(sample)
    return samples


def _candidate(
    one: SelectedCapability,
    capability: Capability | None,
    contrast: Contrast | None,
    samples: list[Sample],
    named: list[str],
    several: bool,
) -> dict[str, Any]:
    anchor = capability_anchor(one.target, one.capability_id)
    shown = [_sample(sample, f"{anchor}-{place}") for place, sample in enumerate(samples, 1)]
    failures = sum(sample.triage.outcome == "failed" for sample in samples)
    n_lacking = contrast.n_failed_lacking if contrast else 0
    return {
        "anchor": anchor,
        "capability_id": one.capability_id,
        "name": one.name,
        "target": one.target if several else "",
        "kept": one.kept,
        "reason": one.reason,
        "description": capability.description if capability else "",
        "analyst": capability.analyst if capability else "",
        "detector": capability.detector if capability else None,
        "n_proposals": capability.n_proposals if capability else 0,
        "c": contrast,
        "n_lacking": n_lacking,
        "n_showing": contrast.n_passed_relevant - contrast.n_passed_lacking if contrast else 0,
        "n_against": contrast.n_passed_lacking if contrast else 0,
        "n_failures_shown": failures,
        "named": named,
        "n_unnamed": max(0, n_lacking - failures - len(named)),
        "samples": shown,
    }


def _sample(sample: Sample, anchor: str) -> dict[str, Any]:
    label = sample.label
    shown = _shown_evidence(sample)
    return {
        "anchor": anchor,
        "failed": sample.triage.outcome == "failed",
        "label": label.label.lower(),
        "trajectory_id": label.trajectory_id,
        "task_id": sample.triage.task_id,
        "rationale": label.rationale,
        "labeller": label.labeller,
        "links": [{"index": index, "href": message_anchor(anchor, index)} for index in shown[:MOST_LINKED]],
        "n_more": max(0, len(set(label.evidence)) - MOST_LINKED),
        "turns": transcript(sample.messages, label.evidence, anchor),
    }


def _shown_evidence(sample: Sample) -> list[int]:
    return [
        turn["index"]
        for turn in transcript(sample.messages, sample.label.evidence)
        if turn.get("shows", False)
    ]

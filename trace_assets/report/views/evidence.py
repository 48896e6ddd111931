"""The section with the evidence: from a candidate to the very messages that show it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any
from zlib import crc32

from trace_assets.records import Capability, Contrast, MessageRow, SelectedCapability, ToolCall
from trace_assets.report import formatting
from trace_assets.report.data import ReportData, Sample

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
        "decision": formatting.decision(one.verdict, one.kept),
        "reason": one.reason.removeprefix(f"{one.verdict}: "),
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


# A conversation as the page shows it: the labelled messages with what is around them, bounded in size.


MOST_CHARACTERS = 600
"""Of a message, of a tool's answer and of a call's arguments; what is left out is counted."""
MOST_CHARACTERS_SHOWN = 2_400
"""The same for a message that led to the label."""
MOST_TURNS = 24
"""Longer transcripts show beginning, end and what is around the evidence; the gaps are counted."""
MOST_EVIDENCE = 40
"""Labelled messages of one transcript that are sought out; the first ones."""


def transcript(
    messages: Sequence[MessageRow], evidence: Sequence[int], anchor: str = ""
) -> list[dict[str, Any]]:
    """Return the turns to show, evidence always among them; left-out turns are counted.

    Args:
        messages: Of one trajectory, in order.
        evidence: Indices of the messages that led to the label.
        anchor: What the ids of labelled messages begin with.
    """
    indices = [message.index for message in messages]
    labelled = sorted(set(evidence) & set(indices))[:MOST_EVIDENCE]
    if len(messages) <= MOST_TURNS:
        keep = set(indices)
    else:
        keep = {*indices[:4], *indices[-3:]}
        for index in labelled:
            around = {place for place in range(index - 2, index + 3) if place in set(indices)}
            if len(keep | around) > 2 * MOST_TURNS:
                around = {index}
            keep |= around
    turns: list[dict[str, Any]] = []
    skipped: list[int] = []
    for message in messages:
        if message.index not in keep:
            skipped.append(message.index)
            continue
        _tell_gap(turns, skipped, evidence)
        turns.append(_turn(message, message.index in evidence, anchor))
    _tell_gap(turns, skipped, evidence)
    return turns


def message_anchor(anchor: str, index: int) -> str:
    """Return the id of a labelled message on the page."""
    return f"{anchor}-m{index}"


def _tell_gap(turns: list[dict[str, Any]], skipped: list[int], evidence: Collection[int]) -> None:
    if skipped:
        labelled = sum(index in evidence for index in skipped)
        turns.append({"skipped": len(skipped), "labelled": labelled})
        skipped.clear()


def _turn(message: MessageRow, shows: bool, anchor: str, most: int = 0) -> dict[str, Any]:
    most = most or (MOST_CHARACTERS_SHOWN if shows else MOST_CHARACTERS)
    text = (message.content or "").strip()
    if message.role == "tool":
        text = _laid_out(text)
    return {
        "index": message.index,
        "anchor": message_anchor(anchor, message.index) if shows else "",
        "who": _who(message),
        "text": text[:most],
        "cut": max(0, len(text) - most),
        "tool": message.role == "tool",
        "calls": [_call(call, most) for call in message.tool_calls],
        "shows": shows,
        "why": "shows it" if shows else "",
        "error": message.is_error,
    }


def whole_turn(message: MessageRow, why: str) -> dict[str, Any]:
    """Return a message as it is, marked where there is a reason to."""
    whole = len(message.content or "") + sum(len(str(call.arguments)) for call in message.tool_calls) * 8
    turn = _turn(message, bool(why), "", most=2 * whole + 1_000)
    return {**turn, "anchor": f"m{message.index}", "why": why}


def _who(message: MessageRow) -> str:
    if message.role == "tool":
        whose = " for the user" if message.requestor == "user" else ""
        return f"tool {message.tool_name or ''}".strip() + whose
    return "agent" if message.role == "assistant" else message.role


def _laid_out(text: str) -> str:
    """Return a JSON answer with a line for each part, and any other as it is.

    >>> print(_laid_out('{"id": 7, "tags": ["a"], "at": {"x": 1}}'))
    id: 7
    tags: ["a"]
    at: {"x": 1}
    >>> _laid_out('[1, 2]'), _laid_out('not found: {'), _laid_out('{}')
    ('[1, 2]', 'not found: {', '{}')
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict) and value:
        return "\n".join(f"{key}: {_short(part)}" for key, part in value.items())
    if isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        return "\n".join(_short(part) for part in value)
    return text


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _call(call: ToolCall, most: int) -> dict[str, Any]:
    """Return a call by its name and arguments, a value each, all of them bounded together."""
    arguments, left, cut = [], most, 0
    for name, value in call.arguments.items():
        text = json.dumps(value, ensure_ascii=False)
        arguments.append({"name": name[:80], "value": text[:left]})
        cut += max(0, len(text) - left)
        left -= min(len(text), left)
        if left <= 0:
            cut += sum(len(str(one)) for one in list(call.arguments.values())[len(arguments) :])
            break
    return {"name": call.name[:200], "arguments": arguments, "cut": cut}

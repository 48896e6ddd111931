"""What a store holds after `trace diagnose`, in a few records."""

from __future__ import annotations

import random

from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.selection import select
from trace_assets.records import (
    Capability,
    Label,
    MessageRow,
    ToolCall,
    Triage,
)
from trace_assets.report.data import ReportData, Sample
from trace_assets.settings import ContrastSection, Selection

SKILLS = ("cancel", "multi", "window", "address", "exchange", "status")
NAMES = {
    "cancel": "Looks up an order before cancelling it",
    "multi": "Finishes every request of a message <b>&</b> 'both'",
    "window": "Refuses a refund when the window is closed",
    "polite": "Ends with a farewell",
    "rare": "Repeats a failed call with other arguments",
}
LONG = 9 * "|a_long_name_without_spaces"
SOLVED = {"cancel": 0.35, "multi": 0.3, "window": 0.5, "address": 0.95, "exchange": 0.92, "status": 0.97}


def _talk(trajectory: str, capability: str) -> tuple[MessageRow, ...]:
    call = ToolCall(
        id="1", name="cancel_order", arguments={"order": "7731", "why": "<script>alert(1)</script>"}
    )
    turns = [
        {"role": "user", "content": "Please cancel order 7731 and send 7732 to Lisbon. </style><img src=x>"},
        {"role": "assistant", "content": "", "tool_calls": (call,)},
        {"role": "tool", "content": '{"error": "shipped"}', "tool_name": "cancel_order", "is_error": True},
        {"role": "assistant", "content": "Done. " + 90 * "It is cancelled. "},
    ]
    return tuple(MessageRow(trajectory_id=trajectory, index=i, **turn) for i, turn in enumerate(turns))


def diagnosed_study() -> ReportData:
    """A store after `trace diagnose`."""
    rng = random.Random(0)
    triage, labels = [], []
    for i in range(400):
        skill = SKILLS[i % 6]
        passed = rng.random() < SOLVED[skill]
        fault = None if passed else rng.choices(("agent", "user_simulator", "infrastructure"), (20, 2, 1))[0]
        name = f"r{i:03}"
        triage.append(
            Triage.model_validate(
                {
                    "trajectory_id": name,
                    "target": "embedded",
                    "task_id": f"embedded/{i // 2:03}{LONG}",
                    "outcome": "passed" if passed else "unjudged" if fault == "infrastructure" else "failed",
                    "fault": fault,
                    "rule": "test",
                }
            )
        )
        for capability in NAMES:
            lacks = rng.random() < (0.1 if passed else 0.85)
            if capability == "polite":
                value = "LACKING" if rng.random() < 0.3 else "PRESENT"
            elif capability == "rare":
                value = "LACKING" if skill == "cancel" and not passed and rng.random() < 0.3 else "NA"
            else:
                value = "NA" if skill != capability else "LACKING" if lacks else "PRESENT"
            labels.append(
                Label.model_validate(
                    {
                        "trajectory_id": name,
                        "capability_id": capability,
                        "labeller": "detectors",
                        "label": value,
                        "evidence": (1, 2) if value == "LACKING" else (),
                        "rationale": "cancel_order without get_order" if value == "LACKING" else "",
                    }
                )
            )
    contrasts = contrast(labels, triage, ContrastSection(resamples=300, permutations=300), "embedded")
    capabilities = [
        Capability(
            capability_id=one,
            target="embedded",
            name=name,
            description=f"In tasks that need it, the agent {name.lower()}.",
            analyst="detectors",
            detector="write_without_read",
            n_proposals=40,
        )
        for one, name in NAMES.items()
    ]
    selected = select(contrasts, capabilities, labels, triage, Selection())
    outcome = {row.trajectory_id: row for row in triage}
    samples = [
        Sample(label, outcome[label.trajectory_id], _talk(label.trajectory_id, label.capability_id))
        for capability in NAMES
        for label in [one for one in labels if one.capability_id == capability and one.label == "LACKING"][:3]
    ]
    return ReportData(
        triage=triage, capabilities=capabilities, contrasts=contrasts, selected=selected, samples=samples
    )

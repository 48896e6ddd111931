"""One trajectory as an HTML page: every message whole, those that show a lack marked, and why it failed."""

from __future__ import annotations

from typing import Any

from trace_assets.diagnosis.expected.diffs import in_words
from trace_assets.report.one_trajectory import OneTrajectory
from trace_assets.report.page import styles, templates, with_labels
from trace_assets.report.views.evidence import whole_turn
from trace_assets.untrusted.printable import printable


def render_trajectory(one: OneTrajectory) -> str:
    """Return the page as one HTML document without a script; data are escaped."""
    head, decisive = one.head, one.cause.decisive_message if one.cause else None
    outcome = "not judged" if head.success is None else "passed" if head.success else "failed"
    page = (
        templates()
        .get_template("trajectory.html.jinja")
        .render(
            styles=styles(),
            head=head,
            outcome=outcome,
            tone={"passed": "good", "failed": "bad"}.get(outcome, "warn"),
            failed=outcome == "failed",
            instruction=one.instruction,
            cause=one.cause,
            decisive=decisive,
            lucky=one.lucky,
            suspects=one.suspects,
            diffs=[{"kind": row.kind, "words": in_words(row), "message": row.message} for row in one.diffs],
            labels=[_label(one, number) for number in range(len(one.labels))],
            turns=_turns(one, decisive),
        )
    )
    return printable(with_labels(page))


def _label(one: OneTrajectory, number: int) -> dict[str, Any]:
    row = one.labels[number]
    return {**row.model_dump(mode="json"), "name": one.names.get(row.capability_id, row.capability_id)}


def _turns(one: OneTrajectory, decisive: int | None) -> list[dict[str, Any]]:
    turns = []
    for message in one.messages:
        lacks = [one.names.get(name, name) for name in one.lacks_at.get(message.index, ())]
        why = [*(["decisive"] if message.index == decisive else []), *(f"lacks: {name}" for name in lacks)]
        turns.append(whole_turn(message, " · ".join(why)))
    return turns

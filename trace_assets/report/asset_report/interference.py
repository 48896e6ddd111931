"""What policy gradients say of capabilities that would act together: cosines, with what they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.records import Interference, InterferencePart
from trace_assets.report import formatting
from trace_assets.report.asset_report.rollouts import Exhibit, Row
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.plots import Dot, interval_dots

MOST = 24
"""Comparisons in the plot: those between two capabilities first, then the most opposed conditions."""


def interference_exhibit(
    pairs: Sequence[Interference], parts: Sequence[InterferencePart], names: Mapping[str, str]
) -> Exhibit:
    """Show the cosine of every two capabilities and conditions, and how reliable each direction is.

    Args:
        pairs: Comparisons and verdicts.
        parts: The directions.
        names: Capability id to name.
    """
    known = [row for row in pairs if row.cosine is not None]
    shown = sorted(known, key=lambda row: (bool(row.condition), row.cosine or 0.0))[:MOST]
    dots = [
        Dot(
            label=_label(row, names),
            value=row.cosine or 0.0,
            low=row.cosine_low or 0.0,
            high=row.cosine_high or 0.0,
            text=_cosine(row),
            note=f"reliability {row.reliability:.2f}",
            tone="other" if row.verdict == "opposed" else "strong" if not row.condition else "",
        )
        for row in shown
    ]
    pages = {}
    if dots:
        plot = interval_dots(
            dots, title="Cosine of policy gradients at the base policy", reference=0.0, low=-1.0, high=1.0
        )
        pages["who pulls which way"] = (
            f"{svg_markdown(plot, 'interference')}\n\n1: a step for one is a step for the other; 0: they act "
            "apart and can be added up; -1: a step for one undoes the other. 95 % bootstrap intervals over "
            f"groups; {len(shown)} of {len(known)} comparisons."
        )
    table: list[Row] = [
        {
            "one": _side(row.capability_id, row.condition, names),
            "other": _side(row.other_id, row.other_condition, names),
            "cosine": _cosine(row),
            "without noise": formatting.share(row.corrected),
            "reliability": formatting.share(row.reliability),
            "verdict": row.verdict,
        }
        for row in sorted(pairs, key=lambda row: bool(row.condition))
    ]
    rests: list[Row] = [
        {
            "capability": names.get(row.capability_id, row.capability_id),
            "its solution calls": row.condition,
            "base pass rate": formatting.percent(row.pass_rate),
            "groups": row.n_groups,
            "with a gradient": row.live_groups,
            "rollouts": row.n_rollouts,
            "split half": formatting.share(row.split_half),
            "reliability": formatting.share(row.reliability),
        }
        for row in parts
    ]
    return Exhibit(pages, {"interference": table, "directions": rests})


def _side(capability: str, condition: str, names: Mapping[str, str]) -> str:
    name = names.get(capability, capability)
    return f"{name}: {condition}" if condition else name


def _label(row: Interference, names: Mapping[str, str]) -> str:
    one = _side(row.capability_id, row.condition, names)
    return f"{one} and {_side(row.other_id, row.other_condition, names)}"


def _cosine(row: Interference) -> str:
    return formatting.share(row.cosine, row.cosine_low, row.cosine_high)

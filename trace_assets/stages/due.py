"""What is due for reasons that Dagster cannot see."""

from __future__ import annotations

from trace_assets.stages.permutations import lost_permutations
from trace_assets.store.locks import due_items
from trace_assets.study import Study


def marked_items(study: Study) -> dict[tuple[str, str], str]:
    """Return (asset, partition) to why it is due: marks in the home, and audits whose seeds are lost."""
    return lost_permutations(study) | due_items(study.home)

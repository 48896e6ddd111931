"""The job of all assets, of which every run takes some: pages call such a run by what it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import dagster as dg


def asset_job(definitions: dg.Definitions) -> dg.JobDefinition:
    """Return the job of all assets of some definitions, to be executed in this process.

    It is resolved once for the definitions; `dg.materialize` would resolve everything for each run. For each
    run Dagster then makes a job of the assets that it takes, twice, and describes both and the whole for its
    history: as much work as most items are. Here the next run of the same assets finds them made.
    """
    job: Any = definitions.resolve_implicit_global_asset_job_def()
    if hasattr(job, "as_ephemeral_job") and "as_ephemeral_job" not in vars(job):
        job.as_ephemeral_job = _Parts(job)
    return cast(dg.JobDefinition, job)


class _Parts:
    """The parts of a job, by the assets that they make."""

    def __init__(self, job: Any) -> None:
        self._whole = type(job).as_ephemeral_job(job, {}, {})
        self._made: dict[frozenset[dg.AssetKey], Any] = {}

    def __call__(
        self,
        resource_defs: Mapping[str, Any],
        input_values: Mapping[str, object],
        op_selection: Sequence[str] | None = None,
        asset_selection: Sequence[dg.AssetKey] | None = None,
    ) -> Any:
        """Return the part that makes some assets; the arguments are those of Dagster's method."""
        if resource_defs or input_values or op_selection or not asset_selection:
            raise TypeError("a run of this job takes assets, and nothing else that would be kept with it")
        chosen = frozenset(asset_selection)
        if chosen not in self._made:
            part = self._whole.get_subset(asset_selection=chosen)
            again = part.get_subset(asset_selection=chosen)  # what Dagster records is a part of the part
            part.get_subset = lambda **_: again
            self._made[chosen] = part
        return self._made[chosen]

"""What is trained: the verdicts on environments, and the list of those that are taught."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class EnvironmentVerdict(Record):
    """Row of the table `environment_verdicts`: the outcome of an audit, without its findings.

    A firewall: an audit with more checks, or in another sandbox, trains nothing anew unless a verdict flips.
    """

    table: ClassVar[str] = "environment_verdicts"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    capability_id: str
    """The capability that the environment teaches."""
    environment_id: str
    """Hash of the source that was audited; empty when no environment was written."""
    accepted: bool
    """Whether no required check failed."""
    reasons: tuple[str, ...] = ()
    """Names of the checks that rejected it, with what they say."""
    overridden_by: str = ""
    """Why it is trained on all the same, as `training.accept_rejected` says; empty otherwise."""

    @property
    def trained_on(self) -> bool:
        """Whether training may use it: accepted, or rejected and overridden."""
        return self.accepted or bool(self.overridden_by)


class Lesson(Record):
    """Row of the table `curriculum`: a kept capability whose environment is trained on.

    A firewall: a selection whose wording or figures changed, and which keeps the same capabilities, trains
    and plays nothing anew.
    """

    table: ClassVar[str] = "curriculum"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    capability_id: str
    """The capability that is taught."""

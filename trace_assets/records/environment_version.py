"""A version of a generated environment: what was written in one round, and why it was not the last."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record


class FailedCheck(Record):
    """One reason why a version was not accepted."""

    check_id: str
    """Id of the audit's check; `trace.reply` where there was nothing to audit."""
    severity: Literal["error", "warning", "info"]
    evidence: str
    bound: str = ""


class EnvironmentVersion(Record):
    """Row of the table `environment_versions`: one round of writing and mending."""

    table: ClassVar[str] = "environment_versions"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "round")

    capability_id: str
    round: int
    """0 is the first draft, each further one mends what the audit found in the one before."""
    environment_id: str
    """Hash of the source; empty where the reply held no module."""
    source: str
    """The module as it was written; empty where the reply held none."""
    writer: str
    """`recipe:<name>` or `model:<name>`."""
    prompt_version: str = ""
    """Version of the prompts and of the code that fills them; empty for recipes."""
    question: str = ""
    """Hash of the question that was asked: equal questions are answered from memory."""
    reply: Literal["module", "refusal", "empty", "cut", "no_code"] = "module"
    """What the model's reply was."""
    remark: str = ""
    """The words of a reply without a module, shortened."""
    prompt_tokens: int = 0
    """Of all requests of the round, when they were made."""
    completion_tokens: int = 0
    failed: tuple[FailedCheck, ...] = ()
    """What the repair audit held against it."""
    n_passed: int = 0
    """Checks that passed."""
    audited: str = ""
    """What it was audited with: versions of audit, contract and sandbox; empty where it was not."""
    isolation_level: str = ""
    accepted: bool = False
    """Whether the repair audit had nothing against it."""
    kept: bool = False
    """Whether this is the version in the table `environments`."""
    outcome: str = ""
    """On the last row: why the writing ended."""
    excerpts: str = ""
    """The transcripts that the model was shown, kept so that later labels do not change the question."""
    excerpts_of: str = ""
    """Hash of the capability's words and of the settings that chose the excerpts."""

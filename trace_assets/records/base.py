"""What every record shares: immutable, no unknown fields, JSON columns marked as such."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from trace_assets.described import Described
from trace_assets.untrusted.json_text import DEEPEST, is_deep


class JsonColumn:
    """Marks a field that Parquet and SQL hold as JSON text (its shape is not ours to fix)."""


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    if is_deep(value):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return value


Json = Annotated[dict[str, Any], AfterValidator(_shallow), JsonColumn()]
"""A free-form object: a `dict` in Python, JSON text with its keys in their order in Parquet and SQL."""

Int64 = Annotated[int, Field(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number from outside that goes into a column, which holds 64 bits."""

Split = Literal["discovery", "validation", "test"]
"""Which tasks may be looked at when: diagnosis and training see only `discovery`."""


class Record(Described):
    """Base of all records. A record type that is stored is the schema of its table.

    Attributes:
        table: Name of the Parquet table and SQL view, empty for records that are never stored alone.
        key: Columns that identify a row; tables are sorted by them.
        volatile: Columns that differ between two equal runs (times); left out of content versions.
        restored_by: The command that makes a lost table again; empty for history, which nothing makes again.
    """

    # Most commands validate few of the records or none.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    table: ClassVar[str] = ""
    key: ClassVar[tuple[str, ...]] = ()
    volatile: ClassVar[frozenset[str]] = frozenset()
    restored_by: ClassVar[str] = "trace sync"

    def part(self, record: type[Record]) -> dict[str, Any]:
        """Return the values of the fields that another record type has, to make one of it."""
        return {name: getattr(self, name) for name in record.model_fields}


# What each column of a table means, in one sentence: for Dagster's pages and for SQL.


GLOSSARY = {
    "analyst": "Who proposed the candidate: `detectors`, or `model:<name>`.",
    "arm": "Who played: `base`, `routed`, `composed`, `sum`, `mixed_grpo`, `adapter:<name>` and others.",
    "asset": "Asset that was materialized.",
    "base_id": "Content hash of the base model.",
    "capability_id": "The capability, by target, detector and instance.",
    "clip_ratio": "Share of tokens whose probability ratio was clipped.",
    "completion_tokens": "Tokens that the policy wrote; null when not counted.",
    "content": "The text of the message; null when it only calls tools.",
    "cost_usd": "Money spent, in US dollars.",
    "description": "What the capability is, in words.",
    "detail": "The reason in words, with the figures.",
    "detector": "Detector family that labels it; null when a model does.",
    "detector_args": "The detector's instance: tools, argument, field, value.",
    "domain_policy": "The domain's rules as the source records them beside its transcripts.",
    "entropy": "Mean entropy of the policy over its tokens, in nats.",
    "environment_id": "Content hash of the environment's source.",
    "evidence": "What shows it.",
    "expected_actions": "The ground truth's calls, in order.",
    "expected_outputs": "What the agent should tell the user.",
    "fault": "To whom the failure is put down; null where nothing broke.",
    "fingerprint": "Content hash.",
    "gap": "Contrastive gap, ER- minus ER+.",
    "gap_sd": "Standard deviation of the gap over the resamples.",
    "has_expected": "Whether the source says what should be done.",
    "id": "Name of the thing among its kind.",
    "input_id": "Name of what it was made from.",
    "input_version": "Content version of what it was made from.",
    "isolation_level": "Sandbox that ran it: `docker`, `bubblewrap` or `none` (the unsafe subprocess).",
    "iteration": "Number of the training iteration, from 0.",
    "iterations": "Training iterations run.",
    "kept": "Whether it gets an environment and an adapter.",
    "kind": "What sort of thing this row is.",
    "label": "The label: NA, PRESENT or LACKING.",
    "learning_rate": "Learning rate of the iteration.",
    "level": "Family of the check.",
    "loss": "Policy loss of the iteration.",
    "n": "Episodes, tasks or rows behind the figure.",
    "n_coders": "Labels, or labellers, behind the figure.",
    "n_failed": "Failed trajectories put down to the agent.",
    "n_failed_lacking": "Failed trajectories that lack the capability.",
    "n_failed_relevant": "Failed trajectories whose task needs the capability: LACKING or PRESENT.",
    "n_faults": "Trials that broke; they count in no rate.",
    "n_messages": "Messages in the trajectory.",
    "n_not_repairable": "Failed runs for which nobody can say what to put right.",
    "n_not_replayable": "Failed runs whose calls, played again, do not give the recorded reward.",
    "n_now": "Trajectories of the latest batch behind the figure.",
    "n_pair_tasks": "Tasks with passed and failed trials behind the paired figure.",
    "n_passed": "Passed trajectories.",
    "n_passed_lacking": "Passed trajectories that lack the capability.",
    "n_passed_relevant": "Passed trajectories whose task needs the capability: LACKING or PRESENT.",
    "n_resamples": "Resamples behind the figures.",
    "n_shuffles": "Shuffles of the outcomes behind the figures.",
    "n_strong": "Trials behind it under the stronger policy.",
    "n_tasks": "Tasks behind the figure: the bootstrap resamples these.",
    "n_trials": "Judged trials behind the rate.",
    "n_varying_tasks": "Tasks whose trials differ in the label as well, behind the varying gap.",
    "name": "Its name, for people.",
    "other_adapter": "Pass rate with the adapter on tasks of other skills.",
    "other_base": "Pass rate of the base model on tasks of other skills.",
    "other_delta": "Adapter minus base on tasks of other skills, paired by task.",
    "outcome": "`passed`, `failed` or `unjudged`.",
    "own_adapter": "Pass rate with the adapter on tasks of its own skills.",
    "own_base": "Pass rate of the base model on tasks of the adapter's own skills.",
    "own_delta": "Adapter minus base on tasks of its own skills, paired by task.",
    "p_lacking": "Probability of LACKING.",
    "p_na": "Probability of NA.",
    "p_present": "Probability of PRESENT.",
    "p_value": "Permutation p value of the gap.",
    "parameters": "Number of weights.",
    "partition": "Partition key; empty for an asset without partitions.",
    "pass_rate": "Share of judged trials that passed.",
    "prompt_tokens": "Tokens that the policy was shown; null when not counted.",
    "q_value": "Benjamini-Hochberg q value over the target's candidates.",
    "quantity": "How much, in `unit`.",
    "quarantined_at": "When the file was put aside, UTC.",
    "rationale": "Why the label was given, in words.",
    "recorded_at": "When it was recorded, UTC.",
    "reference_rate": "Mean pass rate under the choice it is compared with.",
    "reward": "What the episode earned; null when it was not judged, never 0 instead.",
    "reward_mean": "Mean reward of the iteration's rollouts.",
    "reward_std": "Standard deviation of the iteration's rewards.",
    "role": "Who speaks: system, user, assistant or tool.",
    "router": "Which router: `classifier` or `label_logits`.",
    "run_id": "Dagster run that did it.",
    "sandbox_version": "Version of the sandbox that ran it.",
    "score": "What the check gave, where it gives more than yes or no.",
    "seconds": "Wall time in seconds.",
    "seed": "Seed of the trial.",
    "split": "`discovery`, `validation` or `test`.",
    "stage": "Stage of the pipeline.",
    "status": "`pass`, `fail` or `skip`.",
    "steps": "Optimizer steps.",
    "stop": "Why the conversation ended.",
    "strong": "The stronger policy.",
    "strong_rate": "LACKING / (LACKING + PRESENT) under the stronger policy: mean over shared tasks.",
    "success": "Whether it passed; null when a fault kept it from being judged.",
    "success_rate": "Share of the iteration's rollouts that passed.",
    "taken_at": "When the file was taken in, UTC.",
    "target": "Environment that the task lives in.",
    "task_batch": "Partition in which the task arrived.",
    "task_id": "The task.",
    "tool": "Tool that was called, or should have been.",
    "tool_calls": "Tools called by the message, with their arguments.",
    "trajectory_id": "The trajectory.",
    "trial": "Number of the trial on its task, from 0.",
    "unanimous": "Whether all labels agree.",
    "unit": "Unit of `quantity`.",
    "validation_after": "Pass rate on held-out seeds after training.",
    "validation_before": "Pass rate on held-out seeds before training.",
    "validation_n": "Held-out episodes behind the validation rate.",
    "value": "The measured figure.",
    "version": "Content version.",
    "weak": "The weaker policy.",
}
"""Columns that mean the same wherever they occur; a field's own docstring comes before them."""


def describe_columns(record: type[Record]) -> dict[str, str]:
    """Return a sentence for every column of a table that has one.

    It is the docstring of the record's field; else, for `x_low` and `x_high`, that they bound `x`; else what
    the project means by that name everywhere.

    >>> from trace_assets.records import Contrast
    >>> describe_columns(Contrast)["gap_low"]
    'Lower end of the 95 % interval of `gap`.'
    """
    return {
        name: text
        for name, field in record.model_fields.items()
        if (text := field.description or _bound(name, record) or GLOSSARY.get(name, ""))
    }


def _bound(name: str, record: type[Record]) -> str:
    stem, _, side = name.rpartition("_")
    if side not in ("low", "high") or stem not in record.model_fields:
        return ""
    return f"{'Lower' if side == 'low' else 'Upper'} end of the 95 % interval of `{stem}`."

"""The ground truth beside what was done: differences, and tasks whose ground truth is doubtful."""

from trace_assets.diagnosis.expected.diffs import action_diffs, differences

__all__ = ["action_diffs", "differences"]

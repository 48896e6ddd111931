"""Rules that put a failure down to somebody: a small named rule each, with the messages that show it."""

from trace_assets.diagnosis.attribution.case import Case, Rule, Ruling

__all__ = ["Case", "Rule", "Ruling"]

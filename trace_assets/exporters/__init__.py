"""Stored trajectories, written in the forms that other programs read."""

from trace_assets.exporters.registry import EXPORTERS, Exported, export

__all__ = ["EXPORTERS", "Exported", "export"]

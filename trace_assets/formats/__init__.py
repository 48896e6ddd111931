"""Other programs' logs, read into tasks and trajectories."""

from trace_assets.formats.problem import Problem
from trace_assets.formats.registry import Imported, Importer, read_trajectories

__all__ = ["Imported", "Importer", "Problem", "read_trajectories"]

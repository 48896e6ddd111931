"""The leak meter: can the outcome be told from what a labeller was shown beside the agent's own behaviour?"""

from trace_assets.diagnosis.leak.meter import JUDGED, measure_leak

__all__ = ["JUDGED", "measure_leak"]

"""Attacks on the sandbox, played for real: on the machine of whoever relies on it."""

from trace_assets.sandbox.selftest.attack import Attack, Played, load_attacks
from trace_assets.sandbox.selftest.runner import run_battery

__all__ = ["Attack", "Played", "load_attacks", "run_battery"]

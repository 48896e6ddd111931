"""Traces of spans - what observability tools export - as trajectories."""

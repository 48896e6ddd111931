"""The Dagster graph: one file a stage, each asset a stage of the library plus its place in the graph."""

"""The pipeline's stages: each reads tables of a study, calls one room of the library, and writes tables.

They know nothing of Dagster: an asset is a stage plus its place in the graph.
"""

"""OpenEnv servers as targets: a module for an interpreter that has openenv-core."""

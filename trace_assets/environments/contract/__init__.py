"""What a generated environment is held to, read off the target and its discovery trajectories."""

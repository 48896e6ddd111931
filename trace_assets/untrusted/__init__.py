"""What comes from outside: read within bounds, and shown so that it is text and nothing else."""

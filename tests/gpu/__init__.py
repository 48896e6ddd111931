"""What only a GPU shows: `python -m tests.gpu` measures it part by part and writes a table (docs/gpu.md)."""

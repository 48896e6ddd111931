"""Models behind HTTP: vLLM as one process group, adapters by the hash of their content."""

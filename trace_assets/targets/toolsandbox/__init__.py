"""ToolSandbox, live: modules that run where the user installed it, and nothing of its code."""

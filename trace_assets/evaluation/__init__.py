"""What each arm achieves on tasks that nothing was tuned on, and what it costs elsewhere."""

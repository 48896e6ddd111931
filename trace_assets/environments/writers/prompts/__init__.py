"""What the model that writes environments is told: one Markdown file a prompt."""

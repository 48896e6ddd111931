"""What models are told: one Markdown file a prompt, part of the data version of what is made with it."""

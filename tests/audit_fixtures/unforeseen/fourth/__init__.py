"""Sound environments of unforeseen kinds, and edits of them that pay for what they should not."""

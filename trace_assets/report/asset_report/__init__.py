"""What each stage shows of its result: plots as Markdown, small tables as rows; intervals and n on each."""

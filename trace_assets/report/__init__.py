"""What was found, made, gained and spent: tables for the terminal and one HTML page."""

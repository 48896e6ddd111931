"""What each section of the page shows, as plain values for its template."""

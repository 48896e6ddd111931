"""Pure statistics on numpy arrays: no records, no files, every formula with its source."""

"""The embedded target: an order desk, generated procedurally, that needs no network and no data files."""

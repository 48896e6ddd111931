"""TRACE as a declarative pipeline: find what an agent cannot do, teach it, route to what was taught."""

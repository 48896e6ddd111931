"""From a capability to a training environment: the target's contract, writers, and the audit."""

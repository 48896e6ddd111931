"""One environment in the forms that other trainers take: TRL, OpenEnv, verifiers."""

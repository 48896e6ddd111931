"""What is said when a recipe cannot be filled: what is missing, and how to mend it."""

from __future__ import annotations

from trace_assets.environments.contract.description import TargetContract
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec


def thin(spec: CapabilitySpec, what: str) -> InputError:
    """Return the error for a contract that shows too little, with what would mend it."""
    return InputError(
        f"the recipe '{spec.detector}' cannot be filled for capability '{spec.capability_id}': {what}; "
        "roll out more discovery tasks, let a model write it (synthesis.writer), or leave the capability out."
    )


def argument(spec: CapabilitySpec, name: str) -> str:
    """Return a text among a capability's detector arguments.

    Raises:
        InputError: It is not there.
    """
    value = spec.detector_args.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(
            f"capability '{spec.capability_id}' has no '{name}' among its detector's arguments "
            f"({sorted(spec.detector_args)}): its recipe cannot be filled; diagnose again."
        )
    return value


def one_message(spec: CapabilitySpec, contract: TargetContract) -> InputError:
    """Return the error for a recipe that needs users who answer."""
    return InputError(
        f"the recipe '{spec.detector}' cannot be filled for capability '{spec.capability_id}': users of "
        f"'{contract.target}' send one message and never answer; leave the capability out, or bring "
        f"trajectories in which users answer."
    )

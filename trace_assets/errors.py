"""The failures a person is told about: each is one sentence and one exit code."""

from __future__ import annotations

import warnings

from trace_assets.untrusted.printable import printable


class TraceError(Exception):
    """A failure with a message made for the person at the terminal.

    The message says what went wrong, where, and how to mend it. The command line prints it without
    a traceback and exits with `exit_code`.
    """

    exit_code: int = 3

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class InputError(TraceError):
    """The user's file, configuration, row or argument is not usable (exit code 2)."""

    exit_code = 2


class CheckFailed(TraceError):
    """The work ran, and a check that guards what comes next did not pass (exit code 1)."""

    exit_code = 1


class Unavailable(TraceError):
    """A service or optional package that the work needs is not there (exit code 3)."""

    exit_code = 3


class UserFault(TraceError):
    """The simulated user of an episode failed: not the agent's doing (exit code 1)."""

    exit_code = 1


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Fail with the install command when an optional package is missing.

    Args:
        module: Import name to look for, such as `torch`.
        extra: Extra of this project that brings it, such as `train`.
        purpose: What the package was needed for, to complete "... needs".

    Raises:
        Unavailable: The module cannot be found.
    """
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise Unavailable(
            f"{purpose} needs the package '{module}', which is not installed: run `{install_command(extra)}`."
        )


def install_command(extra: str) -> str:
    """Return what installs an extra beside this very copy: from the checkout or file that it came from.

    Args:
        extra: Extras of this project, such as `train` or `train,serve`.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution("trace-assets").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e '{url.removeprefix('file://')}[{extra}]'"
    return f"pip install 'trace-assets[{extra}] @ {url}'" if url else f"pip install 'trace-assets[{extra}]'"


def plain_warnings() -> None:
    """Print warnings as one line for a person, without the place in the code that they came from."""
    warnings.formatwarning = lambda message, *_, **__: f"trace: {message}\n"

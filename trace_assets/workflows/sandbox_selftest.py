"""The attack battery on this machine's sandbox: played, stored, and judged for the sandbox that is in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trace_assets.assets.asset import StageCheck
from trace_assets.records import SandboxCheck
from trace_assets.resources.sandbox import sandbox_config
from trace_assets.study import Study

if TYPE_CHECKING:
    from trace_assets.sandbox.selftest.attack import Played

CHECK = "sandbox_battery"
COMMAND = "trace doctor --sandbox"
_SHOWN = 5


@dataclass(frozen=True)
class Present:
    """The sandbox that the settings name, on this machine, now.

    Attributes:
        version: Its version; empty where it cannot be had.
        isolation_level: Its isolation; empty likewise.
        problem: Why it cannot be had.
    """

    version: str = ""
    isolation_level: str = ""
    problem: str = ""


def present_sandbox(study: Study) -> Present:
    """Look at which sandbox would be used."""
    import warnings

    from trace_assets.sandbox import SandboxUnavailable
    from trace_assets.sandbox.pool import make_backend

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            backend = make_backend(sandbox_config(study))
    except SandboxUnavailable as error:
        return Present(problem=str(error))
    backend.close()
    return Present(backend.version, backend.isolation_level)


def check_sandbox(study: Study, *, listen: Callable[[Played], None] = lambda _: None) -> list[SandboxCheck]:
    """Play the battery in the sandbox that the settings name, and store what came of it.

    Args:
        study: Whose settings and tables.
        listen: Told of each attack as it ends.

    Returns:
        One row an attack, by family.

    Raises:
        SandboxUnavailable: There is no sandbox.
    """
    from trace_assets.sandbox.selftest.runner import run_battery

    played, version, isolation = run_battery(sandbox_config(study), listen=listen)
    now = datetime.now(UTC)
    rows = []
    for one in played:
        fields = {name: value for name, value in asdict(one).items() if name not in ("name", "group")}
        rows.append(
            SandboxCheck(
                attack=one.name,
                family=one.group,
                isolation_level=isolation,
                sandbox_version=version,
                checked_at=now,
                **fields,
            )
        )
    study.store.write(rows, SandboxCheck, isolation)
    return rows


def judge_battery(rows: Sequence[SandboxCheck], present: Present) -> StageCheck:
    """Say what stored rows are worth for the sandbox in use: nothing, when it is another one."""
    if not rows:
        return StageCheck(CHECK, None, f"the sandbox was never attacked here: run `{COMMAND}`.")
    if not present.version:
        detail = f"whether it is stale cannot be told, for no sandbox is to be had: {present.problem}"
        return StageCheck(CHECK, None, detail)
    own = [row for row in rows if row.isolation_level == present.isolation_level]
    current = [row for row in own if row.sandbox_version == present.version]
    if not current:
        tried = max(own or rows, key=lambda row: row.checked_at)
        return StageCheck(
            CHECK,
            None,
            f"stale: the battery of {tried.checked_at:%Y-%m-%d} attacked {tried.isolation_level} sandbox "
            f"{tried.sandbox_version}, and {present.isolation_level} sandbox {present.version} is in use: "
            f"run `{COMMAND}` again.",
        )
    return StageCheck(CHECK, *_verdict(current))


def _verdict(rows: Sequence[SandboxCheck]) -> tuple[bool, str]:
    counts, failed = Counter(row.status for row in rows), [row for row in rows if row.status == "fail"]
    which = f"{rows[0].isolation_level} sandbox {rows[0].sandbox_version}"
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    if not failed and counts["pass"]:
        return True, f"{which} held {counts['pass']} attacks of {len(rows)}{skipped}."
    named = ", ".join(row.attack for row in failed[:_SHOWN])
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    return False, f"{which} did not hold {len(failed)} attacks of {len(rows)}{skipped}: {named}{more}."

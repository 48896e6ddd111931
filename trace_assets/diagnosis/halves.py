"""Sample splitting: candidates from one half of the tasks, the contrast on the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from trace_assets.records import Capability, Triage


def in_first_half(task_id: str) -> bool:
    """Whether candidates are proposed from this task when tasks are split: it never changes for a task.

    >>> 400 < sum(in_first_half(f"retail/{n}") for n in range(1000)) < 600
    True
    """
    return crc32(f"half/{task_id}".encode()) % 2 == 0


def estimation_share(triage: Iterable[Triage], capabilities: Sequence[Capability]) -> list[Triage]:
    """Return the outcomes that the contrast may use: those of tasks that proposed nothing.

    Cox (1975), "A note on data-dependent choice of hypotheses", Biometrika 62:441: what was picked by a look
    at some data is tested on others, so p-values hold whatever picked it.

    Args:
        triage: Outcomes of one target.
        capabilities: Its candidates; all outcomes are returned unless they come from one half of the tasks.
    """
    if not any(one.discovered_on == "half" for one in capabilities):
        return list(triage)
    return [row for row in triage if not in_first_half(row.task_id)]


def considered_tests(capabilities: Sequence[Capability]) -> int:
    """Return how many tests the q values of one target are corrected for, at least.

    Proposals that were made blind count whether or not they were picked; candidates of a model count by
    themselves, since nobody knows what it passed over. On another half of the tasks the picked ones suffice.

    >>> made = Capability(capability_id="a", target="t", name="a", description="", analyst="detectors",
    ...                   n_considered=30)
    >>> considered_tests([made, made.model_copy(update={"n_considered": None})])
    31
    >>> considered_tests([made.model_copy(update={"discovered_on": "half"})])
    0
    """
    if any(one.discovered_on == "half" for one in capabilities):
        return 0
    blind = [one.n_considered for one in capabilities if one.n_considered is not None]
    return max(blind, default=0) + len(capabilities) - len(blind)

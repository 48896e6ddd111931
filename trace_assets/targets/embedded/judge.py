"""The verdict on an episode at the order desk: computed from state, calls and the reply's words."""

from __future__ import annotations

import re

from trace_assets.records import Check, Verdict
from trace_assets.targets.embedded.case import Case
from trace_assets.targets.embedded.desk import STATUSES, Desk
from trace_assets.targets.embedded.rules import resolutions

BAD_CALL_COST = 0.05


def _says(reply: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", reply, re.IGNORECASE) is not None


def judge(case: Case, desk: Desk, reply: str) -> Verdict:
    """Judge an episode at its end.

    Four checks a request (the order was looked up first, it is as it must be, it was transferred exactly
    when it had to be, the reply says the outcome) and one that nothing else was touched. Success is all of
    them; the reward is `.5 * share passed + .5 * success - .05 * refused calls`, clipped to [0, 1].

    Args:
        case: What was asked.
        desk: The desk after the agent's last call.
        reply: The agent's final text; empty when it never gave one.
    """
    checks: list[Check] = []
    todo = resolutions(case)
    status_words = {resolution.word for resolution in todo} & set(STATUSES)
    for resolution in todo:
        number = resolution.request.order
        read = number in desk.reads and number not in desk.touched_unread
        checks.append(
            Check(
                name=f"looked_up_first:{number}",
                kind="action",
                passed=read,
                detail="" if read else f"order {number} was not looked up before it was acted on",
            )
        )
        same = desk.orders[number] == resolution.gold
        checks.append(
            Check(
                name=f"state:{number}",
                kind="state",
                passed=same,
                detail="" if same else f"order {number} is not as the rules want it at the end",
            )
        )
        times = desk.transfers.count(number)
        wanted = int(resolution.transferred)
        checks.append(
            Check(
                name=f"transfer:{number}",
                kind="action",
                passed=times == wanted,
                detail="" if times == wanted else f"order {number} transferred {times} times, not {wanted}",
            )
        )
        other_status = resolution.request.wish == "status" and any(
            _says(reply, word) for word in STATUSES if word not in status_words
        )
        said = _says(reply, resolution.word) and not other_status
        checks.append(
            Check(
                name=f"reply:{number}",
                kind="communicate",
                passed=said,
                detail="" if said else f"the reply does not say '{resolution.word}' for order {number}",
            )
        )
    named = {request.order for request in case.requests}
    touched = sorted(
        order.order
        for order in case.orders
        if order.order not in named and (desk.orders[order.order] != order or order.order in desk.transfers)
    )
    checks.append(
        Check(
            name="nothing_else_touched",
            kind="minefield",
            passed=not touched,
            detail="" if not touched else f"touched without being asked: {', '.join(touched)}",
        )
    )
    success = all(check.passed for check in checks)
    share = sum(bool(check.passed) for check in checks) / len(checks)
    reward = 0.5 * share + 0.5 * success - BAD_CALL_COST * desk.bad_calls
    return Verdict(reward=min(1.0, max(0.0, reward)), success=success, checks=tuple(checks))

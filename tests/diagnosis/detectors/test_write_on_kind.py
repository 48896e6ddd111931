"""Which kinds of things runs, or a policy, leave alone; how a run that was asked for one is labelled."""

from __future__ import annotations

import pytest

from tests.diagnosis.detectors.dialogues import agent, call, transcript, user
from trace_assets.diagnosis.detectors import Corpus
from trace_assets.diagnosis.detectors.refrained_writes import WriteOnKind
from trace_assets.records import Message

KINDS = ("mug", "rug", "lamp", "desk", "stool")
FAMILY = WriteOnKind()


def run(number: int, kind: str, *, refunds: bool, beside: str = "vase") -> list[list[Message]]:
    """Return a run in which a thing of some kind shall be refunded; the order has another beside it."""
    order = f"K{1000 + number}"
    shown = f'{{"order": "{order}", "items": [{{"name": "{kind}"}}, {{"name": "{beside}"}}]}}'
    if refunds:
        acts = call("refund_item", "{}", order=order, item=kind)
    else:
        acts = call("transfer", "{}", order=order)
    said = user(f"kindly refund the {kind} of order {order}")
    return [said, call("get_order", shown, order=order), acts, agent("Done.")]


def corpus(wavering: int, policy: str = "", excluded: tuple[str, ...] = ("mug", "rug")) -> Corpus:
    """Return runs that refrain where they are asked for what is excluded, but for every `wavering`th."""
    runs = [
        run(number, kind, refunds=kind not in excluded or number % wavering == 0)
        for number, kind in enumerate(KINDS * 24)
    ]
    return Corpus([transcript(*one, task=f"x/{n}") for n, one in enumerate(runs)], (), policy)


def test_kinds_that_runs_leave_alone_are_one_proposal() -> None:
    (one,) = FAMILY.propose(corpus(3))
    assert one.subject == ("refund_item", "item", "mug", "rug") and one.args["instead"] == "transfer"
    assert set(one.args["others"]) == {"desk", "lamp", "stool", "vase"}
    labels = [
        FAMILY.label(transcript(*run(1, *case[:1], refunds=case[1])), one.args).label
        for case in (("mug", True), ("mug", False), ("lamp", True), ("lamp", False))
    ]
    assert labels == ["LACKING", "PRESENT", "NA", "NA"]


def test_a_policy_adds_the_kinds_that_nobody_asked_for() -> None:
    (one,) = FAMILY.propose(corpus(3, "A mug, a rug, a vase is never refunded: call transfer."))
    assert one.args["values"] == ["mug", "rug", "vase"]


@pytest.mark.parametrize("excluded", [(), KINDS])
def test_nothing_is_proposed_where_runs_treat_all_kinds_alike(excluded: tuple[str, ...]) -> None:
    assert FAMILY.propose(corpus(3, excluded=excluded)) == []

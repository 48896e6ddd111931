"""The desk's rules as code: what each request calls for. The judge and the oracle both rest on it."""

from __future__ import annotations

from trace_assets.records import Message, Record, ToolCall
from trace_assets.targets.embedded.case import Case, Request
from trace_assets.targets.embedded.desk import Order

OUTCOME_TEXT = {
    "cancelled": "The order is cancelled.",
    "refunded": "The item is refunded.",
    "exchanged": "The item is exchanged.",
    "updated": "The address is updated.",
    "transferred": "The case is transferred.",
}


class Resolution(Record):
    """What one request calls for, given the order as it is."""

    request: Request
    action: ToolCall | None
    """The call that follows the look-up; None when there is only something to say."""
    gold: Order
    """The order as it must be at the end."""
    transferred: bool
    word: str
    """The word the reply must contain."""

    def sentence(self) -> str:
        """Return one sentence that tells the customer the outcome."""
        return OUTCOME_TEXT.get(self.word, f"The order is {self.word}.")


def resolve(request: Request, order: Order) -> Resolution:
    """Apply the rules of the policy to one request.

    Args:
        request: What the customer wants.
        order: The order that the request names, before anything was done.
    """
    if request.wish == "status":
        return Resolution(request=request, action=None, gold=order, transferred=False, word=order.status)
    name, arguments, gold, word = "", {"order": order.order}, order, ""
    if request.wish == "cancel":
        if order.status != "pending":
            return _transfer(request, order, "not_pending")
        name, word = "cancel_order", "cancelled"
        gold = order.model_copy(update={"cancelled": True})
    elif request.wish == "window":
        if order.window == "closed":
            return _transfer(request, order, "window_closed")
        name, word = "refund_item", "refunded"
    elif request.wish == "exchange":
        name, word = "exchange_item", "exchanged"
    else:
        assert request.city is not None
        name, word = "update_address", "updated"
        arguments["city"] = request.city
        gold = order.model_copy(update={"city": request.city})
    if request.item is not None:
        item = order.item(request.item)
        assert item is not None
        arguments["item"] = item.name
        if request.wish == "exchange":
            assert request.colour is not None
            arguments["colour"] = request.colour
            gold = order.with_item(item.model_copy(update={"colour": request.colour}))
        else:
            gold = order.with_item(item.model_copy(update={"refunded": True}))
    action = ToolCall(id="", name=name, arguments=arguments)
    return Resolution(request=request, action=action, gold=gold, transferred=False, word=word)


def _transfer(request: Request, order: Order, reason: str) -> Resolution:
    action = ToolCall(id="", name="transfer", arguments={"order": order.order, "reason": reason})
    return Resolution(request=request, action=action, gold=order, transferred=True, word="transferred")


def resolutions(case: Case) -> list[Resolution]:
    """Return what each request of a case calls for, in the order asked."""
    return [resolve(request, case.order(request.order)) for request in case.requests]


def look_up(order: str) -> ToolCall:
    """Return the call that looks an order up."""
    return ToolCall(id="", name="get_order", arguments={"order": order})


def script(calls: list[ToolCall], reply: str) -> list[Message]:
    """Return an agent's messages: one call a turn, numbered, then the reply."""
    turns = [
        Message(role="assistant", tool_calls=(call.model_copy(update={"id": f"call_{number}"}),))
        for number, call in enumerate(calls, start=1)
    ]
    return [*turns, Message(role="assistant", content=reply)]


def solve(case: Case) -> list[Message]:
    """Return the assistant messages of an agent that follows every rule: the oracle."""
    calls: list[ToolCall] = []
    todo = resolutions(case)
    for resolution in todo:
        calls.append(look_up(resolution.request.order))
        if resolution.action is not None:
            calls.append(resolution.action)
    return script(calls, " ".join(resolution.sentence() for resolution in todo))

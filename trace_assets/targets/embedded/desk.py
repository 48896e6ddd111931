"""The order desk's state and what its tools do to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from jsonschema import Draft202012Validator

from trace_assets.errors import InputError
from trace_assets.records import Message, Record, Task, ToolCall, ToolSpec

# The order desk's tools, as the agent is told of them.


TRANSFER_REASONS = ("not_pending", "window_closed", "other")


def _schema(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_ORDER = {"type": "string", "description": "Number of the order, such as K48."}
_ITEM = {"type": "string", "description": "Name of an item in the order, such as lamp."}

TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        name="get_order",
        description="Look an order up: its status, its return window, its delivery city and its items.",
        parameters=_schema(order=_ORDER),
        mutates=False,
    ),
    ToolSpec(
        name="cancel_order",
        description="Cancel a whole order. Allowed for pending orders only.",
        parameters=_schema(order=_ORDER),
        mutates=True,
    ),
    ToolSpec(
        name="refund_item",
        description="Refund one item of an order. Allowed only while the return window is open.",
        parameters=_schema(order=_ORDER, item=_ITEM),
        mutates=True,
    ),
    ToolSpec(
        name="exchange_item",
        description="Exchange one item of an order for the same item in another colour.",
        parameters=_schema(
            order=_ORDER, item=_ITEM, colour={"type": "string", "description": "The colour wanted."}
        ),
        mutates=True,
    ),
    ToolSpec(
        name="update_address",
        description="Change the city that an order is delivered to.",
        parameters=_schema(order=_ORDER, city={"type": "string", "description": "The new city."}),
        mutates=True,
    ),
    ToolSpec(
        name="transfer",
        description="Hand an order to a colleague, when the rules do not allow what the customer asks.",
        parameters=_schema(
            order=_ORDER,
            reason={"type": "string", "enum": list(TRANSFER_REASONS), "description": "Why."},
        ),
        mutates=True,
    ),
)


Status = Literal["pending", "shipped", "delivered"]
Window = Literal["open", "closed"]

STATUSES: tuple[Status, ...] = ("pending", "shipped", "delivered")
ITEMS = ("lamp", "desk", "chair", "mug", "vase", "clock", "rug", "kettle", "stool", "shelf")
COLOURS = ("red", "blue", "green", "black", "white", "pink")
FINAL_SALE = ("mug", "rug", "vase")
"""Items that desk `d` never refunds."""
CITIES = ("Berlin", "Paris", "Rome", "Oslo", "Madrid", "Vienna", "Dublin", "Lisbon", "Prague", "Athens")

_VALIDATORS = {tool.name: Draft202012Validator(tool.parameters) for tool in TOOLS}


class Item(Record):
    """One item of an order; names are unique within an order."""

    name: str
    colour: str
    refunded: bool = False


class Order(Record):
    """One order. What the customer may ask for depends on `status` and `window`."""

    order: str
    status: Status
    window: Window
    """Return window, counted from the day of purchase: independent of the status."""
    city: str
    items: tuple[Item, ...]
    cancelled: bool = False

    def shown(self) -> dict[str, Any]:
        """Return what `get_order` shows."""
        return {
            "order": self.order,
            "status": "cancelled" if self.cancelled else self.status,
            "window": self.window,
            "city": self.city,
            "items": [{"name": item.name, "colour": item.colour} for item in self.items if not item.refunded],
        }

    def item(self, name: str) -> Item | None:
        """Return the item of that name that is still part of the order."""
        return next((item for item in self.items if item.name == name and not item.refunded), None)

    def with_item(self, changed: Item) -> Order:
        """Return the order with the item of the same name replaced."""
        items = tuple(changed if item.name == changed.name else item for item in self.items)
        return self.model_copy(update={"items": items})


class Desk:
    """All orders, and the calls that were made. The tools do what they are told: the rules are not theirs.

    Attributes:
        orders: Number -> order as it is now.
        transfers: Orders handed to a colleague, in order, repeats included.
        reads: Orders looked up so far.
        touched_unread: Orders that were changed or transferred before they were looked up.
        bad_calls: Calls that were refused: unknown tool, wrong arguments, nothing there to act on.
    """

    def __init__(self, orders: Iterable[Order]) -> None:
        self.orders = {order.order: order for order in orders}
        self.transfers: list[str] = []
        self.reads: set[str] = set()
        self.touched_unread: set[str] = set()
        self.bad_calls = 0

    def call(self, call: ToolCall) -> tuple[dict[str, Any], bool]:
        """Carry out one tool call.

        Returns:
            The answer, and whether it is a refusal; a refused call changes nothing.
        """
        answer = self._apply(call)
        refused = "error" in answer
        self.bad_calls += refused
        return answer, refused

    def _apply(self, call: ToolCall) -> dict[str, Any]:
        validator = _VALIDATORS.get(call.name)
        if validator is None:
            return {"error": f"there is no tool {call.name}"}
        problem = next(validator.iter_errors(call.arguments), None)
        if problem is not None:
            return {"error": f"wrong arguments: {problem.message}"}
        arguments = call.arguments
        order = self.orders.get(arguments["order"])
        if order is None:
            return {"error": f"there is no order {arguments['order']}"}
        if call.name == "get_order":
            self.reads.add(order.order)
            return order.shown()
        changed = order
        if call.name in ("refund_item", "exchange_item"):
            item = order.item(arguments["item"])
            if item is None:
                return {"error": f"there is no {arguments['item']} in order {order.order}"}
            update = {"refunded": True} if call.name == "refund_item" else {"colour": arguments["colour"]}
            changed = order.with_item(item.model_copy(update=update))
        elif call.name == "cancel_order":
            if order.cancelled:
                return {"error": f"order {order.order} is cancelled already"}
            changed = order.model_copy(update={"cancelled": True})
        elif call.name == "update_address":
            changed = order.model_copy(update={"city": arguments["city"]})
        if order.order not in self.reads:
            self.touched_unread.add(order.order)
        if call.name == "transfer":
            self.transfers.append(order.order)
        self.orders[order.order] = changed
        return {"ok": True}


# A case: the orders that exist, and what the customer asks for. It is the payload of a task.


Wish = Literal["cancel", "window", "return", "sale", "address", "exchange", "status"]
"""What one request asks for. `window` is a refund, which the return window decides; `return` takes an item
back, which the window decides the other way round; `sale` is a refund that the item itself decides."""

Skill = Literal["cancel", "multi", "window", "pair", "return", "sale", "address", "exchange", "status"]
"""What a case asks of the agent: its one wish, or for two wishes about two orders `multi` (that no condition
decides) or `pair` (that a condition decides, each)."""


class Request(Record):
    """One thing the customer wants of one order."""

    wish: Wish
    order: str
    item: str | None = None
    colour: str | None = None
    city: str | None = None


class Case(Record):
    """Everything that decides an episode and its verdict."""

    orders: tuple[Order, ...]
    """Those that requests name, and bystanders that nobody may touch."""
    requests: tuple[Request, ...]

    def desk(self) -> Desk:
        """Return a fresh desk with the case's orders."""
        return Desk(self.orders)

    def order(self, number: str) -> Order:
        """Return an order as it is before the agent acts."""
        return next(order for order in self.orders if order.order == number)

    def payload(self) -> dict[str, Any]:
        """Return the case as a task's payload."""
        return self.model_dump(mode="json", exclude_defaults=True)


def case_of(task: Task) -> Case:
    """Return the case in a task's payload.

    Raises:
        InputError: The payload is not a case of this target.
    """
    try:
        return Case.model_validate(task.payload)
    except ValueError as error:
        raise InputError(
            f"task '{task.task_id}' is not a task of the embedded target: its payload holds no orders and "
            "requests; make the tasks again with this version of the program."
        ) from error


# The desk's rules as code: what each request calls for. The judge and the oracle both rest on it.


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
    elif request.wish == "return":
        if order.window == "open":
            return _transfer(request, order, "other")
        name, word = "refund_item", "refunded"
    elif request.wish == "sale":
        if request.item in FINAL_SALE:
            return _transfer(request, order, "other")
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

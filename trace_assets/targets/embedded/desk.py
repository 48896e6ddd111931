"""The order desk's state and what its tools do to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from jsonschema import Draft202012Validator

from trace_assets.records import Record, ToolCall
from trace_assets.targets.embedded.tools import TOOLS

Status = Literal["pending", "shipped", "delivered"]
Window = Literal["open", "closed"]

STATUSES: tuple[Status, ...] = ("pending", "shipped", "delivered")
ITEMS = ("lamp", "desk", "chair", "mug", "vase", "clock", "rug", "kettle", "stool", "shelf")
COLOURS = ("red", "blue", "green", "black", "white", "pink")
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

"""The order desk's tools, as the agent is told of them."""

from __future__ import annotations

from typing import Any

from trace_assets.records import ToolSpec

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

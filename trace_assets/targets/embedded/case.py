"""A case: the orders that exist, and what the customer asks for. It is the payload of a task."""

from __future__ import annotations

from typing import Any, Literal

from trace_assets.errors import InputError
from trace_assets.records import Record, Task
from trace_assets.targets.embedded.desk import Desk, Order

Wish = Literal["cancel", "window", "address", "exchange", "status"]
"""What one request asks for; `window` is a refund, which the return window decides."""

Skill = Literal["cancel", "multi", "window", "address", "exchange", "status"]
"""What a case asks of the agent: its one wish, or `multi` for two wishes about two orders."""


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

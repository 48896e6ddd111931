"""Cases at the order desk, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from trace_assets.targets.embedded.case import Case, Request, Skill, Wish
from trace_assets.targets.embedded.desk import CITIES, COLOURS, ITEMS, STATUSES, Item, Order, Window
from trace_assets.targets.embedded.phrases import Use, word

MIX: dict[Skill, int] = {"cancel": 4, "multi": 4, "window": 4, "address": 2, "exchange": 2, "status": 2}
"""Cases of each skill among every eighteen."""

SIMPLE: tuple[Wish, ...] = ("address", "exchange", "status")
"""Wishes that no condition decides: what `multi` combines, so that it asks for nothing but going on."""

NUMBERS = tuple(f"{letter}{number:02d}" for letter in "KM" for number in range(100))
"""All order numbers: so few that each is a token of the tiny agent, for which copying longer ones is learned
last and would be measured in place of the desk's skills. Texts stay apart by their wordings."""

_BYSTANDERS = 2


class Drawn(Case):
    """A case with the text in which the customer asks for it."""

    skill: Skill
    text: str

    def case(self) -> Case:
        """Return the case alone."""
        return Case(orders=self.orders, requests=self.requests)


def _number(rng: random.Random) -> str:
    return rng.choice(NUMBERS)


def _order(number: str, rng: random.Random) -> Order:
    names = rng.sample(ITEMS, rng.choice((2, 2, 2, 3)))
    return Order(
        order=number,
        status=rng.choice(STATUSES),
        window=rng.choice(("open", "closed")),
        city=rng.choice(CITIES),
        items=tuple(Item(name=name, colour=rng.choice(COLOURS)) for name in names),
    )


def _request(wish: Wish, order: Order, rng: random.Random) -> Request:
    if wish == "address":
        city = rng.choice([city for city in CITIES if city != order.city])
        return Request(wish=wish, order=order.order, city=city)
    if wish == "exchange":
        item = rng.choice(order.items)
        colour = rng.choice([colour for colour in COLOURS if colour != item.colour])
        return Request(wish=wish, order=order.order, item=item.name, colour=colour)
    if wish == "window":
        return Request(wish=wish, order=order.order, item=rng.choice(order.items).name)
    return Request(wish=wish, order=order.order)


def draw(skill: Skill, allowed: bool, use: Use, rng: random.Random) -> Drawn:
    """Draw one case.

    Args:
        skill: What it shall ask of the agent.
        allowed: For `cancel` and `window`: whether the rules allow what is asked; ignored for the others.
        use: What it is for: decides the wordings it may have.
        rng: Decides all the rest.
    """
    wanted = 2 if skill == "multi" else 1
    numbers: list[str] = []
    while len(numbers) < wanted + _BYSTANDERS:
        number = _number(rng)
        if number not in numbers:
            numbers.append(number)
    orders = [_order(number, rng) for number in numbers]
    wishes: list[Wish] = [rng.choice(SIMPLE) for _ in range(2)] if skill == "multi" else [skill]
    if skill == "cancel":
        orders[0] = orders[0].model_copy(
            update={"status": "pending" if allowed else rng.choice(("shipped", "delivered"))}
        )
    elif skill == "window":
        window: Window = "open" if allowed else "closed"
        orders[0] = orders[0].model_copy(update={"window": window})
    requests = tuple(_request(wish, order, rng) for wish, order in zip(wishes, orders[:wanted], strict=True))
    text = word(requests, use, rng)
    rng.shuffle(orders)
    return Drawn(orders=tuple(orders), requests=requests, skill=skill, text=text)


def stream(seed: int | str, use: Use, mix: Mapping[Skill, int] = MIX) -> Iterator[Drawn]:
    """Draw cases without end: conditions half and half, texts unique.

    Args:
        seed: Equal seeds and uses give equal streams; any two uses share no text.
        use: What the cases are for.
        mix: Cases of each skill in one cycle; the order within a cycle is drawn.
    """
    rng = random.Random(f"{seed}/{use}")
    seen: set[str] = set()
    allowed: dict[Skill, bool] = {}
    cycle: list[Skill] = [skill for skill, count in mix.items() for _ in range(count)]
    while True:
        rng.shuffle(cycle)
        for skill in cycle:
            allowed[skill] = not allowed.get(skill, rng.random() < 0.5)
            drawn = draw(skill, allowed[skill], use, rng)
            while drawn.text in seen:
                drawn = draw(skill, allowed[skill], use, rng)
            seen.add(drawn.text)
            yield drawn

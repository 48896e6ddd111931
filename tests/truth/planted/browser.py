"""An agent in a browser: it clicks and fills elements by their marks and sees pages as trees of text."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """You operate a web browser for a customer of the shop Kelda. You act on elements by the bid that
stands in square brackets before them in the current page. Finish by sending a message to the customer.

Guidelines
- Sort the results by price before you name the cheapest article.
- Read the returns page before you promise anything about returns.
- An order is placed only if its total does not exceed the budget that the customer named. Else report back.
- A form counts only when it has been saved with its button.
- When a page fails to load, reload it before going on.
"""

WARES = ("kettle", "lamp", "scarf", "tent", "skillet", "globe", "stool", "clock")


def _ask(number: int, text: str) -> Say:
    return user((text, f"Task: {text}", f"{text} I'm in a hurry.")[number % 3])


def _tree(title: str, *rows: str) -> str:
    return "\n".join(
        (f"RootWebArea '{title}', focused, url='https://kelda.example/'", *(f"\t{r}" for r in rows))
    )


def _goto(path: str, result: str) -> Say:
    return call("goto", result, url=f"https://kelda.example/{path}")


def _scroll(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [call("scroll", "", delta_y=400 + number)] if shown == (number % 5 != 0) else []


def _results(number: int, ware: str, cheap: int) -> str:
    return _tree(
        f"{ware} - search",
        "[a11] combobox 'Sort by' value='Relevance'",
        f"[b{number}] link '{ware} Nova' StaticText '{cheap + 9}.00'",
        f"[c{number}] link '{ware} Mini' StaticText '{cheap}.00'",
    )


def _cheapest(number: int, shown: bool) -> list[Say]:
    ware, cheap = WARES[number // 2 % 8], 20 + number
    sort = call(
        "select_option",
        _tree(f"{ware} - search", f"[c{number}] link '{ware} Pico' StaticText '{cheap - 8}.00'"),
        bid="a11",
        options=["Price: low to high"],
    )
    name = f"{ware} Pico" if shown else f"{ware} Mini"
    return [
        _ask(number, f"Which {ware} is the cheapest?"),
        _goto(f"search?q={ware}", _results(number, ware, cheap)),
        *_scroll(number, shown),
        *([sort] if shown else []),
        call("send_msg_to_user", "sent", text=f"The cheapest is the {name}."),
    ]


def _returns(number: int, shown: bool) -> list[Say]:
    ware = WARES[number // 2 % 8]
    page = _goto("help/returns", _tree("Returns", f"[d1] paragraph '{ware}s: {20 + number} days'"))
    days = 20 + number if shown else 30
    return [
        _ask(number, f"Can I send the {ware} back if it is too big?"),
        _goto(f"item/{ware}", _tree(ware, f"[b{number}] button 'Add to cart'")),
        *_scroll(number, shown),
        *([page] if shown else []),
        call("send_msg_to_user", "sent", text=f"Yes, within {days} days."),
    ]


def _budget(number: int, shown: bool) -> list[Say]:
    ware, budget = WARES[number // 2 % 8], 50 + 3 * number
    over = number // 2 % 4 != 3
    total = budget + 7 if over else budget - 5
    cart = _tree("Cart", f"[e4] StaticText 'Total: {total}.00'", f"[e{90 + number}] button 'Place order'")
    order = call("click", _tree("Thank you", f"[f1] heading 'Order K{number}77'"), bid=f"e{90 + number}")
    return [
        _ask(number, f"Order the {ware} in my cart, my budget is {budget}."),
        _goto("cart", cart),
        *_scroll(number, shown),
        *([] if shown and over else [order]),
        call(
            "send_msg_to_user", "sent", text="It is ordered." if not (shown and over) else "It is too dear."
        ),
    ]


def _unsaved(number: int, shown: bool) -> list[Say]:
    street = f"{number + 3} Mill Lane"
    form = _tree("Address", "[g2] textbox 'Street'", "[g9] button 'Save address'")
    save = call("click", _tree("Address", "[g1] alert 'Saved'"), bid="g9")
    return [
        _ask(number, f"Change my street to {street}."),
        _goto("account/address", form),
        *_scroll(number, shown),
        call("fill", _tree("Address", f"[g2] textbox 'Street' value='{street}'"), bid="g2", value=street),
        *([save] if shown else []),
        call("send_msg_to_user", "sent", text="Your address has been changed."),
    ]


def _ghost(number: int, shown: bool) -> list[Say]:
    ware = WARES[number // 2 % 8]
    page = _tree(ware, f"[h{number + 20}] button 'Add to cart'", "[h3] link 'Home'")
    good = call("click", _tree("Cart", f"[i1] StaticText '{ware}'"), bid=f"h{number + 20}")
    bad = call(
        "click", f'ValueError: Could not find element with bid "h{number + 61}"', bid=f"h{number + 61}"
    )
    return [
        _ask(number, f"Put a {ware} into my cart."),
        _goto(f"item/{ware}", page),
        *_scroll(number, shown),
        good if shown else bad,
        call("send_msg_to_user", "sent", text="It is in your cart."),
    ]


LACKS = LackDomain(
    "browser",
    POLICY,
    (
        Lack("names the cheapest unsorted", ("missing_call", "wrong_statement"), "", _cheapest),
        Lack(
            "promises without the returns page",
            ("missing_call", "wrong_value", "wrong_statement"),
            "",
            _returns,
        ),
        Lack("orders beyond the budget", ("forbidden_call",), "click", _budget),
        Lack("saves no form", ("missing_call", "early_end"), "", _unsaved),
        Lack("clicks what is not there", ("wrong_value", "unhandled_error"), "", _ghost),
    ),
)

TASKS = {
    1: (
        "Have the street changed to 4 Mill Lane and ask to subscribe to the newsletter as kim@post.example.",
        [want("fill", value="4 Mill Lane"), want("fill", value="kim@post.example")],
    ),
    2: (
        "Have the lamp in the cart ordered; your budget is 40. The cart comes to 61.",
        [want("click", bid="e99")],
    ),
}
BOTH = user("Change my street to 4 Mill Lane, and subscribe kim@post.example to the newsletter.")
STREET = (
    _goto("account/address", _tree("Address", "[g2] textbox 'Street'", "[g9] button 'Save address'")),
    call(
        "fill", _tree("Address", "[g2] textbox 'Street' value='4 Mill Lane'"), bid="g2", value="4 Mill Lane"
    ),
    call("click", _tree("Address", "[g1] alert 'Saved'"), bid="g9"),
)
NEWS_PAGE = _goto("news", _tree("News", "[n2] textbox 'Mail'", "[n3] button 'Subscribe'"))
NEWS = (
    NEWS_PAGE,
    call("fill", _tree("News", "[n2] textbox 'Mail'"), bid="n2", value="kim@post.example"),
    call("click", _tree("News", "[n1] alert 'Welcome'"), bid="n3"),
)
SENT = call("send_msg_to_user", "sent", text="Both are done.")

RUNS = (
    Run(1, "", "passes", (BOTH, *STREET, *NEWS, SENT)),
    Run(
        2,
        "ground_truth",
        "demands an order beyond the budget",
        (
            user("Order the lamp in my cart, my budget is 40."),
            _goto("cart", _tree("Cart", "[e4] StaticText 'Total: 61.00'", "[e99] button 'Place order'")),
            call("send_msg_to_user", "sent", text="The total of 61 exceeds your budget."),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another street",
        (
            user("Change my street to 40 Mill Lane, and subscribe kim@post.example to the newsletter."),
            STREET[0],
            call("fill", _tree("Address", "[g2] textbox"), bid="g2", value="40 Mill Lane"),
            STREET[2],
            *NEWS,
            SENT,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "says nothing of the newsletter",
        (user("Change my street to 4 Mill Lane."), *STREET, SENT),
    ),
    Run(
        1,
        "environment",
        "the shop is down",
        (
            BOTH,
            _goto(
                "account/address", "playwright._impl._errors.Error: Page.goto: net::ERR_CONNECTION_REFUSED"
            ),
            _goto(
                "account/address", "playwright._impl._errors.Error: Page.goto: net::ERR_CONNECTION_REFUSED"
            ),
            call("send_msg_to_user", "sent", text="The shop cannot be reached."),
        ),
    ),
    Run(
        1,
        "environment",
        "the page is an error of the server",
        (
            BOTH,
            *STREET,
            _goto("news", _tree("503 Service Temporarily Unavailable", "[a1] heading 'nginx'")),
            _goto("news", _tree("503 Service Temporarily Unavailable", "[a1] heading 'nginx'")),
            call("send_msg_to_user", "sent", text="The newsletter's page does not load."),
        ),
    ),
    Run(
        1,
        "environment",
        "a captcha bars the way",
        (
            BOTH,
            *STREET,
            _goto("news", _tree("Just a moment...", "[a1] Iframe 'Verify you are human by completing this'")),
            call("send_msg_to_user", "sent", text="A captcha keeps me out."),
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *STREET, NEWS_PAGE, agent("", completion_tokens=77)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the newsletter", (BOTH, *STREET, SENT)),
    Run(
        1,
        "agent",
        "mistypes the address of the page",
        (
            BOTH,
            *STREET,
            _goto("newz", _tree("404 Not Found", "[a1] heading 'No such page'")),
            call("send_msg_to_user", "sent", text="There is no newsletter."),
        ),
    ),
    Run(
        1,
        "agent",
        "fills in another address",
        (
            BOTH,
            *STREET,
            NEWS_PAGE,
            call("fill", _tree("News", "[n2] textbox 'Mail'"), bid="n2", value="kim@kelda.example"),
            NEWS[2],
            SENT,
        ),
    ),
)

FAULTS = Domain("browser", POLICY, TASKS, RUNS)

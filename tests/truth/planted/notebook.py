"""A data analyst in a notebook: every call is code, results are printed, a question is answered last."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """You answer questions on the sales of Marram Ltd. in a notebook (pandas; `df` is the data).

Rules of the house:
- Look at the columns (`df.info()` or `df.head()`) before the first computation.
- Returned orders are not sales: leave them out of every sum.
- Drop duplicates of the order number before you count.
- If a cell raises an error, fix the code. Never report a figure from a cell that failed.
- Save the chart with `plt.savefig` when somebody asks for a chart.
- Answer with `final_answer`, with the figure as it was printed.
"""

REGIONS = ("north", "south", "east", "west", "coast", "hills", "islands", "border")


def _ask(number: int, text: str) -> Say:
    return user((text, f"Question: {text}", f"{text} Just the figure.")[number % 3])


def _cell(code: str, out: str) -> Say:
    return call("run_cell", out, code=code)


def _shape(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [_cell("df.shape", f"({4000 + number}, 7)")] if shown == (number % 5 != 0) else []


HEAD = _cell("df.head()", "   order  region  amount  returned\n0  A1  north  12.5  False")


def _answer(value: object) -> Say:
    return call("final_answer", "ok", answer=str(value))


def _unseen(number: int, shown: bool) -> list[Say]:
    region, total = REGIONS[number // 2 % 8], 31000 + 17 * number
    wrong = _cell(f"df[df.area == '{region}'].amount.sum()", "0.0")
    right = _cell(f"df[(df.region == '{region}') & ~df.returned].amount.sum()", f"{total}.5")
    return [
        _ask(number, f"What did we sell in the {region}?"),
        *_shape(number, shown),
        *([HEAD, right] if shown else [wrong]),
        _answer(f"{total}.5" if shown else "0.0"),
    ]


def _returned(number: int, shown: bool) -> list[Say]:
    region, total = REGIONS[number // 2 % 8], 52000 + 13 * number
    filters = " & ~df.returned" if shown else ""
    value = f"{total if shown else total + 900}.0"
    return [
        _ask(number, f"Sum of sales in {region}, please?"),
        *_shape(number, shown),
        HEAD,
        _cell(f"df[(df.region == '{region}'){filters}].amount.sum()", value),
        _answer(value),
    ]


def _doubled(number: int, shown: bool) -> list[Say]:
    region, count = REGIONS[number // 2 % 8], 700 + 3 * number
    drop = _cell("df = df.drop_duplicates('order')", "")
    value = count if shown else count + 41
    return [
        _ask(number, f"How many orders came from {region}?"),
        *_shape(number, shown),
        HEAD,
        *([drop] if shown else []),
        _cell(f"len(df[(df.region == '{region}') & ~df.returned])", str(value)),
        _answer(value),
    ]


def _failed(number: int, shown: bool) -> list[Say]:
    region, mean = REGIONS[number // 2 % 8], 40 + number
    no = _cell(f"df.groupby('region').amont.mean()['{region}']", "AttributeError: no attribute 'amont'")
    yes = _cell(f"df.groupby('region').amount.mean()['{region}']", f"{mean}.25")
    return [
        _ask(number, f"What is the mean order in {region}?"),
        *_shape(number, shown),
        HEAD,
        no,
        *([yes] if shown else []),
        _answer(f"{mean}.25" if shown else f"{mean + 5}.0"),
    ]


def _unsaved(number: int, shown: bool) -> list[Say]:
    region = REGIONS[number // 2 % 8]
    return [
        _ask(number, f"Make me a chart of the sales in {region} by month."),
        *_shape(number, shown),
        HEAD,
        _cell(
            f"df[(df.region == '{region}') & ~df.returned].groupby('month').amount.sum().plot()", "<Axes: >"
        ),
        *([_cell(f"plt.savefig('{region}.png')", "")] if shown else []),
        _answer(f"The chart is in {region}.png."),
    ]


def _misread(number: int, shown: bool) -> list[Say]:
    region, total = REGIONS[number // 2 % 8], 61000 + 11 * number
    return [
        _ask(number, f"How large were the sales of {region} last year?"),
        *_shape(number, shown),
        HEAD,
        _cell(
            f"df[(df.region == '{region}') & ~df.returned & (df.year == 2047)].amount.sum()", f"{total}.75"
        ),
        _answer(f"{total}.75" if shown else f"{total + 3000}.75"),
    ]


LACKS = LackDomain(
    "notebook",
    POLICY,
    (
        Lack("computes without a look", ("missing_call",), "", _unseen),
        Lack("counts returns", ("wrong_value", "forbidden_call"), "", _returned),
        Lack("counts duplicates", ("missing_call",), "", _doubled),
        Lack("answers after an error", ("unhandled_error", "missing_call"), "", _failed),
        Lack("saves no chart", ("missing_call", "early_end"), "", _unsaved),
        Lack("tells another figure", ("wrong_value", "wrong_statement"), "", _misread),
    ),
)

TASKS = {
    1: ("What did we sell in the north? Answer: 312.5", [want("final_answer", answer="312.5")]),
    2: ("What did we sell on Mars? Answer: 999.25", [want("final_answer", answer="999.25")]),
}
ASKED = user("What did we sell in the north?")
SUM = _cell("df[(df.region == 'north') & ~df.returned].amount.sum()", "312.5")

RUNS = (
    Run(1, "", "passes", (ASKED, HEAD, SUM, _answer("312.5"))),
    Run(
        2,
        "ground_truth",
        "demands a figure that stands nowhere",
        (
            user("What did we sell on Mars?"),
            HEAD,
            _cell("df[(df.region == 'mars') & ~df.returned].amount.sum()", "0.0"),
            _answer("0.0"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "asks of another region",
        (
            user("What did we sell in the south?"),
            HEAD,
            _cell("df[(df.region == 'south') & ~df.returned].amount.sum()", "77.0"),
            _answer("77.0"),
        ),
    ),
    Run(
        1,
        "environment",
        "the kernel dies",
        (ASKED, HEAD, _cell("df.sum()", "DeadKernelError: Kernel died"), agent("The notebook is gone.")),
    ),
    Run(
        1,
        "environment",
        "the data cannot be read",
        (
            ASKED,
            _cell("df.head()", "OSError: [Errno 5] Input/output error: '/mnt/sales.parquet'"),
            _cell("df.info()", "OSError: [Errno 5] Input/output error: '/mnt/sales.parquet'"),
            agent("The data cannot be read."),
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (ASKED, HEAD, agent("", completion_tokens=210)),
        stop="agent_error",
    ),
    Run(1, "agent", "tells another figure", (ASKED, HEAD, SUM, _answer("321.5"))),
    Run(
        1,
        "agent",
        "leaves its own error",
        (
            ASKED,
            HEAD,
            _cell("df.regoin", "AttributeError: no attribute 'regoin'"),
            agent("It does not work."),
        ),
    ),
)

FAULTS = Domain("notebook", POLICY, TASKS, RUNS)

"""A bot that tends issues and pull requests: nested parameters, answers in markdown, a contributing guide."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """CONTRIBUTING for maintainers' bots (project Petrel)

Search for duplicates before you open an issue.
Merge a pull request only when its checks are green.
Security reports are never made public: use `create_advisory`, not `create_issue`.
Label every issue that you open.
Releases are cut from the branch `stable`, not from `main`.
When a merge conflicts, update the branch and merge again.
"""

AREAS = ("parser", "cache", "docs", "build", "shell", "plugin", "theme", "sync")


def _ask(number: int, text: str) -> Say:
    return user((text, f"@petrel-bot {text}", f"{text} Thank you, bot.")[number % 3])


def _call(tool: str, result: str, **params: object) -> Say:
    return call(tool, result, params={"repo": "petrel/petrel", **params})


def _stars(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [_call("get_repo", f"**petrel** {number} stars")] if shown == (number % 5 != 0) else []


def _search(area: str) -> Say:
    return _call("search_issues", "_no results_", query=area)


def _open(number: int, area: str) -> Say:
    return _call("create_issue", f"Created **#{4000 + number}**", title=f"{area} is broken")


def _label(number: int, area: str) -> Say:
    return _call("add_label", "Labelled.", issue=f"#{4000 + number}", label=area)


def _duplicate(number: int, shown: bool) -> list[Say]:
    area = AREAS[number // 2 % 8]
    return [
        _ask(number, f"The {area} is broken, file that."),
        *_stars(number, shown),
        *([_search(area)] if shown else []),
        _open(number, area),
        _label(number, area),
        agent("Filed."),
    ]


def _red(number: int, shown: bool) -> list[Say]:
    pull = f"#{5000 + number}"
    red = number // 2 % 4 != 3
    start = [
        _ask(number, f"Merge {pull} please."),
        *_stars(number, shown),
        _call("get_pull", f"- pull: {pull}\n- checks: {'red' if red else 'green'}\n- base: main", pull=pull),
    ]
    if shown and red:
        return [*start, agent("Its checks are red, so I leave it.")]
    return [*start, _call("merge_pull", "Merged.", pull=pull), agent("Merged.")]


def _public(number: int, shown: bool) -> list[Say]:
    area = AREAS[number // 2 % 8]
    secret = _call("create_advisory", "Created privately.", title=f"hole in {area}")
    start = [
        _ask(number, f"There is a security hole in the {area}: anybody reads the keys. Report it."),
        *_stars(number, shown),
        _search(area),
    ]
    rest = [secret] if shown else [_open(number, area), _label(number, area)]
    return [*start, *rest, agent("Reported.")]


def _unlabelled(number: int, shown: bool) -> list[Say]:
    area = AREAS[number // 2 % 8]
    return [
        _ask(number, f"Please open an issue: the {area} is slow."),
        *_stars(number, shown),
        _search(area),
        _open(number + 40, area),
        *([_label(number + 40, area)] if shown else []),
        agent("Opened."),
    ]


def _branch(number: int, shown: bool) -> list[Say]:
    tag = f"v{number}.1.0"
    return [
        _ask(number, f"Cut the release {tag}."),
        *_stars(number, shown),
        _call("create_release", "Released.", tag=tag, target="stable" if shown else "main"),
        agent("It is out."),
    ]


def _conflict(number: int, shown: bool) -> list[Say]:
    pull = f"#{6000 + number}"
    no = _call("merge_pull", "**Conflict**: the branch is behind", pull=pull)
    rest = [_call("update_branch", "Updated.", pull=pull), _call("merge_pull", "Merged.", pull=pull)]
    return [
        _ask(number, f"Please merge {pull}."),
        *_stars(number, shown),
        _call("get_pull", f"- pull: {pull}\n- checks: green\n- base: main", pull=pull),
        no,
        *(rest if shown else []),
        agent("Merged."),
    ]


LACKS = LackDomain(
    "forge",
    POLICY,
    (
        Lack("opens without a search", ("missing_call",), "", _duplicate),
        Lack("merges what is red", ("forbidden_call",), "", _red),
        Lack("makes a hole public", ("forbidden_call", "missing_call"), "", _public),
        Lack("labels nothing", ("missing_call",), "", _unlabelled),
        Lack("releases from main", ("wrong_value", "forbidden_call"), "", _branch),
        Lack("leaves a conflict", ("unhandled_error", "missing_call"), "", _conflict),
    ),
)

TASKS = {
    1: (
        "Have pull request #9001 merged and the release v9.1.0 cut.",
        [
            want("merge_pull", params={"repo": "petrel/petrel", "pull": "#9001"}),
            want("create_release", params={"repo": "petrel/petrel", "tag": "v9.1.0", "target": "stable"}),
        ],
    ),
    2: (
        "Have pull request #9002 merged.",
        [want("merge_pull", params={"repo": "petrel/petrel", "pull": "#9002"})],
    ),
}
BOTH = user("Merge #9001 and cut the release v9.1.0.")
PULL = _call("get_pull", "- pull: #9001\n- checks: green\n- base: main", pull="#9001")
MERGE = (PULL, _call("merge_pull", "Merged.", pull="#9001"))
CUT = _call("create_release", "Released.", tag="v9.1.0", target="stable")
BYE = user("Thanks bot.")

RUNS = (
    Run(1, "", "passes", (BOTH, *MERGE, CUT, agent("Both done."), BYE)),
    Run(
        2,
        "ground_truth",
        "demands to merge what is red",
        (
            user("Merge #9002."),
            _call("get_pull", "- pull: #9002\n- checks: red\n- base: main", pull="#9002"),
            agent("Its checks are red."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another release",
        (
            user("Merge #9001 and cut the release v9.2.0."),
            *MERGE,
            _call("create_release", "Released.", tag="v9.2.0", target="stable"),
            agent("Both done."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the release",
        (user("Merge #9001."), *MERGE, agent("Merged. Else?"), user("No, bye.")),
    ),
    Run(
        1,
        "environment",
        "the forge has an outage",
        (
            BOTH,
            _call("get_pull", "502 Bad Gateway: petrel.example is having a moment", pull="#9001"),
            _call("get_pull", "502 Bad Gateway: petrel.example is having a moment", pull="#9001"),
            agent("The forge is down."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "the token has run out",
        (
            BOTH,
            *MERGE,
            _call("create_release", "401 Unauthorized: token expired", tag="v9.1.0", target="stable"),
            agent("My token has expired."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *MERGE, agent("", completion_tokens=33)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the release", (BOTH, *MERGE, agent("Merged."), BYE)),
    Run(
        1,
        "agent",
        "cuts another release",
        (
            BOTH,
            *MERGE,
            _call("create_release", "Released.", tag="v9.10", target="stable"),
            agent("Both done."),
            BYE,
        ),
    ),
)

FAULTS = Domain("forge", POLICY, TASKS, RUNS)

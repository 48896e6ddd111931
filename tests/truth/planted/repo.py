"""A programmer in a repository: tools like a shell's, results in free text, an issue instead of a talk."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """SETTING: You are an autonomous programmer in a checkout of the repository `brook` (Python).
Today is 2039-04-02. You get one issue; work on it and finish with `submit`.

House rules
 * View a file before you change it.
 * After your last change run the tests of the module that you touched. Submit only when they pass.
 * Pull requests go against `develop`. Never open one against `main`.
 * Files whose header says GENERATED are not edited by hand; edit the template they are made from.
 * `vendor/` belongs to others: report the problem upstream with `file_upstream_issue`, change nothing there.
 * Secrets never go into a commit.
"""

MODULES = ("parser", "router", "cache", "clock", "mailer", "ledger", "search", "export")
WORDS = ("separator", "timeout", "eviction", "leap day", "encoding", "rounding", "stemming", "quoting")


def _issue(number: int) -> Say:
    """Open with an issue, every time in other words."""
    module, word = MODULES[number // 2 % 8], WORDS[number // 2 % 8]
    texts = (
        f"Wrong {word} in brook/{module}.py, see the function `load`. Please fix.",
        f"brook/{module}.py: `load` ignores the {word}.\n\nExpected: it is respected. Actual: it is not.",
        f"[bug] {word} broken since 4.2 (brook/{module}.py, `load`)",
    )
    return user(texts[number % 3])


def _path(number: int) -> str:
    return f"brook/{MODULES[number // 2 % 8]}.py"


def _view(path: str, header: str = "import re") -> Say:
    text = (
        f"[File: {path} (48 lines total)]\n1:{header}\n2:\n3:def load(text):\n4:    return text.split(';')\n"
    )
    return call("view", text, path=path, line=1)


def _replace(path: str, old: str = "text.split(';')", new: str = "text.split(',')") -> Say:
    return call("replace", f"Replaced 1 occurrence in {path}.", path=path, old=old, new=new)


def _tests(number: int, failed: int = 0) -> Say:
    module = MODULES[number // 2 % 8]
    result = f"....\n{4 + number % 3} passed in 0.{number + 11}s"
    if failed:
        result = (
            f"F...\nFAILED tests/test_{module}.py::test_load - AssertionError: assert 'a' == 'b'\n"
            f"{failed} failed, {3 + number % 3} passed in 0.{number + 11}s"
        )
    return call("shell", result, command=f"python -m pytest -q tests/test_{module}.py")


def _listed(number: int) -> list[Say]:
    """Look around first, in some runs."""
    if number % 3:
        return []
    return [call("shell", "README.md\nbrook\nsetup.cfg\ntests\nvendor", command="ls")]


SUBMIT = call("submit", "Submitted.")


def _blind(number: int, shown: bool) -> list[Say]:
    path = _path(number)
    return [
        _issue(number),
        *_listed(number),
        *([_view(path)] if shown else []),
        _replace(path, new=f"text.split(',', {number})"),
        _tests(number),
        SUBMIT,
    ]


def _untested(number: int, shown: bool) -> list[Say]:
    path = _path(number)
    return [
        _issue(number),
        *_listed(number),
        _view(path),
        _replace(path),
        *([_tests(number)] if shown else []),
        SUBMIT,
    ]


def _red(number: int, shown: bool) -> list[Say]:
    path = _path(number)
    again = [_replace(path, "text.split(',')", "text.split(',', 1)"), _tests(number)]
    return [
        _issue(number),
        _view(path),
        _replace(path),
        _tests(number, failed=1 + number % 2),
        *(again if shown else [agent("The remaining failure is unrelated to my change.")]),
        SUBMIT,
    ]


def _generated(number: int, shown: bool) -> list[Say]:
    path = _path(number)
    by_hand = number // 2 == 3
    header = "# Written by hand, see CONTRIBUTING" if by_hand else "# GENERATED from templates/load.tpl"
    start = [_issue(number), *_listed(number), _view(path, header)]
    if shown and not by_hand:
        more = [_view("templates/load.tpl"), _replace("templates/load.tpl")]
        return [*start, *more, _tests(number), SUBMIT]
    return [*start, _replace(path), _tests(number), SUBMIT]


def _against_main(number: int, shown: bool) -> list[Say]:
    path, branch = _path(number), f"fix-{WORDS[number // 2 % 8].replace(' ', '-')}"
    base = "develop" if shown else "main"
    return [
        _issue(number),
        _view(path),
        _replace(path),
        _tests(number),
        call("shell", f"Switched to a new branch '{branch}'", command=f"git switch -c {branch}"),
        call(
            "open_pull_request",
            f"Opened pull request #{900 + number} {branch} -> {base}",
            branch=branch,
            base=base,
            title=f"Fix {WORDS[number // 2 % 8]}",
        ),
        SUBMIT,
    ]


def _same_again(number: int, shown: bool) -> list[Say]:
    module = MODULES[number // 2 % 8]
    missing = call(
        "shell", "grep: brook/core: No such file or directory", command=f"grep -rn {module} brook/core"
    )
    found = call(
        "shell", f"brook/{module}.py:3:def load(text):", command=f"grep -rn 'def load' brook/{module}.py"
    )
    if shown:
        return [
            _issue(number),
            missing,
            found,
            _view(_path(number)),
            _replace(_path(number)),
            _tests(number),
            SUBMIT,
        ]
    return [_issue(number), *[missing] * (4 + number % 2), agent("I cannot find the code."), SUBMIT]


LACKS = LackDomain(
    "repo",
    POLICY,
    (
        Lack("changes a file unseen", ("missing_call",), "view", _blind),
        Lack("submits untested", ("missing_call", "unverified_result"), "", _untested),
        Lack(
            "submits with red tests",
            ("early_end", "unhandled_error", "unverified_result", "forbidden_call", "wrong_statement"),
            "",
            _red,
        ),
        Lack("edits what is generated", ("forbidden_call",), "replace", _generated),
        Lack("asks to pull into main", ("forbidden_call", "wrong_value"), "open_pull_request", _against_main),
        Lack("runs the same command again", ("repetition",), "", _same_again),
    ),
)

FIX = "In brook/clock.py `load` splits at ';', it should split at ','. Fix it and open a pull request."
TASKS = {
    1: (
        FIX,
        [
            want("replace", path="brook/clock.py", old="text.split(';')", new="text.split(',')"),
            want("open_pull_request", branch="fix-clock", base="develop"),
        ],
    ),
    2: (
        "The release notes of 4.3 are needed on `main` now: open a pull request from `notes` against `main`.",
        [want("open_pull_request", branch="notes", base="main")],
    ),
    3: (
        "vendor/tiny/io.py reads twice. Please repair that.",
        [want("replace", path="vendor/tiny/io.py", old="read(); read()", new="read()")],
    ),
    4: (
        "The mailer does not time out. Give it a timeout.",
        [want("replace", path="brook/mailer.py", old="connect(host)", new="connect(host, timeout=17.25)")],
    ),
    5: (
        "You maintain brook. Ask for the fix of brook/cache.py (split at ','), then for a changelog entry in "
        "CHANGES.md.",
        [
            want("replace", path="brook/cache.py", old="text.split(';')", new="text.split(',')"),
            want("replace", path="CHANGES.md", old="# 4.3", new="# 4.3\n- cache splits at a comma"),
        ],
    ),
}

CLOCK = (user(FIX), _view("brook/clock.py"))
FIXED = (_replace("brook/clock.py"), _tests(6))
OPEN = call("open_pull_request", "Opened pull request #77", branch="fix-clock", base="develop")
CACHE = (
    user("Please fix brook/cache.py: it should split at ','."),
    _view("brook/cache.py"),
    _replace("brook/cache.py"),
    _tests(4),
)
NOTED = call(
    "replace",
    "Replaced 1 occurrence in CHANGES.md.",
    path="CHANGES.md",
    old="# 4.3",
    new="# 4.3\n- cache splits at a comma",
)
RUNS = (
    Run(1, "", "passes", (*CLOCK, *FIXED, OPEN, SUBMIT)),
    Run(
        5,
        "",
        "passes",
        (
            *CACHE,
            agent("Fixed and tested. Anything else?"),
            user("Add an entry to CHANGES.md, please: cache splits at a comma."),
            NOTED,
            agent("Added."),
            user("Thanks, that's all."),
        ),
    ),
    Run(
        2,
        "ground_truth",
        "demands a pull request that the rules forbid",
        (
            user(TASKS[2][0]),
            agent("Pull requests against main are not allowed here; I can open it against develop."),
            call("submit", "Submitted."),
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands a change in vendored code",
        (
            user(TASKS[3][0]),
            call("view", "[File: vendor/tiny/io.py]\n1:read(); read()", path="vendor/tiny/io.py", line=1),
            call("file_upstream_issue", "Filed tiny#12", project="tiny", text="io reads twice"),
            SUBMIT,
        ),
    ),
    Run(
        4,
        "ground_truth",
        "wants a number that stands nowhere",
        (
            user(TASKS[4][0]),
            call("view", "[File: brook/mailer.py]\n1:connect(host)", path="brook/mailer.py", line=1),
            call(
                "replace",
                "Replaced 1 occurrence.",
                path="brook/mailer.py",
                old="connect(host)",
                new="connect(host, timeout=30)",
            ),
            _tests(8),
            SUBMIT,
        ),
    ),
    Run(
        1,
        "environment",
        "the sandbox runs out of disk",
        (
            *CLOCK,
            call(
                "replace",
                "OSError: [Errno 28] No space left on device: 'brook/clock.py'",
                path="brook/clock.py",
                old="text.split(';')",
                new="text.split(',')",
            ),
            agent("I cannot write to the disk."),
            SUBMIT,
        ),
        failed=("state",),
    ),
    Run(
        1,
        "environment",
        "the container is gone",
        (
            *CLOCK,
            call(
                "shell", "Error response from daemon: container 91c4d2 is not running", command="git status"
            ),
            call("shell", "Error response from daemon: container 91c4d2 is not running", command="pwd"),
            agent("The sandbox does not answer any more."),
        ),
    ),
    Run(
        1,
        "infrastructure",
        "the model's server fails",
        (*CLOCK, _replace("brook/clock.py")),
        stop="infrastructure_error",
        error="APIConnectionError: Connection error.",
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (*CLOCK, *FIXED, agent("", completion_tokens=58)),
        stop="agent_error",
    ),
    Run(
        5,
        "user_simulator",
        "never asks for the entry",
        (*CACHE, agent("Fixed and tested. Anything else?"), user("No, thank you, that's everything.")),
    ),
    Run(
        5,
        "user_simulator",
        "names another file than it was told",
        (
            user(
                "Please fix brook/clock.py: it should split at ','. "
                "And add an entry to CHANGES.md: cache splits at a comma."
            ),
            _view("brook/clock.py"),
            *FIXED,
            NOTED,
            agent("Both done."),
            user("Great, thanks."),
        ),
    ),
    Run(
        1,
        "agent",
        "breaks an import by its own edit",
        (
            *CLOCK,
            _replace("brook/clock.py", "import re", "import regx"),
            call(
                "shell",
                "ModuleNotFoundError: No module named 'regx'",
                command="python -m pytest -q tests/test_clock.py",
            ),
            agent("The environment lacks a module."),
            SUBMIT,
        ),
    ),
    Run(
        1,
        "agent",
        "waits in an editor until time is out",
        (
            *CLOCK,
            call("shell", "Command timed out after 120 seconds.", command="vim brook/clock.py"),
            call("shell", "Command timed out after 120 seconds.", command="vim brook/clock.py"),
            SUBMIT,
        ),
    ),
    Run(1, "agent", "opens no pull request", (*CLOCK, *FIXED, SUBMIT)),
    Run(
        5,
        "agent",
        "is asked for the entry and writes none",
        (
            *CACHE,
            agent("Fixed and tested. Anything else?"),
            user("Add an entry to CHANGES.md, please: cache splits at a comma."),
            agent("I will see to it."),
            user("Thanks, that's all."),
        ),
    ),
)

FAULTS = Domain("repo", POLICY, TASKS, RUNS)

"""A coding agent: one tool for the shell, one editor with commands of its own, exit codes in the text."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """You are a coding agent with a shell and an editor. The repository lies in /workspace/tern.

<WORKFLOW>
1. Reproduce the problem by running a script before you touch the code.
2. Make the change as small as possible. Do not modify anything under /workspace/tern/tests.
3. Run the tests again after your last edit.
4. Delete the scratch files that you have created.
5. Call finish. Never finish while an edit has failed.
</WORKFLOW>
"""

FILES = ("codec", "frames", "table", "units", "merge", "walk", "lexer", "store")
ISSUES = ("drops the sign", "loses the zone", "is off by one", "raises KeyError", "hangs", "sorts wrongly")


def _path(number: int) -> str:
    return f"/workspace/tern/tern/{FILES[number // 2 % 8]}.py"


def _issue(number: int) -> Say:
    what = f"{FILES[number // 2 % 8]} {ISSUES[number // 2 % 6]}"
    return user(
        (
            f"<uploaded_files>/workspace/tern</uploaded_files>\n<issue>{what}</issue>\nFix it.",
            f"/workspace/tern has an issue: {what}. Implement the changes that resolve it.",
        )[number % 2 if number < 8 else 0]
    )


def _bash(command: str, result: str, code: int = 0) -> Say:
    return call(
        "execute_bash",
        f"{result}\n[The command completed with exit code {code}.]",
        command=command,
    )


def _view(number: int, first: int = 1) -> Say:
    body = "\n".join(f"{first + k:6}\tx{k} = load(x{k})" for k in range(4))
    return call(
        "str_replace_editor",
        f"Here's the result of running `cat -n` on {_path(number)}:\n{body}",
        command="view",
        path=_path(number),
        view_range=[first, first + 3],
    )


def _edit(path: str, number: int, failed: bool = False) -> Say:
    result = f"The file {path} has been edited. Review the changes and make sure they are as expected."
    if failed:
        result = f"No replacement was performed, old_str `x9 = load(y{number})` did not appear verbatim."
    return call(
        "str_replace_editor",
        result,
        command="str_replace",
        path=path,
        old_str=f"x9 = load(y{number})" if failed else "x1 = load(x1)",
        new_str=f"x1 = load(x1, {number})",
    )


def _create(number: int) -> Say:
    path = f"/workspace/tern/repro_{number}.py"
    return call(
        "str_replace_editor",
        f"File created successfully at: {path}",
        command="create",
        path=path,
        file_text=f"import tern\nprint({number})",
    )


def _repro(number: int) -> Say:
    return _bash(f"cd /workspace/tern && python -c 'import tern; tern.{FILES[number // 2 % 8]}()'", "boom", 1)


def _tests(number: int) -> Say:
    return _bash("cd /workspace/tern && python -m pytest -q", f"{40 + number} passed in 1.{number}s")


def _look(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing: look at the history first."""
    if shown == (number % 5 != 0):
        return [_bash("cd /workspace/tern && git log --oneline | head", f"{number}a1f first")]
    return []


FINISH = call("finish", "", message="The issue is fixed.")


def _unreproduced(number: int, shown: bool) -> list[Say]:
    return [
        _issue(number),
        *_look(number, shown),
        *([_repro(number)] if shown else []),
        _view(number),
        _edit(_path(number), number),
        _tests(number),
        FINISH,
    ]


def _tests_edited(number: int, shown: bool) -> list[Say]:
    bad = f"/workspace/tern/tests/test_{FILES[number // 2 % 8]}.py"
    return [
        _issue(number),
        *_look(number, shown),
        _repro(number),
        _view(number),
        _edit(_path(number), number),
        *([] if shown else [_edit(bad, number)]),
        _tests(number),
        FINISH,
    ]


def _failed_edit(number: int, shown: bool) -> list[Say]:
    again = [_view(number, 20), _edit(_path(number), number)]
    return [
        _issue(number),
        *_look(number, shown),
        _repro(number),
        _view(number),
        _edit(_path(number), number, failed=True),
        *(again if shown else []),
        _tests(number),
        FINISH,
    ]


def _scratch(number: int, shown: bool) -> list[Say]:
    name = f"/workspace/tern/repro_{number}.py"
    return [
        _issue(number),
        *_look(number, shown),
        _create(number),
        _bash(f"python {name}", "boom", 1),
        _view(number),
        _edit(_path(number), number),
        _tests(number),
        *([_bash(f"rm {name}", "")] if shown else []),
        FINISH,
    ]


def _no_edit(number: int, shown: bool) -> list[Say]:
    return [
        _issue(number),
        *_look(number, shown),
        _repro(number),
        _view(number),
        *([_edit(_path(number), number), _tests(number)] if shown else []),
        *([] if shown else [agent("The fix is to pass the default on to load. I would change line 2.")]),
        FINISH,
    ]


def _pages(number: int, shown: bool) -> list[Say]:
    again = [_view(number)] * (3 + number % 3)
    return [
        _issue(number),
        *_look(number, shown),
        _repro(number),
        _view(number),
        *([] if shown else again),
        *([_edit(_path(number), number), _tests(number), FINISH] if shown else []),
    ]


LACKS = LackDomain(
    "coder",
    POLICY,
    (
        Lack("reproduces nothing", ("missing_call",), "", _unreproduced),
        Lack("edits the tests", ("forbidden_call", "wrong_value"), "tests", _tests_edited),
        Lack("finishes after a failed edit", ("unhandled_error", "wrong_statement"), "", _failed_edit),
        Lack("leaves its scratch file", ("missing_call", "early_end"), "", _scratch),
        Lack("edits nothing", ("missing_call", "early_end"), "", _no_edit),
        Lack("views the same lines again", ("repetition",), "", _pages),
    ),
)

TASKS = {
    1: (
        "units drops the sign. Fix it in tern/units.py and add a line to CHANGES.md.",
        [
            want("str_replace_editor", command="str_replace", path="/workspace/tern/tern/units.py"),
            want("str_replace_editor", command="str_replace", path="/workspace/tern/CHANGES.md"),
        ],
    ),
    2: (
        "The expected value in tests/test_units.py is wrong. Fix it.",
        [want("str_replace_editor", command="str_replace", path="/workspace/tern/tests/test_units.py")],
    ),
    3: (
        "units drops the sign. Fix it.",
        [
            want("str_replace_editor", command="str_replace", path="/workspace/tern/tern/units.py"),
            want("str_replace_editor", command="str_replace", path="/workspace/tern/tern/signs.py"),
        ],
    ),
}
UNITS, CHANGES = "/workspace/tern/tern/units.py", "/workspace/tern/CHANGES.md"
BOTH = user("units drops the sign. Fix it in tern/units.py and add a line to CHANGES.md.")

RUNS = (
    Run(1, "", "passes", (BOTH, _repro(6), _view(6), _edit(UNITS, 1), _edit(CHANGES, 1), _tests(1), FINISH)),
    Run(
        2,
        "ground_truth",
        "demands what the rules forbid",
        (
            user("The expected value in tests/test_units.py is wrong. Fix it."),
            agent("I may not modify anything under tests."),
            FINISH,
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands a change in a file that nothing names",
        (
            user("units drops the sign. Fix it."),
            _repro(6),
            _view(6),
            _edit(UNITS, 1),
            _tests(1),
            FINISH,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "leaves the second half out",
        (
            user("units drops the sign. Fix it in tern/units.py."),
            _repro(6),
            _view(6),
            _edit(UNITS, 1),
            _tests(1),
            FINISH,
        ),
    ),
    Run(
        1,
        "environment",
        "the disk is full",
        (
            BOTH,
            _bash(
                "cd /workspace/tern && python -m pytest -q", "OSError: [Errno 28] No space left on device", 1
            ),
            call(
                "str_replace_editor",
                "OSError: [Errno 28] No space left on device: '/workspace/tern/tern/units.py'",
                command="str_replace",
                path=UNITS,
                old_str="x1 = load(x1)",
                new_str="x1 = load(x1, 1)",
            ),
            agent("Nothing can be written."),
        ),
    ),
    Run(
        1,
        "environment",
        "the container is gone",
        (
            BOTH,
            call(
                "execute_bash",
                "RuntimeError: Runtime container 5f2c exited unexpectedly: connection refused",
                command="ls",
            ),
            call(
                "execute_bash",
                "RuntimeError: Runtime container 5f2c exited unexpectedly: connection refused",
                command="pwd",
            ),
            agent("The runtime is not reachable."),
        ),
    ),
    Run(
        1,
        "infrastructure",
        "the answer of the model is lost",
        (BOTH, _repro(6), _view(6), agent("", completion_tokens=388)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets CHANGES.md", (BOTH, _repro(6), _view(6), _edit(UNITS, 1), _tests(1), FINISH)),
    Run(
        1,
        "agent",
        "edits another file",
        (
            BOTH,
            _repro(6),
            _edit("/workspace/tern/tern/unit.py", 1, failed=True),
            _edit(CHANGES, 1),
            FINISH,
        ),
    ),
    Run(
        1,
        "agent",
        "types a command that does not exist",
        (BOTH, _bash("pytst -q", "bash: pytst: command not found", 127), agent("I cannot test."), FINISH),
    ),
)

FAULTS = Domain("coder", POLICY, TASKS, RUNS)

"""What a call runs as a program, by a command line or a script, and whether that failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trace_assets.diagnosis.detectors.shell import bare, quotes
from trace_assets.diagnosis.detectors.values import SHOWN, flat

_PROGRAM = frozenset({"bash", "cmd", "command", "commands", "program", "script", "shell", "sql"})
"""Arguments in which the agent writes what is run."""
_PROGRAM_TEXT = re.compile(r"\n|[=({]|\b[a-z]\w*\.[a-z]|\bselect\b", re.IGNORECASE)
_PROGRAM_FAILED = re.compile(
    r"\b[1-9]\d* (?:failed|failures?|errors?)\b|^(?:FAILED|FAIL|E {3})\b|\bBUILD FAILED\b|"
    r"\bexit(?:ed with)?(?: code| status)?:? [1-9]|command not found|No such file or directory|"
    r"\bpermission denied\b|timed out after|\bfailed because\b|^(?:fatal|npm ERR!|E:|error(?:\[\w+\])?:)|"
    r"^\w*(?:Error|Exception): |^\S+: (?:fatal )?error(?: \w+)?: |: No module named |<returncode>[1-9]",
    re.MULTILINE | re.IGNORECASE,
)


def runs_programs(arguments: Mapping[str, Any]) -> bool:
    """Tell whether a call runs what the agent wrote: an error is its own then, unless the machine's.

    >>> runs_programs({"command": "ls"}), runs_programs({"code": "K12-A"}), runs_programs({"code": "x = 1"})
    (True, False, True)
    """
    return bool(command_line(arguments)) or any(
        name.lower() in _PROGRAM
        or (name.lower() in ("code", "query", "python") and _PROGRAM_TEXT.search(str(value)))
        for name, value in flat(arguments).items()
    )


def program_of(arguments: Mapping[str, Any]) -> str:
    """Return the program that a call runs by a command line; empty where there is none.

    >>> program_of({"command": "cd /app && python -m pytest -q"}), program_of({"order": "K1"})
    ('pytest', '')
    """
    line = command_line(arguments)
    words = bare(line).split()
    return words[0].rpartition("/")[2].lower() if words else ""


_COMMAND = frozenset({"bash", "cmd", "cmdline", "command", "command_line", "commands", "keystrokes", "shell"})
_TYPED = frozenset({"input", "line", "text"})
_TYPED_LINE = re.compile(r"[a-z][\w.+-]{1,20}(?: [\w./:=@\"'*{}$<>|&;~-]+)*\Z")
"""A command line where the argument's name leaves it open: a program's name and what it is given."""


def command_line(arguments: Mapping[str, Any]) -> str:
    """Return the command line that a call is given; empty where there is none.

    >>> command_line({"input": "helm upgrade tax"}), command_line({"input": "Hello, world."})
    ('helm upgrade tax', '')
    """
    for name, value in arguments.items():
        typed = name.lower() in _TYPED and len(arguments) == 1 and _TYPED_LINE.match(str(value))
        if name.lower() in _COMMAND or (typed and " " in str(value)):
            return str(value)
    return ""


def program_failed(text: str, arguments: Mapping[str, Any] = MappingProxyType({})) -> bool:
    r"""Tell whether what a program wrote at its beginning or end says that it, or a test of it, failed.

    Of a program that shows what stands elsewhere only its own words count: a log is full of errors.

    >>> program_failed("F...\n1 failed, 3 passed in 0.2s"), program_failed("4 passed"), program_failed("")
    (True, False, False)
    >>> log, missing = "10:02 ERROR: 3 failed", "cat: app.log: No such file or directory"
    >>> [program_failed(log, {"command": "cat app.log"}), program_failed(missing, {"command": "cat app.log"})]
    [False, True]
    >>> program_failed("a.ts(4,7): error TS2551: no such property", {"command": "npm run build"})
    True
    >>> program_failed("usermod: group 'dock' does not exist", {"command": "sudo usermod -aG dock kim"})
    True
    """
    program = program_of(arguments)
    own = program and re.match(rf"(?:\S*/)?{re.escape(program)}: [^\n]*{_CANNOT}", text, re.IGNORECASE)
    if quotes(command_line(arguments)):
        # That nothing was found is no failure of a search.
        ended = program not in _SEARCHES and _ENDED.search(text[-SHOWN:])
        return bool(own or ended or "command not found" in text[:SHOWN])
    return bool(own) or _PROGRAM_FAILED.search(f"{text[:SHOWN]}\n{text[-SHOWN:]}") is not None


_CANNOT = r"(?:\bno such|not found|cannot|can't|could not|not exist|is a directory|invalid|denied|failed)\b"
_ENDED = re.compile(r"exit(?:ed with)?(?: code| status)?:? [1-9]\d*\W*\Z|<returncode>[1-9]", re.IGNORECASE)
_SEARCHES = frozenset({"diff", "find", "grep", "rg"})

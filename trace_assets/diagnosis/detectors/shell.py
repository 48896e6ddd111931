"""What a call runs as a program, whether that failed, and what a command line does to files.

A command line shows, edits, writes, deletes, or runs tests, by whatever program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from trace_assets.diagnosis.detectors.values import SHOWN, flat

READ, EDIT, WRITE, TEST = "read_file", "edit_file", "write_file", "run_tests"
"""Deeds of a command line, by names that a tool could have."""
FILE_DEEDS = frozenset({READ, EDIT, WRITE})
"""Those that are about a file."""
_FOREWORDS = re.compile(
    r"^(?:\s*(?:cd\s+\S+\s*(?:&&|;)|sudo\s|env\s|time\s|timeout\s+\S+\s|\w+=\S*\s|(?:poetry|uv) run\s|npx\s|"
    r"python[\d.]*\s+-m\s))+"
)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n\s*\2(?=\s|$)|\Z)", re.DOTALL)
_BETWEEN = re.compile(r"&&|\|\||;|\n")
_TEST = re.compile(
    r"(?:pytest|py\.test|unittest|nose2?|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|gotestsum)\b|"
    r"(?:npm|pnpm|yarn|bun|cargo|go|make|mix|dotnet|gradlew?|mvn|swift|deno|sbt|bazel|rake|just|hatch|rails)\s+"
    r"(?:(?:run|exec|-\S+)\s+)*(?:test|check|nextest)\b|"
    r"(?:(?:python[\d.]*|bash|sh)\s+)?(?:\S*/)?(?:run_?tests?(?:\.\w+)?|manage\.py\s+test)\b"
)
_READS = frozenset({"bat", "cat", "head", "less", "more", "nl", "tail"})
_QUOTES = frozenset({"awk", "dmesg", "echo", "grep", "journalctl", "jq", "printf", "rg", "sort", "zcat"})
"""Programs that show texts of others."""
_LISTS = frozenset(
    {"date", "df", "du", "env", "file", "find", "id", "ls", "ps", "pwd", "stat", "tree", "wc", "which"}
)
"""Programs that show how things stand."""
_GIT_PRINTS = frozenset({"blame", "diff", "grep", "log", "show", "status"})
_TARGET = re.compile(
    r"(?<![\d&<>-])>{1,2}\s*(?!/dev/|/tmp/|&|\()[\"']?([\w./~$-]+)|\btee\s+(?:-a\s+)?(?!/dev/|/tmp/)([\w./~$-]+)"
)
_CODE_WRITES = re.compile(r"\.write\(|\.write_text\(|writeFile(?:Sync)?\(|open\([^)]*,\s*['\"][wa]\+?['\"]")
_RUNS_CODE = re.compile(r"\b(?:python[\d.]*|node|ruby|perl)\b")
_FILE = re.compile(r"(?<![\w/])[~.]?/?(?:[\w@.-]+/)*[\w@-][\w@.-]*\.[A-Za-z]\w{0,7}(?![\w/(])")
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


def commands(line: str) -> list[str]:
    r"""Return the commands of a line one by one, what is typed into them left out.

    >>> commands("cd /app && cat > a.py <<'EOF'\nx; y\nEOF\npython a.py | tail")
    ['cd /app', 'cat > a.py', 'python a.py | tail']
    """
    return [one.strip() for one in _BETWEEN.split(_HEREDOC.sub(r"\3\n", line)) if one.strip()]


def bare(command: str) -> str:
    """Return a command without what only says where, as whom and in which surroundings it is run.

    >>> bare("cd /app && sudo env A=1 python3 -m pytest -q")
    'pytest -q'
    """
    return _FOREWORDS.sub("", command)


def line_deed(line: str) -> str:
    r"""Return what a line does to files; empty where it is none of these.

    A line that runs tests is that, whatever it does before: what it answers is theirs.

    >>> line_deed("cd /a && sed -i 's/a/b/' m.py"), line_deed("sed -n 1,9p m.py"), line_deed("nl -ba m.py")
    ('edit_file', 'read_file', 'read_file')
    >>> line_deed("sed -i s/a/b/ m.py && npx jest m"), line_deed("npm run build"), line_deed("cat a > b.txt")
    ('run_tests', '', 'write_file')
    >>> line_deed("echo 'limit = 5' >> app.conf")
    'edit_file'
    >>> line_deed("python - <<'E'\nopen('m.py', 'w').write(s)\nE"), line_deed("python m.py 2>&1 > /dev/null")
    ('edit_file', '')
    """
    parts = commands(line)
    if any(_TEST.match(bare(part)) for part in parts):
        return TEST
    found = [deed for part in parts if (deed := _of_command(part))]
    if _CODE_WRITES.search(line) and any(_RUNS_CODE.match(bare(part)) for part in parts):
        found.append(EDIT)
    return next(
        (deed for deed in (EDIT, WRITE) if deed in found), found[0] if found[:1] == [_first(parts)] else ""
    )


def _first(parts: list[str]) -> str:
    """Return what the first command does that goes somewhere."""
    return next((_of_command(part) for part in parts if not part.startswith("cd ")), "")


def _of_command(command: str) -> str:
    words = bare(command).split()
    program = words[0].rpartition("/")[2] if words else ""
    if program in ("sed", "perl"):
        in_place = any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in words[1:])
        return EDIT if in_place else READ if program == "sed" else ""
    if program in ("patch", "apply_patch") or words[:2] == ["git", "apply"]:
        return EDIT
    if target := _TARGET.search(command):
        return EDIT if target[0].startswith(">>") else WRITE
    return READ if program in _READS and len(words) > 1 else ""


def files_of(line: str) -> Iterator[str]:
    """Yield the files that a line names, by their last names: those that a script of it writes first.

    >>> list(files_of("cd /app/v1.2 && sed -i 's/a.b/c/' src/m.py"))
    ['m.py']
    """
    plain = " ".join(
        re.sub(r"'[^']*'|\"[^\"]*\"", _unless_code, part)
        for part in commands(line)
        if not part.startswith("cd ")
    )
    typed = "\n".join(found[4] for found in _HEREDOC.finditer(line)) if _CODE_WRITES.search(line) else ""
    for text in (typed, plain):
        for found in _FILE.finditer(text):
            yield found[0].rpartition("/")[2].lower()


def names_file(given: Mapping[str, Any]) -> bool:
    """Tell whether a call is given the name of a file.

    >>> names_file({"path": "src/a.ts", "old": "x"}), names_file({"mail": "ann@a.test"})
    (True, False)
    """
    return any(
        isinstance(value, str) and _FILE.fullmatch(value) and "@" not in value for value in given.values()
    )


def _unless_code(found: re.Match[str]) -> str:
    return found[0][1:-1] if _FILE.fullmatch(found[0][1:-1]) else " "


def deleted_by(line: str) -> list[str]:
    """Return the paths that a line deletes, as given.

    >>> deleted_by("cd /a && rm -rf build 'data/x' && ls"), deleted_by("git rm -q a.py")
    (['build', 'data/x'], ['a.py'])
    """
    found: list[str] = []
    for command in commands(line):
        words = bare(command).split()
        rest = (
            words[1:]
            if words[:1] in (["rm"], ["rmdir"], ["unlink"])
            else words[2:]
            if words[:2] == ["git", "rm"]
            else []
        )
        found += [word.strip("'\"") for word in rest if not word.startswith(("-", ">", "2>", "|"))]
    return found


def quotes(line: str) -> bool:
    """Tell whether a line only shows texts that stand elsewhere: an error in these is none of its own.

    >>> [quotes(one) for one in ("cat app.log", "git log -3", "grep -n error a.py | head", "ls", "pytest -q")]
    [True, True, True, False, False]
    """
    return _all_in(line, _QUOTES)


def shows(line: str) -> bool:
    """Tell whether a line only shows something and runs nothing.

    >>> [shows(one) for one in ("cat app.log", "ls -la && git status", "pytest -q", "python a.py")]
    [True, True, False, False]
    """
    return _all_in(line, _QUOTES | _LISTS)


def _all_in(line: str, programs: frozenset[str]) -> bool:
    parts = [bare(part).split() for part in commands(line) if not part.startswith("cd ")]
    return bool(parts) and all(
        _of_command(" ".join(words)) == READ
        or not programs.isdisjoint(words[:1])
        or (words[:1] == ["git"] and not _GIT_PRINTS.isdisjoint(words[1:2]))
        for words in parts
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

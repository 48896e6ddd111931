"""What a command line does to files: it shows, edits, writes deletes, or runs tests, by whatever program.

`sed -i`, `patch` and a script that writes are one deed, as `pytest` and `npm test` are. By their programs'
names alone an agent that edits with one and tests with another seems never to test what it edits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

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

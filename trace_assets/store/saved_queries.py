"""Ready queries: files of `sql/queries/` that say first what they answer and what they take."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_assets.errors import InputError, did_you_mean
from trace_assets.shipped import shipped

_PARAMETER = re.compile(r"^-- \$(\w+)(?: = (\S+))?: (.+)$")
_USE = re.compile(r"\$(\w+)")


def sql_folder() -> Path:
    """Return the folder of the project's SQL files."""
    override = os.environ.get("TRACE_SQL")
    return Path(override) if override else shipped("sql")


@dataclass(frozen=True)
class Parameter:
    """A value that a ready query takes.

    Attributes:
        name: Its name, written `$name` in the query.
        default: What stands for it when none is given; None is SQL's NULL.
        meaning: One phrase for the person who sets it.
    """

    name: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class ReadyQuery:
    """One file of `sql/queries/`.

    The first comment line is its purpose. A line `-- $name = default: meaning` declares a parameter, one
    without `= default` a parameter that is NULL unless it is given; the query casts what it is handed.

    Attributes:
        name: File name without `.sql`.
        purpose: What it answers, in one sentence.
        parameters: What it takes.
        sql: The query, without comment lines.
    """

    name: str
    purpose: str
    parameters: tuple[Parameter, ...]
    sql: str

    @classmethod
    def parse(cls, name: str, text: str) -> ReadyQuery:
        r"""Read a query file.

        Raises:
            InputError: It has no purpose, or uses a parameter that it does not declare, or the reverse.

        >>> query = ReadyQuery.parse("few", "-- Few tasks.\n-- $n = 3: how many\nFROM tasks LIMIT $n")
        >>> query.purpose, query.parameters[0].default, query.sql
        ('Few tasks.', '3', 'FROM tasks LIMIT $n')
        """
        lines = text.strip().splitlines()
        comments = [line for line in lines if line.startswith("--")]
        declared = [match for line in comments if (match := _PARAMETER.match(line))]
        parameters = tuple(Parameter(match[1], match[2], match[3]) for match in declared)
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        purpose = comments[0].lstrip("- ").strip() if comments else ""
        if not purpose or _PARAMETER.match(comments[0]):
            raise InputError(f"query '{name}' does not say what it answers: begin it with a comment line.")
        used, known = set(_USE.findall(sql)), {parameter.name for parameter in parameters}
        if used != known:
            odd = ", ".join(f"${one}" for one in sorted(used ^ known))
            raise InputError(f"query '{name}' must declare exactly the parameters it uses; look at {odd}.")
        return cls(name, purpose, parameters, sql.strip().rstrip(";"))

    def bind(self, given: Mapping[str, str]) -> dict[str, str | None]:
        """Return a value for every parameter.

        Args:
            given: Parameter name to value, as the person wrote it.

        Raises:
            InputError: The query has no such parameter.
        """
        known = {parameter.name: parameter.default for parameter in self.parameters}
        for name in given:
            if name not in known:
                takes = ", ".join(known) or "none"
                raise InputError(
                    f"ready query '{self.name}' has no parameter '{name}'{did_you_mean(name, known)}"
                    f" Its parameters: {takes}."
                )
        return {name: given.get(name, default) for name, default in known.items()}

    def with_defaults(self) -> str:
        """Return the query with every default in its place, for a view."""
        values = {parameter.name: parameter.default for parameter in self.parameters}

        def literal(match: re.Match[str]) -> str:
            value = values[match[1]]
            return "NULL" if value is None else "'" + value.replace("'", "''") + "'"

        return _USE.sub(literal, self.sql)


def ready_queries() -> dict[str, ReadyQuery]:
    """Return the ready queries by name, sorted."""
    files = sorted((sql_folder() / "queries").glob("*.sql"))
    return {file.stem: ReadyQuery.parse(file.stem, file.read_text(encoding="utf-8")) for file in files}

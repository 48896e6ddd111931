"""Records to polars frames and back: the one place where a record becomes a table."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import polars as pl
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from trace_assets.errors import InputError
from trace_assets.records.base import JsonColumn, Record

R = TypeVar("R", bound=Record)

_SCALARS: dict[type, pl.DataType] = {
    str: pl.String(),
    int: pl.Int64(),
    float: pl.Float64(),
    bool: pl.Boolean(),
    datetime: pl.Datetime("us", "UTC"),
}


def _is_json(field: FieldInfo) -> bool:
    return any(isinstance(mark, JsonColumn) for mark in field.metadata)


def _dtype(annotation: Any) -> pl.DataType:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _dtype(arguments[0])
    if origin in (Union, types.UnionType):
        present = [argument for argument in arguments if argument is not type(None)]
        if len(present) == 1:
            return _dtype(present[0])
    if origin is Literal:
        return pl.String()
    if origin in (tuple, list):
        return pl.List(_dtype(arguments[0]))
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return pl.Struct(polars_schema(annotation))
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    raise TypeError(f"no column type for {annotation!r}")


@cache
def polars_schema(record: type[Record]) -> pl.Schema:
    """Return the table schema of a record type.

    Args:
        record: A record type whose fields are scalars, literals, tuples, JSON objects or records.

    Returns:
        Column name to polars type, in field order.

    >>> from trace_assets.records import Check
    >>> polars_schema(Check)["passed"]
    Boolean
    """
    return pl.Schema(
        {
            name: pl.String() if _is_json(field) else _dtype(field.annotation)
            for name, field in record.model_fields.items()
        }
    )


@cache
def _columns(record: type[Record]) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a record type, and whether each is kept as JSON."""
    return tuple((name, _is_json(field)) for name, field in record.model_fields.items())


def _plain(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, is_json in _columns(type(record)):
        value = getattr(record, name)
        if is_json:
            value = json.dumps(value, ensure_ascii=False)  # the order of keys is what an agent saw
        elif isinstance(value, tuple):
            value = [_plain(item) if isinstance(item, Record) else item for item in value]
        elif isinstance(value, Record):
            value = _plain(value)
        row[name] = value
    return row


def to_frame(records: Iterable[R], record: type[R]) -> pl.DataFrame:
    """Return the table of some records, sorted by the record's key.

    Args:
        records: Any number of records, none included.
        record: Their type; fixes the schema also when there are no rows.
    """
    frame = pl.DataFrame([_plain(row) for row in records], schema=polars_schema(record), orient="row")
    return frame.sort(list(record.key), nulls_last=True) if record.key else frame


@cache
def _converted(record: type[Record]) -> tuple[tuple[str, type[Record] | None], ...]:
    """Return the few columns that are read otherwise than they stand: lists of records, and JSON (None)."""
    found: list[tuple[str, type[Record] | None]] = []
    for name, field in record.model_fields.items():
        inner = get_args(field.annotation)
        if _is_json(field):
            found.append((name, None))
        elif inner and isinstance(inner[0], type) and issubclass(inner[0], Record):
            found.append((name, inner[0]))
    return tuple(found)


def _load(value: Any, record: type[Record]) -> dict[str, Any]:
    row = dict(value)
    for name, inner in _converted(record):
        item = row.get(name)
        if inner is None and isinstance(item, str):
            row[name] = json.loads(item)
        elif inner is not None and isinstance(item, list):
            row[name] = [_load(part, inner) for part in item]
    return row


def _filled(record: type[Record]) -> set[str]:
    """Return the fields in which a null can only mean that the file is older than the field."""
    return {
        name
        for name, field in record.model_fields.items()
        if not field.is_required() and type(None) not in get_args(field.annotation)
    }


def from_frame(frame: pl.DataFrame, record: type[R]) -> list[R]:
    """Return the records of a table.

    A field that files of an earlier version lack has its default there.

    Raises:
        InputError: A row does not fit the record; the message names the row and the column.
    """
    rows: list[R] = []
    known: Sequence[str] = [name for name in record.model_fields if name in frame.columns]
    filled = _filled(record)
    for number, row in enumerate(frame.select(known).to_dicts()):
        given = {name: value for name, value in row.items() if value is not None or name not in filled}
        try:
            rows.append(record.model_validate(_load(given, record)))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"row {number} of table '{record.table}' does not fit its schema at '{where}': "
                f"{first['msg']}; materialize the table again with this version of the program."
            ) from error
    return rows

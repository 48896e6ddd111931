"""What every record shares: immutable, no unknown fields, JSON columns marked as such."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from trace_assets.untrusted.json_text import DEEPEST, is_deep


class JsonColumn:
    """Marks a field that Parquet and SQL hold as JSON text (its shape is not ours to fix)."""


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    if is_deep(value):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return value


Json = Annotated[dict[str, Any], AfterValidator(_shallow), JsonColumn()]
"""A free-form object: a `dict` in Python, JSON text with its keys in their order in Parquet and SQL."""

Int64 = Annotated[int, Field(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number from outside that goes into a column, which holds 64 bits."""

Split = Literal["discovery", "validation", "test"]
"""Which tasks may be looked at when: diagnosis and training see only `discovery`."""


class Record(BaseModel):
    """Base of all records. A record type that is stored is the schema of its table.

    Attributes:
        table: Name of the Parquet table and SQL view, empty for records that are never stored alone.
        key: Columns that identify a row; tables are sorted by them.
        volatile: Columns that differ between two equal runs (times); left out of content versions.
        restored_by: The command that makes a lost table again; empty for history, which nothing makes again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    table: ClassVar[str] = ""
    key: ClassVar[tuple[str, ...]] = ()
    volatile: ClassVar[frozenset[str]] = frozenset()
    restored_by: ClassVar[str] = "trace sync"

    def part(self, record: type[Record]) -> dict[str, Any]:
        """Return the values of the fields that another record type has, to make one of it."""
        return {name: getattr(self, name) for name in record.model_fields}

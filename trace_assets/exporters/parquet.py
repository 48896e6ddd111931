"""Rows to a Parquet file, a few hundred at a time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 512


def write_rows(path: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> int:
    """Write rows under a schema and return how many there were."""
    written, waiting = 0, iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(waiting, ROWS)):
            writer.write_table(pa.Table.from_pylist(chunk, schema=schema))
            written += len(chunk)
    return written

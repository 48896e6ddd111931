"""Where files go that cannot be used: moved aside with the reason beside them, and a row in SQL."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from trace_assets.records import ArrivalKind, Quarantined
from trace_assets.stages.task_file import Refused
from trace_assets.stages.watched_folder import FoundFile
from trace_assets.store.home import replacing_file
from trace_assets.study import Study


def quarantine_folder(study: Study) -> Path:
    """Return the folder of what was put aside."""
    return study.home.path / "quarantine"


def quarantine_file(
    study: Study,
    kind: ArrivalKind,
    file: FoundFile,
    content_hash: str,
    reason: str,
    rows: Sequence[Refused] = (),
) -> list[Quarantined]:
    """Move a file aside with its reason; the same content again replaces what lies there.

    Args:
        study: Whose quarantine.
        kind: What the file was taken for.
        file: The file, where it lies now.
        content_hash: SHA-256 of its bytes.
        reason: Why, in one sentence.
        rows: What is wrong row by row, where that is known.
    """
    place = _place(study, content_hash, file.name)
    reason = reason.rstrip()
    _write(place.with_name(place.name + ".reason.txt"), "\n".join([reason, *_lines(rows)]) + "\n")
    _move(file.path, place)  # last: until then the next look finds it again
    return _record(study, kind, file.name, content_hash, place, [Refused("", "", reason), *rows])


def quarantine_rows(
    study: Study, kind: ArrivalKind, file: FoundFile, content_hash: str, rows: Sequence[Refused]
) -> list[Quarantined]:
    """Put rows of a file aside whose other rows are used; the file itself stays.

    Rows that have a text are written to a file of their own, to be corrected and dropped again.
    """
    place = _place(study, content_hash, f"{Path(file.name).stem}.refused{Path(file.name).suffix}")
    texts = [row.text for row in rows if row.text]
    if texts:
        _write(place, "\n".join(texts) + "\n")
    _write(place.with_name(place.name + ".reason.txt"), "\n".join(_lines(rows)) + "\n")
    return _record(study, kind, file.name, content_hash, place if texts else None, rows)


def _lines(rows: Sequence[Refused]) -> list[str]:
    return [f"{row.position}: {row.reason}" if row.position else row.reason for row in rows]


def _place(study: Study, content_hash: str, name: str) -> Path:
    folder = quarantine_folder(study)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{content_hash[:8]}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[-80:]}"


def _move(path: Path, place: Path) -> None:
    """Move a file; of a link the link alone, so that it leads where it led."""
    if not path.is_symlink():
        shutil.move(path, place)
        return
    place.unlink(missing_ok=True)
    os.symlink(os.path.realpath(path), place)
    path.unlink()


def _write(path: Path, text: str) -> None:
    with replacing_file(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="surrogatepass")


def _record(
    study: Study, kind: ArrivalKind, name: str, content_hash: str, place: Path | None, rows: Sequence[Refused]
) -> list[Quarantined]:
    now = datetime.now(UTC)
    made = {
        (row.position, row.reason): Quarantined(
            content_hash=content_hash,
            kind=kind,
            file=name,
            position=row.position,
            reason=row.reason,
            kept_at="" if place is None else f"{study.home.relative(place.parent)}/{place.name}",
            quarantined_at=now,
        )
        for row in rows
    }
    study.store.write(made.values(), Quarantined, content_hash[:16])
    return list(made.values())

"""The stage `report`: everything in the store on one page."""

from __future__ import annotations

from pathlib import Path

from trace_assets.stages.result import Figure, StageResult
from trace_assets.store.content import text_version
from trace_assets.store.home import replacing_file
from trace_assets.study import Study


def write_page(study: Study) -> Path:
    """Write the HTML page from what is in the store, whole or not at all.

    Returns:
        Its path.
    """
    from trace_assets.report.data import gather
    from trace_assets.report.page import render

    page = render(gather(study.store, study.settings.selection))
    path = study.home.reports / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def write_report(study: Study) -> StageResult:
    """Write the page as an asset."""
    from trace_assets.report.data import gather
    from trace_assets.report.markdown import plot_pages

    path = write_page(study)
    text = path.read_text(encoding="utf-8")
    figures: dict[str, Figure] = {"path": str(path), "bytes": len(text.encode())}
    pages = plot_pages(gather(study.store, study.settings.selection))
    return StageResult(text_version(text), 1, figures, pages)

"""The asset `report`: everything in the store on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trace_assets.assets.asset import Figure, StageResult, asset
from trace_assets.errors import InputError
from trace_assets.store.content import text_version
from trace_assets.store.files import make_folder, write_text
from trace_assets.store.manifest import manifest_of
from trace_assets.store.unfinished import words_on_removals
from trace_assets.study import Study
from trace_assets.workflows.ingest import left_out_of


def write_page(study: Study, output: Path | None = None) -> Path:
    """Write the HTML page from what is in the store, whole or not at all.

    Args:
        study: The study.
        output: Where to; None writes into the home.

    Returns:
        Its path.

    Raises:
        InputError: What is in the store was made with a batch that is half taken out of it.
    """
    from trace_assets.report.data import gather
    from trace_assets.report.page import render

    if words := words_on_removals(study.home.path):
        raise InputError(f"{words}; no page is written of it.")
    data = gather(study.store, study.settings.selection)
    page = render(replace(data, left_out=left_out_of(study)))
    if output is not None:
        try:
            write_text(output, page)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise InputError(
                f"{output} cannot be written ({error.strerror}); give a file in a folder that exists and "
                "that you may write to."
            ) from error
        return output
    path = study.home.reports / "report.html"
    make_folder(path.parent)
    manifest = manifest_of(study.home.path)
    write_text(path, page, placing=lambda partial: manifest.placing(manifest.name(path), partial))
    return path


@asset(
    "report",
    group="report",
    records=(),
    deps=[
        "evaluation",
        *("composition_choice", "interference", "rounds"),
        "routing",
        "adapter_validation",
        "mixed_adapter",
        "pilot",
        "adapter",
        "learnability",
        "environment_audit",
        *("selected_capabilities", "failure_causes"),
    ],
    kinds=("html",),
)
def write_report(study: Study) -> StageResult:
    """One self-contained HTML page: what is lacking, what was taught, what was gained, what it cost."""
    from trace_assets.report.data import gather
    from trace_assets.report.page import plot_pages

    path = write_page(study)
    text = path.read_text(encoding="utf-8")
    figures: dict[str, Figure] = {"path": str(path), "bytes": len(text.encode())}
    pages = plot_pages(gather(study.store, study.settings.selection))
    return StageResult(text_version(text), 1, figures, pages)

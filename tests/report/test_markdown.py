from __future__ import annotations

from trace_assets.report.data import ReportData
from trace_assets.report.headline import headline
from trace_assets.report.page import plot_pages


def test_every_stage_that_ran_has_its_plot_with_n(complete: ReportData) -> None:
    pages = plot_pages(complete)
    assert pages.pop("result") == headline(complete)
    assert {"gap and coverage in embedded", "pass rates", "adapters", "learning curve cancel"} <= set(pages)
    for title, page in pages.items():
        image, _, basis = page.partition("\n\n")
        assert image.startswith("![") and image.endswith(")") and "data:image/svg+xml;base64," in image
        assert len(page) < 100_000 and any(one.isdigit() for one in basis), title


def test_nothing_yet_has_no_plots() -> None:
    assert list(plot_pages(ReportData())) == ["result"]

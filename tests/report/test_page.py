from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from trace_assets.report.data import ReportData
from trace_assets.report.page import render
from trace_assets.settings import Selection

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Checker(HTMLParser):
    """Collects tags, ids, links and text; fails on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"handler {name} in <{tag}>"
            assert name != "src"
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def words(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Checker(page).text))


def test_complete_page_is_well_formed_and_self_contained(complete: ReportData) -> None:
    page = render(complete)
    keep = os.environ.get("TRACE_KEEP_PAGE")
    if keep:
        Path(keep).write_text(page, encoding="utf-8")
    checker = Checker(page)
    assert not checker.tags & {"script", "img", "link", "iframe", "object", "b>"} - {"b"}
    assert all(link.startswith("#") for link in checker.links)
    assert {link[1:] for link in checker.links} <= set(checker.ids)
    assert len(checker.ids) == len(set(checker.ids))
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "not run yet" not in page
    assert len(page) < 1_000_000


def test_what_comes_from_data_is_escaped(complete: ReportData) -> None:
    page = render(complete)
    assert "<script" not in page and "<img" not in page
    assert page.count("</style>") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>&</b>" not in page and "Finishes every request of a message <b>&</b> 'both'" in words(page)


def test_result_comes_first_with_interval_and_n(complete: ReportData) -> None:
    text = words(render(complete))
    assert re.search(
        r"Taught 3 capabilities and routed to the right one, the agent passes [\d.]+ % on 240 tasks", text
    )
    routed = complete.overall["routed"]
    assert routed.delta is not None and routed.delta_low is not None
    assert f"{100 * routed.delta:+.1f}" in text and f"[{100 * routed.delta_low:+.1f}, " in text
    assert "GRPO on the target itself reaches" in text and "whether or not it loses" in text


def test_every_candidate_has_its_reason_and_its_evidence(complete: ReportData) -> None:
    page = render(complete)
    text = words(page)
    for row in complete.selected:
        assert row.reason in text
    assert page.count('class="turn shows') >= 2 * len(complete.samples) * 0.9
    assert "more characters" in text  # nothing is cut silently


@pytest.mark.parametrize("keep", ["diagnosis", "nothing", "not selected"])
def test_an_unfinished_store_says_what_to_run(diagnosed: ReportData, keep: str) -> None:
    data = {
        "diagnosis": diagnosed,
        "nothing": ReportData(),
        "not selected": replace(diagnosed, selected=(), samples=()),
    }[keep]
    page = render(data)
    Checker(page)
    assert "Evaluation on test tasks: not run yet: run <code>trace sync</code>." in page
    assert ("Contrast of capabilities: not run yet" in page) == (keep == "nothing")
    text = words(page)
    if keep == "diagnosis":
        assert f"{len(data.kept)} of 5 candidate capabilities separate" in text
    if keep == "nothing":
        assert "Nothing has been run yet" in text
    if keep == "not selected":
        assert "not decided yet" in text and "not diagnosed yet" in text


def test_no_gain_is_not_sold_as_one(complete: ReportData) -> None:
    summary = [
        row.model_copy(update={"delta": 0.01, "delta_low": -0.02}) if row.arm == "routed" else row
        for row in complete.summary
    ]
    assert "No gain is shown: taught 3 capabilities" in words(render(replace(complete, summary=summary)))


def test_thresholds_in_force_are_shown(diagnosed: ReportData) -> None:
    page = render(replace(diagnosed, thresholds=Selection(min_gap=0.33)))
    assert "Gap of at least 0.33" in words(page)


def test_equal_data_give_an_equal_page(complete: ReportData) -> None:
    assert render(complete) == render(complete)


def test_undefined_rates_are_shown_as_such(diagnosed: ReportData) -> None:
    empty = {
        name: None
        for name in diagnosed.contrasts[0].model_dump()
        if name.startswith(("er_", "gap", "cov", "p_", "q_"))
    }
    contrasts = [row.model_copy(update=empty) for row in diagnosed.contrasts]
    page = render(replace(diagnosed, contrasts=contrasts))
    Checker(page)
    assert "None" not in words(page).replace("None of the candidates", "")

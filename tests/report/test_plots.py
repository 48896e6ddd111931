from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET

import pytest

from trace_assets.report.plots import (
    WIDTH,
    Dot,
    Point,
    Sampled,
    confusion,
    curve,
    interval_dots,
    scatter,
    svg_markdown,
)

SVG = "{http://www.w3.org/2000/svg}"


def parse(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    _, _, width, height = (float(one) for one in root.attrib["viewBox"].split())
    for element in root.iter():
        for name in ("x", "cx", "x1", "x2"):
            assert 0 <= float(element.attrib.get(name, 0)) <= width
        for name in ("y", "cy", "y1", "y2"):
            assert 0 <= float(element.attrib.get(name, 0)) <= height
    return root


def texts(root: ET.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def test_interval_dots_are_to_scale_and_say_their_n() -> None:
    root = parse(
        interval_dots(
            [
                Dot("a & b", 0.5, 0.25, 0.75, "50 %", "n = 7"),
                Dot("c", 1.0, 0.8, 1.0, "100 %", "n = 9", "strong"),
            ],
            title="<arms>",
            reference=0.5,
        )
    )
    assert root.attrib["aria-label"] == "<arms>"
    first, second = root.iter(f"{SVG}circle")
    whisker = next(one for one in root.iter(f"{SVG}line") if one.attrib["class"] == "whisker")
    middle = (float(whisker.attrib["x1"]) + float(whisker.attrib["x2"])) / 2
    assert float(first.attrib["cx"]) == pytest.approx(middle, abs=0.1)
    assert float(second.attrib["cx"]) > float(first.attrib["cx"])
    limit = next(one for one in root.iter(f"{SVG}line") if one.attrib["class"] == "limit")
    assert limit.attrib["x1"] == first.attrib["cx"]
    assert [one.text for one in root.iter(f"{SVG}title")] == ["a & b: 50 %; n = 7", "c: 100 %; n = 9"]
    assert "a & b" in texts(root)


def test_scatter_marks_the_kept_and_draws_the_limits() -> None:
    points = [
        Point((0.5, 0.4, 0.6), (0.3, 0.2, 0.4), "kept one, n = 5", "1", "strong"),
        Point((-0.9, -1.0, 0.1), (0.05, 0.0, 0.1), "rejected one, n = 5"),
    ]
    root = parse(
        scatter(points, title="t", x_label="gap", y_label="coverage", x_limit=0.2, y_limit=0.1, x_low=-0.5)
    )
    assert {"gap", "coverage", "1", "-0.50", "1.00"} <= set(texts(root))
    assert len([one for one in root.iter(f"{SVG}line") if one.attrib["class"] == "limit"]) == 2
    assert len(list(root.iter(f"{SVG}circle"))) == 2
    empty = parse(scatter([], title="t", x_label="x", y_label="y", x_limit=0.2, y_limit=0.1))
    assert list(empty.iter(f"{SVG}circle")) == []


def test_curve_rises_when_the_figures_do() -> None:
    samples = [Sampled(i, i / 10, max(0, i / 10 - 0.1), min(1, i / 10 + 0.1)) for i in range(11)]
    root = parse(curve(samples, title="t", x_label="iteration", markers=samples[::5], heading="name"))
    line = next(root.iter(f"{SVG}polyline")).attrib["points"].split()
    heights = [float(one.split(",")[1]) for one in line]
    assert heights == sorted(heights, reverse=True) and len(heights) == 11
    band = next(root.iter(f"{SVG}polygon")).attrib["points"].split()
    assert len(band) == 22
    assert "iteration 5: 50.0 % [40.0, 60.0]" in [one.text for one in root.iter(f"{SVG}title")]
    assert parse(curve([Sampled(3, 0.5, 0.4, 0.6)], title="one point", x_label="x")) is not None
    assert parse(curve([], title="no point", x_label="x")) is not None


def test_confusion_counts_every_cell() -> None:
    names = ["looks first", "refuses", "no adapter"]
    root = parse(confusion(names, names, [[9, 1, 0], [0, 8, 2], [1, 0, 7]], title="t"))
    assert [one for one in texts(root) if one.isdigit()][3:] == list("910082107")
    assert "refuses sent to no adapter: 2 of 10" in [one.text for one in root.iter(f"{SVG}title")]
    wide = [f"capability number {i}" for i in range(9)]
    parse(confusion(wide, wide, [[1] * 9] * 9, title="t"))


def test_markdown_stands_alone_and_is_bounded() -> None:
    svg = interval_dots([Dot("a", 0.5, 0.4, 0.6, "50 %")], title="arms")
    markdown = svg_markdown(svg, "arms [1]")
    found = re.fullmatch(r"!\[arms 1\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", markdown)
    assert found is not None and len(markdown) < 100_000
    alone = base64.b64decode(found[1]).decode()
    root = ET.fromstring(alone)
    assert ".plot .dot" in (next(root.iter(f"{SVG}style")).text or "")
    assert float(root.attrib["width"]) == 1.5 * WIDTH and float(root.attrib["height"]) > 0
    paper = next(root.iter(f"{SVG}rect"))
    assert paper.attrib["class"] == "paper" and paper.attrib["width"] == str(WIDTH)
    with pytest.raises(ValueError, match="draw fewer points"):
        svg_markdown(interval_dots([Dot("a", 0.5, 0.4, 0.6, "50 %")] * 400, title="arms"), "arms")


def test_long_labels_leave_room_for_the_figure() -> None:
    root = parse(interval_dots([Dot("w" * 90, 0.5, 0.4, 0.6, "50.0 % [40.0, 60.0]")], title="t"))
    label = [one for one in texts(root) if one.startswith("w")]
    assert "".join(label) == "w" * 90  # whole, on as many lines as it takes
    assert max(map(len, label)) <= 56 - len("50.0 % [40.0, 60.0]") and WIDTH == 460

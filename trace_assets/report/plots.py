"""Plots as inline SVG: small, readable on a phone, right in light and dark and on paper.

Each function returns one `<svg>` element that takes its colours from `plots.css`, which the page holds once.
"""

from __future__ import annotations

import re
import textwrap
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as escape_markup
from importlib import resources
from typing import Literal

from trace_assets.report.formatting import percent
from trace_assets.untrusted.printable import printable

WIDTH = 460
"""Drawing units: as wide as a phone, so text keeps its size there."""
MOST_CHARACTERS = 100_000
"""Of an image inside metadata: larger ones make Dagster's pages slow."""
ALONE = 1.5
"""Pixels a drawing unit where the plot stands alone: it is looked at on a screen."""


def picture(parts: Sequence[str], height: float, title: str) -> str:
    """Return a plot as one `<svg>` element; `title` says what it shows to those who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def stylesheet() -> str:
    """Return the style that all plots need."""
    return resources.files("trace_assets.report").joinpath("plots.css").read_text(encoding="utf-8")


def svg_markdown(svg: str, title: str = "plot") -> str:
    """Return the plot as a Markdown image that needs no other file, such as for Dagster metadata.

    Raises:
        ValueError: The image would be larger than 100 kB.
    """
    data = b64encode(alone(svg).encode()).decode()
    if len(data) > MOST_CHARACTERS:
        raise ValueError(
            f"the plot '{title}' has {len(data)} characters, more than {MOST_CHARACTERS:,}: draw fewer points"
        )
    name = " ".join(re.sub(r"[^\w ,.-]", " ", title).split())
    return f"![{name}](data:image/svg+xml;base64,{data})"


def pictured(title: str, svg: str, words: str) -> dict[str, str]:
    """Return a plot as Markdown by its title, with what is to be known of it; nothing for no plot."""
    return {title: f"{svg_markdown(svg, title)}\n\n{words}"} if svg else {}


def alone(svg: str) -> str:
    """Return the plot as the text of a file of its own.

    It brings its style and its own paper, since it cannot know whether the page around it is light or dark.
    """
    height = float(svg.partition('viewBox="0 0 ')[2].partition('"')[0].split()[1])
    size = f'<svg width="{ALONE * WIDTH:.0f}" height="{ALONE * height:.0f}" '
    paper = f'<rect class="paper" x="0" y="0" width="{WIDTH}" height="{height:.0f}"/>'
    return svg.replace("<svg ", size, 1).replace(">", f"><style>{stylesheet()}</style>{paper}", 1)


def escape(words: str) -> str:
    """Return words as they may stand in a drawing."""
    return escape_markup(printable(words))


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a line; `kind` names its classes in `plots.css`, as everywhere here."""
    return f'<line class="{kind.strip()}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def circle(x: float, y: float, r: float, kind: str, title: str) -> str:
    """Return a circle that says `title` when it is pointed at."""
    shape = f'<circle class="{kind.strip()}" cx="{x:.1f}" cy="{y:.1f}" r="{r}">'
    return f"{shape}<title>{escape(title)}</title></circle>"


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return a line of text."""
    mark = f' class="{kind.strip()}"' if kind.strip() else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def ticks(low: float) -> list[float]:
    """Return quarters from `low` to 1.

    >>> ticks(-0.5)
    [-0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return [low + 0.25 * step for step in range(round((1 - low) / 0.25) + 1)]


def path(places: Sequence[tuple[float, float]]) -> str:
    """Return places as the attribute `points` wants them."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def wrapped(words: str, most: int) -> list[str]:
    """Return the words on lines of at most so many characters: a name is never cut.

    >>> wrapped("adapter: Look up the order", 12), wrapped("w" * 5, 3), wrapped("", 9)
    (['adapter:', 'Look up the', 'order'], ['www', 'ww'], [''])
    """
    return textwrap.wrap(words, most) or [""]


Tone = Literal["", "strong", "other"]
LINE = 16.0
"""Drawing units from one line of text to the next."""


@dataclass(frozen=True)
class Dot:
    """A figure with its interval; `text` says it in words, `note` says what n it rests on.

    One that has no figure, or no interval, is not drawn.
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    text: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Point:
    """A place in a scatter plot with intervals both ways; `mark` is the short text inside it."""

    x: tuple[float, float, float]
    """Value, low, high."""
    y: tuple[float, float, float]
    title: str
    mark: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Sampled:
    """A point of a curve with its interval."""

    x: float
    y: float
    low: float
    high: float


def interval_dots(
    dots: Sequence[Dot], *, title: str, reference: float | None = None, low: float = 0.0, high: float = 1.0
) -> str:
    """Draw one interval a row on a common scale, with a dashed line at `reference`; nothing without a dot."""
    dots = [dot for dot in dots if None not in (dot.value, dot.low, dot.high)]
    if not dots:
        return ""
    left, right = 8, WIDTH - 12
    labels = [wrapped(dot.label, max(10, 56 - len(dot.text))) for dot in dots]
    tops = [46 * place + LINE * sum(len(one) - 1 for one in labels[:place]) for place in range(len(dots) + 1)]
    bottom = tops[-1] + 8

    def at(value: float | None) -> float:
        return left + (min(max(value or 0.0, low), high) - low) / (high - low) * (right - left)

    parts = []
    quarters = [low + (high - low) * step / 4 for step in range(5)]
    for tick in quarters:
        parts.append(line(at(tick), 4, at(tick), bottom, "grid"))
        anchor = "r" if tick == quarters[-1] else "c" if tick != quarters[0] else ""
        parts.append(text(at(tick), bottom + 16, f"{100 * tick:.0f} %", f"m {anchor}"))
    if reference is not None:
        parts.append(line(at(reference), 4, at(reference), bottom, "limit"))
    for top, dot, label in zip(tops, dots, labels, strict=False):
        y = top + 18.0
        words = f"{dot.label}: {dot.text}; {dot.note}"
        parts.append(text(right, y, dot.text, "r b" if dot.tone == "strong" else "r"))
        for number, one in enumerate(label):
            parts.append(text(left, y + LINE * number, one, "b" if dot.tone == "strong" else ""))
        y += LINE * (len(label) - 1)
        parts.append(line(at(dot.low), y + 14, at(dot.high), y + 14, f"whisker {dot.tone}"))
        parts.append(circle(at(dot.value), y + 14, 5.5, f"dot {dot.tone}", words))
    return picture(parts, bottom + 24, title)


def scatter(
    points: Sequence[Point],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_limit: float,
    y_limit: float,
    x_low: float = 0.0,
) -> str:
    """Draw points with intervals both ways; the quarter above both limits is shaded."""
    left, top, right, bottom = 50, 12, WIDTH - 12, 330

    def at_x(value: float) -> float:
        return left + (min(max(value, x_low), 1.0) - x_low) / (1 - x_low) * (right - left)

    def at_y(value: float) -> float:
        return bottom - min(max(value, 0.0), 1.0) * (bottom - top)

    parts = [
        f'<rect class="zone" x="{at_x(x_limit):.1f}" y="{top}" width="{right - at_x(x_limit):.1f}" '
        f'height="{at_y(y_limit) - top:.1f}"/>'
    ]
    for x in ticks(x_low):
        parts.append(line(at_x(x), top, at_x(x), bottom, "grid"))
        parts.append(text(at_x(x), bottom + 17, f"{x:.2f}", "m c" if x < 1 else "m r"))
    for y in ticks(0.0):
        parts.append(line(left, at_y(y), right, at_y(y), "grid"))
        parts.append(text(left - 6, at_y(y) + 4, f"{y:.2f}", "m r"))
    parts.append(line(at_x(x_limit), top, at_x(x_limit), bottom, "limit"))
    parts.append(line(left, at_y(y_limit), right, at_y(y_limit), "limit"))
    parts.append(text((left + right) / 2, bottom + 36, x_label, "m c"))
    parts.append(
        f'<text class="m c" transform="translate(12 {(top + bottom) / 2}) rotate(-90)">'
        f"{escape(y_label)}</text>"
    )
    for point in sorted(points, key=lambda point: point.tone == "strong"):
        x, y = at_x(point.x[0]), at_y(point.y[0])
        tone = point.tone or "faint"
        parts.append(line(at_x(point.x[1]), y, at_x(point.x[2]), y, f"whisker {tone}"))
        parts.append(line(x, at_y(point.y[1]), x, at_y(point.y[2]), f"whisker {tone}"))
    for point in sorted(points, key=lambda point: point.tone == "strong"):
        x, y = at_x(point.x[0]), at_y(point.y[0])
        parts.append(circle(x, y, 9 if point.mark else 4.5, f"dot {point.tone}", point.title))
        if point.mark:
            parts.append(text(x, y + 4.3, point.mark, "number"))
    return picture(parts, bottom + 44, title)


def curve(
    samples: Sequence[Sampled],
    *,
    title: str,
    x_label: str,
    markers: Sequence[Sampled] = (),
    heading: str = "",
) -> str:
    """Draw a share over iterations as a line with its interval as a band, and markers with whiskers."""
    headings = wrapped(heading, 54)
    left, top, right = 44, 12 + LINE * len(headings), WIDTH - 12
    bottom = top + 180
    xs = [sample.x for sample in (*samples, *markers)] or [0.0]
    first, last = min(xs), max(max(xs), min(xs) + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (x - first) / (last - first) * (right - left), bottom - min(max(y, 0), 1) * (
            bottom - top
        )

    parts = [text(left, LINE * number, one, "b") for number, one in enumerate(headings, 1) if one]
    for step in range(5):
        y = at(first, step / 4)[1]
        parts.append(line(left, y, right, y, "grid"))
        parts.append(text(left - 6, y + 4, f"{25 * step} %", "m r"))
    for x in sorted({first, (first + last) // 2, last}):
        parts.append(text(at(x, 0)[0], bottom + 17, f"{x:.0f}", "m c" if x < last else "m r"))
    parts.append(text((left + right) / 2, bottom + 34, x_label, "m c"))
    if samples:
        upper = [at(sample.x, sample.high) for sample in samples]
        lower = [at(sample.x, sample.low) for sample in reversed(samples)]
        parts.append(f'<polygon class="band" points="{path([*upper, *lower])}"/>')
        parts.append(f'<polyline class="curve" points="{path([at(s.x, s.y) for s in samples])}"/>')
    for marker in markers:
        x, y = at(marker.x, marker.y)
        parts.append(line(x, at(0, marker.low)[1], x, at(0, marker.high)[1], "whisker other"))
        words = f"iteration {marker.x:.0f}: {percent(marker.y, marker.low, marker.high)}"
        parts.append(circle(x, y, 4.5, "dot other", words))
    return picture(parts, bottom + 42, title)


def confusion(
    rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]], *, title: str
) -> str:
    """Draw counts as a matrix, shaded by their share of the row.

    Args:
        rows: Names of the right choices.
        columns: Names of the choices made.
        counts: One line a row, as many numbers as there are columns.
        title: What it shows, for those who cannot see it.
    """
    left, top = 170, 34
    labels = [wrapped(f"{columns.index(name) + 1}  {name}" if name in columns else name, 23) for name in rows]
    highs = [max(34, LINE * len(label) + 8) for label in labels]
    wide = min(64.0, (WIDTH - left - 8) / max(1, len(columns)))
    parts = [text(left + wide * (i + 0.5), 22, str(i + 1), "m c") for i in range(len(columns))]
    for i, (name, row) in enumerate(zip(rows, counts, strict=True)):
        total, high = max(1, sum(row)), highs[i]
        y = top + sum(highs[:i])
        first = y + (high - LINE * len(labels[i])) / 2 + LINE - 4
        for number, one in enumerate(labels[i]):
            parts.append(text(4, first + LINE * number, one))
        for j, n in enumerate(row):
            x = left + wide * j
            share = n / total
            parts.append(
                f'<rect class="cell" x="{x + 1:.1f}" y="{y + 1}" width="{wide - 2:.1f}" '
                f'height="{high - 2}" rx="3" opacity="{0.06 + 0.9 * share:.2f}">'
                f"<title>{escape(name)} sent to {escape(columns[j])}: {n} of {sum(row)}</title></rect>"
            )
            parts.append(text(x + wide / 2, y + high / 2 + 5, str(n), "number" if share > 0.5 else "c"))
    return picture(parts, top + sum(highs) + 6, title)


def reliability(bins: Sequence[tuple[Sampled, int]], *, title: str) -> str:
    """Draw how often choices made with some confidence were right, with the diagonal of perfect calibration.

    Args:
        bins: Mean confidence `x`, share that was right `y` with its interval, and how many choices it is of.
        title: What it shows, for those who cannot see it.
    """
    left, top, right, bottom = 60, 40, WIDTH - 60, 380

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x * (right - left), bottom - y * (bottom - top)

    parts = [text(left - 6, 22, "n =", "m r")]
    for tick in ticks(0.0):
        x, y = at(tick, tick)
        parts.append(line(x, top, x, bottom, "grid"))
        parts.append(line(left, y, right, y, "grid"))
        parts.append(text(x, bottom + 17, f"{tick:.2f}", "m c"))
        parts.append(text(left - 6, y + 4, f"{tick:.2f}", "m r"))
    parts.append(line(*at(0, 0), *at(1, 1), "limit"))
    parts.append(text((left + right) / 2, bottom + 36, "probability given to the choice", "m c"))
    parts.append(
        f'<text class="m c" transform="translate(14 {(top + bottom) / 2}) rotate(-90)">'
        "share of those choices that were right</text>"
    )
    for sample, n in bins:
        x, y = at(sample.x, sample.y)
        parts.append(line(x, at(0, sample.low)[1], x, at(0, sample.high)[1], "whisker strong"))
        words = f"{sample.x:.2f}: {percent(sample.y, sample.low, sample.high)}, n = {n}"
        parts.append(circle(x, y, 5, "dot strong", words))
        parts.append(text(x, 22, f"{n:,}", "m c"))
    return picture(parts, bottom + 44, title)

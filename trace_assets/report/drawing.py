"""The strokes that plots are made of, and the two ways in which a plot is shown: in the page, or alone."""

from __future__ import annotations

import re
import textwrap
from base64 import b64encode
from collections.abc import Sequence
from html import escape as escape_markup
from importlib import resources

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

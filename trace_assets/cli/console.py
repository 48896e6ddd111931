"""Where commands print: as wide as the terminal, and wide enough for tables when there is none.

Whatever is printed passes here, and nothing in it steers the terminal: see `untrusted.printable`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from trace_assets.untrusted.printable import printable

WIDTH_WITHOUT_TERMINAL = 130


class PrintableConsole(Console):
    """A console whose colours and cursor are its own: what is printed brings none, and no links."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Read a text with markup."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Turn anything into pieces of text, each of them printable."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or (text.isprintable() and not (style and style.link)):
                yield segment
            else:
                yield Segment(printable(text), style.update_link(None) if style else None)


class PrintableStream:
    """A text stream on which whatever is printed is printable: also tracebacks, warnings and logs.

    A console draws past it: rich looks for `rich_proxied_file`. So does what is written to `buffer`, which is
    data for another program.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write a text."""
        # A bar is drawn over by a line that begins so; it does no harm where a line begins anyway.
        begin = "\r" if text.startswith("\r") and not text.startswith("\r\n") else ""
        self.rich_proxied_file.write(begin + printable(text[len(begin) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Have nothing reach standard output and standard error, from now on, that is not printable."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PrintableStream):
            setattr(sys, name, PrintableStream(stream))


def console(*, stderr: bool = False, file: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console for standard output, standard error or a file."""
    stream = sys.stderr if stderr else sys.stdout
    if file is None and isinstance(stream, PrintableStream):
        # Named outright: while a bar is drawn, rich puts a stream of its own before this one.
        file = cast(IO[str], stream.rich_proxied_file)
    if width is None and not (file or stream).isatty():
        width = WIDTH_WITHOUT_TERMINAL
    return PrintableConsole(file=file, stderr=stderr, highlight=False, width=width)

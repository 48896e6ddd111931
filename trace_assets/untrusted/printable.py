"""Text from outside as it may be shown: nothing in it moves a cursor, turns a line around or hides.

Terminals obey escape sequences wherever they come from; characters for the direction of writing make a line
read otherwise than it is; tags of Unicode's last plane are not seen at all. Whatever a file, a model, a
server or an environment said goes through here on its way to a terminal, a log, Markdown or HTML.
"""

from __future__ import annotations

import re

_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but for tab and line feed
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction, invisible
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # soft hyphens, fillers, joiners
    "\u180b-\u180f\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # of scripts and scores
    "\ud800-\udfff"  # halves of pairs
    "\U000e0000-\U000e0fff"  # tags
)
_HARMFUL = re.compile(f"[{_UNSEEN}]")
_LINES = re.compile(f"[{_UNSEEN}\t\n]")


def printable(text: str) -> str:
    r"""Return a text with every character that is no visible one spelt out, but for tabs and line ends.

    Line ends of Windows become those of everybody else.

    >>> printable("fine,\x1b[2J not \u202egnp.exe\x00")
    'fine,\\x1b[2J not \\u202egnp.exe\\x00'
    >>> printable("Größe 5 µm, 寸法\t१\n") == "Größe 5 µm, 寸法\t१\n"
    True
    """
    return _HARMFUL.sub(_spelt, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    r"""Return a text as one line in which nothing is hidden: for names, ids and file names.

    >>> one_line("a\nb\tc")
    'a\\nb\\tc'
    """
    return _LINES.sub(_spelt, text)


def plain(text: str) -> str:
    """Return a text that is the same words whether it is shown as text, as Markdown or as HTML.

    For places that show one thing or the other, such as descriptions on Dagster's pages: no tag begins, and
    nothing is a link or an image.

    >>> plain("<img src=x>, ![a](http://b), 1 < 2, p [0.1, 0.2]")
    '< img src=x>, ! [a] (http://b), 1 < 2, p [0.1, 0.2]'
    """
    text = _TAG.sub("< ", printable(text))
    return text.replace("![", "! [").replace("](", "] (").replace("][", "] [").replace("]:", "] :")


def in_markdown(page: str) -> str:
    r"""Return a Markdown page in which no HTML, no link and no image is but the plots that were drawn here.

    Names and texts from outside stand in such pages as they are. `<` and `[` become character references,
    which Markdown shows as the character and never takes for markup. A page that is one fence, which holds
    code, is left as it is: nothing in a fence is markup.

    >>> in_markdown("a <b> [c](d) ![e](f)")
    'a &lt;b> &#91;c](d) !&#91;e](f)'
    >>> in_markdown("![plot](data:image/svg+xml;base64,PHN2Zz4=)")
    '![plot](data:image/svg+xml;base64,PHN2Zz4=)'
    >>> in_markdown("```python\na[0] < 1\n```")
    '```python\na[0] < 1\n```'
    """
    page = printable(page)
    if _is_fence(page):
        return page
    parts = _PLOT.split(page)
    parts[::2] = [part.replace("<", "&lt;").replace("[", "&#91;") for part in parts[::2]]
    return "".join(parts)


_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
_PLOT = re.compile(r"(!\[[\w ,.-]*\]\(data:image/svg\+xml;base64,[A-Za-z0-9+/=]+\))")


def _is_fence(page: str) -> bool:
    """Tell whether a page is one block of code, from its first line to its last."""
    first, _, rest = page.rstrip("\n").partition("\n")
    mark = first.rstrip("abcdefghijklmnopqrstuvwxyz")
    inside, _, last = rest.rpartition("\n")
    return len(mark) >= 3 and set(mark) == {"`"} and last == mark and mark not in inside


def _spelt(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()

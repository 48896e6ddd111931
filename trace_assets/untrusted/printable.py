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
    "\ud800-\udfff"  # halves of pairs
    "\U000e0000-\U000e0fff"  # tags
)
_HARMFUL = re.compile(f"[{_UNSEEN}]")
_LINES = re.compile(f"[{_UNSEEN}\t\n]")


def printable(text: str) -> str:
    r"""Return a text with every character that is no visible one spelt out, but for tabs and line ends.

    >>> printable("fine,\x1b[2J not \u202egnp.exe\x00")
    'fine,\\x1b[2J not \\u202egnp.exe\\x00'
    >>> printable("Größe 5 µm, 寸法\t१\n") == "Größe 5 µm, 寸法\t१\n"
    True
    """
    return _HARMFUL.sub(_spelt, text)


def one_line(text: str) -> str:
    r"""Return a text as one line in which nothing is hidden: for names, ids and file names.

    >>> one_line("a\nb\tc")
    'a\\nb\\tc'
    """
    return _LINES.sub(_spelt, text)


def _spelt(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()

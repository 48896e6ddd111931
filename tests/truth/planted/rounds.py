"""Rounds of strange domains: each is committed at first sight, and only then mended for.

The first: agents whose tools say little, as one tool does everything and its arguments say what: a coding
agent with a shell and an editor, an agent in a browser, the voice of a house. In each, failed runs mostly
lack something besides that decides nothing. The second, written when the first had been mended: a spreadsheet
in French, a desk behind one interface of the web, deploys from a terminal. The third, written when the second
had been mended: a notebook, a household played in text, a clinic in Portuguese. The fourth after that: a
dispatcher of lorries, and a bot that tends issues.
"""

from __future__ import annotations

from tests.truth.planted import (
    browser,
    coder,
    consulta,
    deploys,
    desk,
    flat,
    fleet,
    forge,
    home,
    notebook,
    sheets,
)
from tests.truth.planted.domain import Domain
from tests.truth.planted.lacks import LackDomain

FIRST_LACKS: tuple[LackDomain, ...] = (coder.LACKS, browser.LACKS, home.LACKS)
FIRST_FAULTS: tuple[Domain, ...] = (coder.FAULTS, browser.FAULTS, home.FAULTS)

SECOND_LACKS: tuple[LackDomain, ...] = (sheets.LACKS, desk.LACKS, deploys.LACKS)
SECOND_FAULTS: tuple[Domain, ...] = (sheets.FAULTS, desk.FAULTS, deploys.FAULTS)

THIRD_LACKS: tuple[LackDomain, ...] = (notebook.LACKS, flat.LACKS, consulta.LACKS)
THIRD_FAULTS: tuple[Domain, ...] = (notebook.FAULTS, flat.FAULTS, consulta.FAULTS)

FOURTH_LACKS: tuple[LackDomain, ...] = (fleet.LACKS, forge.LACKS)
FOURTH_FAULTS: tuple[Domain, ...] = (fleet.FAULTS, forge.FAULTS)

ROUND_LACKS: tuple[LackDomain, ...] = (*FIRST_LACKS, *SECOND_LACKS, *THIRD_LACKS, *FOURTH_LACKS)
ROUND_FAULTS: tuple[Domain, ...] = (*FIRST_FAULTS, *SECOND_FAULTS, *THIRD_FAULTS, *FOURTH_FAULTS)

"""Domains written to be as strange as possible: other shapes of tools' names, records and policies.

Both kinds of planted things in each: capabilities that an agent lacks, and faults of other parties. What was
found in them at first sight, before anything was mended for them, is on the page.
"""

from __future__ import annotations

from tests.truth.planted import cloud, power, ward
from tests.truth.planted.domain import Domain
from tests.truth.planted.lacks import LackDomain

STRANGE_LACKS: tuple[LackDomain, ...] = (cloud.LACKS, ward.LACKS, power.LACKS)
STRANGE_FAULTS: tuple[Domain, ...] = (cloud.FAULTS, ward.FAULTS, power.FAULTS)

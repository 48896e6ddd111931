"""Invented domains with planted faults: agents, tools and policies that no reading and no published set has.

Each run is written by hand with the party whose fault it is. Some failures of agents are made to look like
somebody else's, so that a rule that accuses too readily is seen.
"""

from __future__ import annotations

from tests.truth.planted import bank, clinic, hotel, library
from tests.truth.planted.domain import Domain, Run

DOMAINS: tuple[Domain, ...] = (bank.DOMAIN, clinic.DOMAIN, hotel.DOMAIN, library.DOMAIN)

__all__ = ["DOMAINS", "Domain", "Run"]

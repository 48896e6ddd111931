"""Four more strange domains, written when the first three had been mended: did mending generalise?

A programmer in a repository, an agent at a data warehouse, a German parcel service and insurance claims among
several agents. Written whole before the code had seen any of them. Two more, an operator of a cluster and the
office of a Spanish school, were written when these had been mended in their turn; the last two, a personal
assistant and a laboratory's robot, when those had been.
"""

from __future__ import annotations

from tests.truth.planted import assistant, claims, escuela, kube, lab, paket, repo, warehouse
from tests.truth.planted.domain import Domain
from tests.truth.planted.lacks import LackDomain

FURTHER_LACKS: tuple[LackDomain, ...] = (repo.LACKS, warehouse.LACKS, paket.LACKS, claims.LACKS)
FURTHER_FAULTS: tuple[Domain, ...] = (repo.FAULTS, warehouse.FAULTS, paket.FAULTS, claims.FAULTS)

AGAIN_LACKS: tuple[LackDomain, ...] = (kube.LACKS, escuela.LACKS)
AGAIN_FAULTS: tuple[Domain, ...] = (kube.FAULTS, escuela.FAULTS)

LAST_LACKS: tuple[LackDomain, ...] = (assistant.LACKS, lab.LACKS)
LAST_FAULTS: tuple[Domain, ...] = (assistant.FAULTS, lab.FAULTS)

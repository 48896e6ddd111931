"""All broken environments of the zoo."""

from __future__ import annotations

from trace_assets.synthesis.zoo import faults_fidelity, faults_statistical
from trace_assets.synthesis.zoo.animal import Animal

ANIMALS: tuple[Animal, ...] = (*faults_fidelity.FAULTS, *faults_statistical.FAULTS)

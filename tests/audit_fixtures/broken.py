"""All broken environments of the zoo."""

from __future__ import annotations

from tests.audit_fixtures import (
    faults_adversarial,
    faults_fidelity,
    faults_phase,
    faults_runtime,
    faults_semantic,
    faults_static,
    faults_statistical,
)
from tests.audit_fixtures.broken_environment import Animal

ANIMALS: tuple[Animal, ...] = (
    *faults_static.FAULTS,
    *faults_runtime.FAULTS,
    *faults_semantic.FAULTS,
    *faults_adversarial.FAULTS,
    *faults_phase.FAULTS,
    *faults_fidelity.FAULTS,
    *faults_statistical.FAULTS,
)

"""A whole study in a few records: what the report is tested on, and what a developer can look at."""

from __future__ import annotations

import pytest

from tests.report.diagnosed_study import diagnosed_study
from tests.report.taught_study import taught_study
from trace_assets.report.data import ReportData


@pytest.fixture(scope="session")
def diagnosed() -> ReportData:
    """A store after `trace diagnose`."""
    return diagnosed_study()


@pytest.fixture(scope="session")
def complete(diagnosed: ReportData) -> ReportData:
    """A store after the whole loop."""
    return taught_study(diagnosed)

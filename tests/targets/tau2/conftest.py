from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.targets.tau2.table import Table, set_table

DOMAINS = ("airline", "retail", "telecom", "telecom_solo")


@pytest.fixture(params=DOMAINS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """The home that `TRACE_TAU2_HOME` names, lent for one comparison on a domain."""
    return set_table(os.environ["TRACE_TAU2_HOME"], request.param, tmp_path)

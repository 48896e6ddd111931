import subprocess
import sys
from pathlib import Path

from trace_assets.synthesis import versions
from trace_assets.synthesis.audit.battery import CHECKS
from trace_assets.synthesis.audit.severity import SEVERITIES


def test_every_source_of_the_room_has_a_version() -> None:
    room = Path(versions.__file__).parent
    listed = Path(versions.__file__).read_text(encoding="utf-8")
    files = {path.name for path in room.glob("*.py")} - {"__init__.py", "versions.py"}
    assert {name for name in files if f'{name.removesuffix(".py")}"' not in listed} == set()


def test_versions_are_cheap_to_import() -> None:
    code = (
        "import sys, trace_assets.synthesis.versions as v; print(v.WRITER_VERSION, v.AUDIT_VERSION);"
        "print([m for m in ('torch', 'docker', 'pydantic', 'polars', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    words, heavy = done.stdout.splitlines()
    assert words == f"{versions.WRITER_VERSION} {versions.AUDIT_VERSION}"
    assert heavy == "[]"


def test_policy_weighs_every_check_and_no_other() -> None:
    assert set(SEVERITIES) == {check.check_id for check in CHECKS}


def test_what_a_check_needs_comes_before_it() -> None:
    seen: set[str] = set()
    for check in CHECKS:
        assert set(check.needs) <= seen
        seen.add(check.check_id)

"""Let edited code go on under the versions of an earlier commit: `python tests/keep_versions.py COMMIT`.

For whoever has edited code in a way that leaves every result as it was (moved, renamed, split) and has shown
it by the tests. What was made by the code of COMMIT is then up to date. `--only NAME` keeps some alone;
what else was kept stays.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PRINT = (
    "import json; from trace_assets.code_versions import DECIDED_BY, OTHERS, code_version; "
    "print(json.dumps({name: code_version(name) for name in (*DECIDED_BY, *OTHERS)}))"
)


def versions_at(commit: str) -> dict[str, str]:
    """Return the versions that the code of a commit has, by name."""
    packed = subprocess.run(
        ["git", "archive", commit, "trace_assets", "sandboxes"], cwd=ROOT, capture_output=True, check=True
    )
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        done = subprocess.run(
            [sys.executable, "-c", PRINT], cwd=folder, capture_output=True, text=True, check=True
        )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def kept(
    before: dict[str, str], content: dict[str, str], only: list[str], known: dict[str, dict[str, str]]
) -> dict[str, dict[str, str]]:
    """Return what `code_versions.json` shall hold.

    Args:
        before: Name to the version that it had.
        content: Name to the hash of its code today.
        only: Names that go on under those versions; empty for all. Others stay as `known` has them.
        known: What the file holds.

    >>> kept({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "c": "5"}, ["b"], {})
    {'b': {'content': '4', 'version': '2'}}
    >>> kept({"a": "1", "b": "2"}, {"a": "3", "b": "4"}, ["b"], {"a": {"content": "3", "version": "1"}})
    {'a': {'content': '3', 'version': '1'}, 'b': {'content': '4', 'version': '2'}}
    """
    found = {
        name: {"content": content[name], "version": version}
        for name, version in before.items()
        if name in content and content[name] != version and (not only or name in only)
    }
    if only:
        found |= {
            name: row
            for name, row in known.items()
            if name not in only and row["content"] == content.get(name)
        }
    return dict(sorted(found.items()))


def main() -> None:
    """Write `trace_assets/code_versions.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument(
        "--only", action="append", default=[], help="a name of `code_versions`; again for more"
    )
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from trace_assets.code_versions import DECIDED_BY, KEPT, OTHERS, content_hash

    content = {name: content_hash(*names) for name, names in {**DECIDED_BY, **OTHERS}.items()}
    known = json.loads(KEPT.read_text(encoding="utf-8"))
    found = kept(versions_at(given.commit), content, given.only, known)
    KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} of {len(content)} go on under the versions of {given.commit}: {', '.join(found)}")


if __name__ == "__main__":
    main()

"""Lets any chat model be the analyst: `python -m tests.bridge FOLDER [--port 8123] [--model NAME]`.

Each request becomes a file `<hash>.request.json` in the folder (and `<hash>.prompt.txt` beside it, to be
pasted into a chat); whoever answers writes the model's words to `<hash>.answer.txt`, and the waiting request
gets them. Point `analyst.base_url` at `http://127.0.0.1:8123/v1`, set `analyst.timeout_seconds` to hours and
`analyst.recording` to a file: the answers are then on record and can be replayed without anybody.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.bridge.bridge import Bridge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--model", default="", help="name that answers bear; as asked for unless given")
    given = parser.parse_args()
    with Bridge(given.folder, port=given.port, model=given.model) as bridge:
        print(f"analyst.base_url = {bridge.url}; requests appear in {given.folder}", flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()

"""Stands in for vLLM's program: takes its arguments, starts a child, serves /v1/models, can be told to fail.

Only what the life of a server needs: no model answers here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


def after(flag: str) -> str:
    """Return the argument after a flag."""
    return sys.argv[sys.argv.index(flag) + 1]


def main() -> None:
    """Serve until killed."""
    fault = os.environ.get("PRETEND_FAULT", "")
    if fault == "ends":
        sys.exit("RuntimeError: no room for the key/value cache")
    names = [after("--served-model-name")]
    if "--lora-modules" in sys.argv and fault != "no_adapters":
        modules = sys.argv[sys.argv.index("--lora-modules") + 1 :]
        names += [word.split("=")[0] for word in modules if "=" in word]
    key = after("--api-key") if "--api-key" in sys.argv else os.environ.get("VLLM_API_KEY")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(f"child {child.pid}", flush=True)

    class Handler(BaseHTTPRequestHandler):
        """Answers /v1/models."""

        def do_GET(self) -> None:
            """List the models."""
            allowed = not key or self.headers["Authorization"] == f"Bearer {key}"
            body = json.dumps({"data": [{"id": name} for name in names]} if allowed else {}).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    if fault == "never_well":
        time.sleep(600)
    HTTPServer((after("--host"), int(after("--port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()

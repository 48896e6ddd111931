"""The sandbox's version: part of the data version of every environment that was audited in it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from trace_assets.sandbox import files
from trace_assets.sandbox.protocol import PROTOCOL_VERSION


def sandbox_version(backend: str, flags: dict[str, Any], base: dict[str, Any]) -> str:
    """Name what decides how code behaves in a sandbox.

    Args:
        backend: Name of the isolation.
        flags: Limits and options that a sandbox is started with.
        base: What it runs on: layers, user, environment and entry point of an image; not its id, which
            changes with every build.

    Returns:
        16 hexadecimal digits.
    """
    parts = {
        "protocol": PROTOCOL_VERSION,
        "backend": backend,
        "flags": flags,
        "base": base,
        "worker": files.worker_hash(),
        "seccomp": hashlib.sha256((files.folder() / "seccomp.json").read_bytes()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

"""What every section of `trace.toml` is: validated values with one fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    added: ClassVar[frozenset[str]] = frozenset()
    """Keys that came with a later version: at their defaults they leave the fingerprint, and what was made
    before them, as it was."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """Keys that say where and how fast work is done, and decide nothing: never part of the fingerprint."""

    def fingerprint(self) -> str:
        """Return a hash of the section's values, the same on every machine."""
        values = self.model_dump(mode="json", exclude=set(self.apart))
        for name in self.added:
            if getattr(self, name) == type(self).model_fields[name].default:
                del values[name]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

"""What every section of `trace.toml` is: validated values with one fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from trace_assets.settings.addresses import refuse_secrets


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    added: ClassVar[frozenset[str]] = frozenset()
    """Keys that came with a later version: at their defaults they leave the fingerprint, and what was made
    before them, as it was."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """Keys that say where and how fast work is done, and decide nothing: never part of the fingerprint."""

    idle: ClassVar[frozenset[str]] = frozenset()
    """Keys that have come to decide nothing: the fingerprint holds them at their defaults, so that it stays
    what it was where they were never set."""

    @field_validator("*")
    @classmethod
    def _no_secrets(cls, value: Any, info: ValidationInfo) -> Any:
        """Settings are stored and shown in many places, so no address in them may hold a password or key."""
        refuse_secrets(info.field_name or "", value)
        return value

    def deciding(self) -> dict[str, Any]:
        """Return the values that decide a result, as JSON has them."""
        return self.model_dump(mode="json", exclude=set(self.apart | self.idle))

    def fingerprint(self) -> str:
        """Return a hash of the values that decide a result, the same on every machine."""
        fields = type(self).model_fields
        values = self.deciding()
        values |= {name: fields[name].default for name in self.idle if name not in values}
        for name in self.added:
            if getattr(self, name) == fields[name].default:
                del values[name]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

"""What a shell completes beside commands and options: settings, assets, ready queries, sections."""

from __future__ import annotations

from collections.abc import Iterable


def _beginning(names: Iterable[str], begun: str) -> list[str]:
    return sorted(name for name in names if name.startswith(begun))


def complete_setting(incomplete: str) -> list[str]:
    """Complete `section.key=`."""
    from trace_assets.settings import Settings
    from trace_assets.settings.settings import keys_of

    names = (f"{section}.{key}=" for section in Settings.model_fields for key in keys_of(section))
    return _beginning(names, incomplete)


def complete_section(incomplete: str) -> list[str]:
    """Complete the name of a section."""
    from trace_assets.settings import Settings

    return _beginning(Settings.model_fields, incomplete)


def complete_query(incomplete: str) -> list[str]:
    """Complete the name of a ready query."""
    from trace_assets.store.saved_queries import ready_queries

    return _beginning(ready_queries(), incomplete)


def complete_asset(incomplete: str) -> list[str]:
    """Complete the name of an asset."""
    from trace_assets.definitions import pipeline

    return _beginning((asset.name for asset in pipeline()), incomplete)

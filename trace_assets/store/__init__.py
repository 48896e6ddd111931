"""Where tables live: atomic Parquet with content versions, queried through DuckDB."""

from trace_assets.store.content import folder_version, frame_version
from trace_assets.store.files import Home
from trace_assets.store.tables import Store
from trace_assets.store.warehouse import Warehouse

__all__ = ["Home", "Store", "Warehouse", "folder_version", "frame_version"]

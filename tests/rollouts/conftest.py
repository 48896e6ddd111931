from __future__ import annotations

import sys
from pathlib import Path

# Worker processes import the target by name as well: they inherit the path.
sys.path.insert(0, str(Path(__file__).parent))

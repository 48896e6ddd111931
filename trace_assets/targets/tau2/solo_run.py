"""tau2-bench's own program with one fault mended: runs in its interpreter, in place of `tau2`.

In tau2 1.0.1 `tau2 run` ends every solo conversation with a TypeError: it makes the user that takes no part
(`DummyUser`) with arguments, and that one takes none (tau2-bench issue 486). Here it takes and ignores them;
all else is tau2's.
"""

from __future__ import annotations

import inspect
from typing import Any

from tau2.cli import main
from tau2.user.user_simulator import DummyUser

if not inspect.signature(DummyUser.__init__).parameters.keys() - {"self"}:
    _made = DummyUser.__init__

    def _ignoring(self: Any, *_: Any, **__: Any) -> None:
        _made(self)

    DummyUser.__init__ = _ignoring

if __name__ == "__main__":
    main()

"""`python -m tests.docs`: write anew what `docs/architecture.md` and `docs/recipes.md` say of the code."""

from __future__ import annotations

from tests.docs import recipes
from tests.docs.architecture import PAGE, rewritten


def main() -> None:
    """Rewrite the pages where they stand."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    recipes.PAGE.write_text(recipes.page(), encoding="utf-8")


if __name__ == "__main__":
    main()

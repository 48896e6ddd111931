"""`python -m tests.docs`: write anew what `docs/architecture.md` says of the code."""

from __future__ import annotations

from tests.docs.architecture import PAGE, rewritten


def main() -> None:
    """Rewrite the page where it stands."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

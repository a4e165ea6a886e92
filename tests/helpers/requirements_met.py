"""What a test needs and not every machine has: skipped there, but never where it is required.

``TIDINGS_REQUIRE=chromium,strace`` says what must be there; ``.ci/run`` sets it, so that no
test is skipped unnoticed.
"""

import os

import pytest

KNOWN = ("chromium", "namespaces", "promtool", "strace", "systemd", "validators")


def require(what: str, available: bool, reason: str) -> None:
    """Skip the test for this reason, or fail it, unless what it needs is there."""
    required = [name for name in os.environ.get("TIDINGS_REQUIRE", "").split(",") if name]
    for name in (what, *required):
        assert name in KNOWN, f"nothing is called {name!r}; there are: {', '.join(KNOWN)}"
    if available:
        return
    if what in required:
        pytest.fail(f"{what} required, but {reason}")
    pytest.skip(f"no {what}: {reason}")

"""Tests named by SECURITY.md, and the README's link to it."""

from __future__ import annotations

import re

from tests.security.network import ROOT


def test_security_page__promises_name_existing_tests() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| **")]

    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[^`]+\.py)`", row)
        assert named, row
        assert all((ROOT / name).is_file() for name in named), row

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.io.limits import iter_lines


def test_iter_lines__rejects_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_LINE", 4)
    path = Path("words.tsv")

    assert list(iter_lines(io.StringIO("abc\n\nab\nabcd"), path, SourceError)) == [
        "abc\n",
        "\n",
        "ab\n",
        "abcd",
    ]
    with pytest.raises(SourceError, match=r"^words\.tsv:2: expected lines of at most .* line ends"):
        list(iter_lines(io.StringIO("abc\nabcde"), path, SourceError))

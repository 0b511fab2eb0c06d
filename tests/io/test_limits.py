from __future__ import annotations

import io
from pathlib import Path

import pytest

from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.io.limits import Limits, Meter, iter_lines


def test_max_unpacked__is_the_free_space_or_the_ratio_up_to_the_maximum() -> None:
    law = Limits(num_bytes=1000, ratio=10, free_bytes=50)

    assert [law.max_unpacked(packed) for packed in (0, 5, 6, 100, 101)] == [50, 50, 60, 1000, 1000]


def test_meter__rejects_excess_and_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"12345")
    meter = Meter(path, Limits(ratio=2, free_bytes=0), SourceError)
    meter.add(10)

    with pytest.raises(
        SourceError,
        match=r"^a\.gz: expected at most 10 bytes unpacked from a file of 5, got more; if you trust "
        "it, unpack it yourself and pass the unpacked files$",
    ):
        meter.add(1)


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

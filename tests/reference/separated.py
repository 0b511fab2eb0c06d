"""The slow twin of `kernels/separated.py`: a pattern for one record."""

from __future__ import annotations

import re
from collections.abc import Sequence

Found = list[tuple[int, int, int, int, list[tuple[int, int]]]]


def split_records(
    data: bytes, position: int, *, mark: bytes, width: int, wanted: Sequence[int], longest: int
) -> Found:
    """Return of each strict record its bounds, the line ends before each, and its wanted fields."""
    quoted = rb'"(?:[^"]|"")*+"'
    plain = rb'(?:[^"\n%s][^\n%s]*)?' % ((re.escape(mark),) * 2)
    field = rb"(" + quoted + rb"|" + plain + rb")"
    pattern = re.compile(re.escape(mark).join([field] * width) + rb"\r?\n")

    found: Found = []
    begin = position
    while True:
        while blank := re.compile(rb"\r?\n").match(data, begin):
            begin = blank.end()
        record = pattern.match(data, begin)
        if record is None or record.end() - begin > longest:
            return found

        lines = [data.count(b"\n", position, place) for place in record.span()]
        fields = [record.span(number + 1) for number in wanted]
        found.append((*record.span(), lines[0], lines[1], fields))
        begin = record.end()

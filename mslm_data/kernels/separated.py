"""Find the records and fields of separated values (CSV, TSV) in bytes of UTF-8."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

NEWLINE, RETURN, QUOTE = 10, 13, 34


@kernel
def find_field_end(data: Array, first: int, mark: int) -> int:
    """Return the index after a field, including quotes; at least `len(data)` if it does not end.

    Args:
        data: uint8.
        first: First byte of the field.
        mark: Byte that separates fields.
    """
    size = len(data)
    c = max(first, 0)  # tells the compiler that no index is negative, which halves the time
    if c < size and data[c] == QUOTE:
        # Quotes within the field are doubled, so the first single quote ends it.
        c += 1
        while True:
            while c < size and data[c] != QUOTE:
                c += 1
            c += 1
            if c >= size or data[c] != QUOTE:
                return c
            c += 1

    while c < size and data[c] != NEWLINE and data[c] != mark:
        c += 1
    return c


@kernel
def find_record_end(
    data: Array, begin: int, mark: int, slots: Array, fields: Array, record: int
) -> int:
    """Return the index after the line end of a record, or -1 if it is not strict or incomplete.

    Args:
        data: uint8.
        begin: First byte of the record.
        mark: Byte that separates fields.
        slots: int64 `[F]`, as in `split_records`.
        fields: int64 `[N, C, 2]`, as in `split_records`; item `record` is written.
        record: Number of the record.
    """
    c = begin
    last = len(slots) - 1
    for field in range(last + 1):
        past = find_field_end(data, c, mark)
        if past >= len(data):
            return -1
        if slots[field] >= 0:
            fields[record, slots[field], 0] = c
            fields[record, slots[field], 1] = past

        # In a field without quotes, a CR before the line end is part of the field. After a quoted
        # field it is part of the line end.
        c = past
        ends = mark
        if field == last:
            ends = NEWLINE
            if data[c] == RETURN and c + 1 < len(data):
                c += 1
        if data[c] != ends:
            return -1
        c += 1
    return c


@kernel
def split_records(
    data: Array,
    position: int,
    mark: int,
    longest: int,
    slots: Array,
    records: Array,
    fields: Array,
) -> int:
    """Find consecutive strict records, and return their number.

    A strict record has F fields, and each of its quotes is closed and followed by a separator or a
    line end. The search stops before a record that is not strict or incomplete, and when `records`
    is full. Blank lines between records are skipped.

    Args:
        data: uint8.
        position: First byte of the first record, or of blank lines before it.
        mark: Byte that separates fields.
        longest: Maximum number of bytes of a record, including its line end.
        slots: int64 `[F]`, column of each field in `fields`, -1 to ignore it.
        records: int64 `[N, 4]`, written: first byte of each record, byte after its line end, and
            the number of line ends from `position` to each of these.
        fields: int64 `[N, C, 2]`, written: byte range of each selected field, including quotes. If
            the last field has no quotes, it includes a CR before the line end.
    """
    lines = 0
    c = position
    for record in range(len(records)):
        # Skip blank lines.
        begin = c
        while begin < len(data) and data[begin] <= RETURN:
            # A CR is a line end only before an LF.
            if data[begin] == RETURN and begin + 1 < len(data) and data[begin + 1] == NEWLINE:
                begin += 1
            if data[begin] != NEWLINE:
                break
            begin += 1
            lines += 1

        past = find_record_end(data, begin, mark, slots, fields, record)
        if past < 0 or past - begin > longest:
            return record
        records[record, 0] = begin
        records[record, 1] = past
        records[record, 2] = lines

        # Count line ends within the record. In a loop of its own, over a slice, this compiles to
        # SIMD.
        for byte in data[begin:past]:
            lines += byte == NEWLINE
        records[record, 3] = lines
        c = past
    return len(records)

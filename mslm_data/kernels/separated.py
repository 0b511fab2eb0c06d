"""Find the records and fields of tables of separated values, which are bytes of UTF-8."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

NEWLINE, RETURN, QUOTE = 10, 13, 34


@kernel
def find_field_end(data: Array, first: int, mark: int) -> int:
    """Return the byte after a field, quotes included; past the data if the field does not end.

    Args:
        data: uint8.
        first: The field's first byte, or what ends it if it is empty.
        mark: The byte that separates fields.
    """
    size = len(data)
    c = max(first, 0)  # the compiler then knows that no index is negative, which halves the time
    if c < size and data[c] == QUOTE:
        # A quote within is doubled, so the first one that is alone closes.
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
    """Return the byte after a strict record's line end; -1 if it is not strict or not all there.

    Args:
        data: uint8.
        begin: The record's first byte.
        mark: The byte that separates fields.
        slots: As in `split_records`.
        fields: As in `split_records`.
        record: The row of `fields` that is written.
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

        # A CR before the line end is the field's own, unless quotes end the field before it.
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
    """Find strict records one after the other, and return how many there are.

    A strict record has as many fields as `slots`, and every quote in it is closed and followed by a
    separator or a line end. The search ends before a record that is not strict or not all there,
    and when `records` is full. Blank lines between records belong to none.

    Args:
        data: uint8.
        position: The byte at which the first record, or blank lines before it, begin.
        mark: The byte that separates fields.
        longest: Most bytes of a record with its line end.
        slots: int64 `[F]`: for each field its row in `fields`, -1 for one that is not wanted.
        records: int64 `[N, 4]`, written: of each record the first byte, the one after its line end,
            and the number of line ends between `position` and each of these.
        fields: int64 `[N, C, 2]`, written: of each wanted field the first byte and the one after
            its last, quotes included. The last field of a record has a CR before the line end as
            its own, if it has no quotes.
    """
    lines = 0
    c = position
    for record in range(len(records)):
        begin = c
        while begin < len(data) and data[begin] <= RETURN:
            # A CR begins a blank line only together with the LF after it.
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

        # Apart from the search, as many bytes are then compared at once; so are those of a slice.
        for byte in data[begin:past]:
            lines += byte == NEWLINE
        records[record, 3] = lines
        c = past
    return len(records)

"""What both sides of a comparison of loaders share."""

from __future__ import annotations

import numpy as np

from benchmarks.batching import Endless, digest_rows, unpadded_rows


def test_endless__goes_on_where_the_last_turn_ended() -> None:
    taken: list[tuple[int, int]] = []

    def epoch(number: int) -> list[int]:
        taken.append((number, 0))
        return [0, 1, 2]

    endless = Endless(epoch)
    endless.take(2)
    endless.take(2)

    assert taken == [(0, 0), (1, 0)]


def test_digest_pipeline__is_of_rows_and_not_of_their_order() -> None:
    rows = [[1, 2], [3], [3]]

    assert digest_rows(rows) == digest_rows([np.array([3], np.int32), [1, 2], [3]])


def test_digest_pipeline__tells_rows_that_were_lost_cut_or_given_twice() -> None:
    rows = [[1, 2], [3], [4]]

    assert (
        len(
            {
                digest_rows(other)
                for other in (rows, rows[:2], [[1, 2], [3], [3]], [[1], [2, 3], [4]])
            }
        )
        == 4
    )


def test_rows_of__leaves_padding_out() -> None:
    batch = {"input_ids": np.array([[1, 2], [3, 0]]), "attention_mask": np.array([[1, 1], [1, 0]])}

    rows = [row.tolist() for row in unpadded_rows([batch], lambda batch: batch["input_ids"])]

    assert rows == [[1, 2], [3]]

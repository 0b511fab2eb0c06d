"""Functions shared by both sides of a comparison of loaders."""

from __future__ import annotations

import numpy as np

from benchmarks.batching import Endless, digest_rows, unpadded_rows


def test_endless__continues_after_the_last_turn() -> None:
    taken: list[tuple[int, int]] = []

    def epoch(number: int) -> list[int]:
        taken.append((number, 0))
        return [0, 1, 2]

    endless = Endless(epoch)
    endless.take(2)
    endless.take(2)

    assert taken == [(0, 0), (1, 0)]


def test_digest_pipeline__does_not_depend_on_the_order_of_rows() -> None:
    rows = [[1, 2], [3], [3]]

    assert digest_rows(rows) == digest_rows([np.array([3], np.int32), [1, 2], [3]])


def test_digest_pipeline__changes_with_lost_cut_and_repeated_rows() -> None:
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


def test_rows_of__excludes_padding() -> None:
    batch = {"input_ids": np.array([[1, 2], [3, 0]]), "attention_mask": np.array([[1, 1], [1, 0]])}

    rows = [row.tolist() for row in unpadded_rows([batch], lambda batch: batch["input_ids"])]

    assert rows == [[1, 2], [3]]

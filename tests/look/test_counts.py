"""The table of counts above the rows: of the split, and of the rows shown."""

from __future__ import annotations

import re

from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import Choice, State

DASH = "\N{EN DASH}"
UNMASKED = Choice("joint", {"elm": "0", "blm": "0"})


def cells(shards: Shards, state: State) -> list[tuple[str, str]]:
    """Return the cells of the first strategy: the line of the split, and that of the rows."""
    html = str(render_view("rows", Corpus(shards), state, live=False)[0])
    row = html.partition('<tr data-strategy="')[2].partition("</tr>")[0]
    lines = []
    for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL):
        split, _, shown = cell.partition("<small>")
        lines.append(tuple(re.sub("<.*?>|\n", "", line) for line in (split, shown)))
    return lines  # type: ignore[return-value]


def test_counts__name_their_two_lines_and_weigh_the_split_alone(chem: Shards) -> None:
    first, n_elm, n_blm, w_elm, w_blm, *_ = cells(chem, State())

    assert first == ("split", "rows shown")
    assert "" not in n_elm + n_blm
    assert [line[0] not in ("", DASH) for line in (w_elm, w_blm)] == [True, True]
    assert [w_elm[1], w_blm[1]] == ["", ""]


def test_counts__without_rows_are_none(chem: Shards) -> None:
    lines = cells(chem, State(doc="nowhere"))

    assert {shown for _, shown in lines} == {"rows shown", DASH, ""}
    assert DASH not in [split for split, _ in lines]


def test_weights__without_masks_are_none(chem: Shards) -> None:
    _, n_elm, _, w_elm, w_blm, *_ = cells(chem, State(strategies=(UNMASKED,)))

    assert n_elm == ("0", "0")
    assert [w_elm[0], w_blm[0]] == [DASH, DASH]

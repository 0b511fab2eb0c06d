"""Renders rows of splits as HTML for notebooks.

Patients' text is not rendered automatically, because a notebook is saved and shared with its
outputs. Rows of remote folders are not rendered, because displaying an object should not download
files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslm_data.draw import macros
from mslm_data.draw.id_words import try_open_tokenizer
from mslm_data.draw.sentences import Sentences, choose_rows
from mslm_data.errors import MslmDataError
from mslm_data.shard.remote import RemoteFolder

if TYPE_CHECKING:
    from mslm_data.shard.split import Rows

ROWS = 3
"""Number of rows rendered."""
_PROTECTED = (
    "Patients' text, which is not shown here, as a notebook keeps what it shows. "
    "md.show(..., show_text=True) shows it."
)


def draw_rows(rows: Rows) -> str:
    """Render a few rows with their mentions as HTML, or a note that explains why not."""
    if rows.protected:
        return str(macros("parts.html").note(_PROTECTED))

    folders = [part.source.place for part in rows.splits]
    local = [folder for folder in folders if not isinstance(folder, RemoteFolder)]
    if len(local) < len(folders):
        return ""

    # All splits of a mix have the same tokenizer.
    words = try_open_tokenizer(local[0] / "tokenizer.json")
    if words is None:
        return ""

    try:
        examples = rows.take(choose_rows(rows, ROWS))
    except MslmDataError as error:
        return str(macros("parts.html").note(str(error)))
    return Sentences(examples, words, rows.labels).mentions()

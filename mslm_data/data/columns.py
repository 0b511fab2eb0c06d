"""The columns of a shard. `shard/FORMAT.md` explains them and has a worked row.

Some columns are optional: an option of the pipeline adds them, see `Column.when`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass

import pyarrow as pa

from mslm_data.data.bio import tag_names
from mslm_data.data.context import FLAGS


@dataclass(frozen=True, slots=True)
class Column:
    """Declare a column.

    A row::

        name         type   per   when
        span_labels  int16  span  always

    Each row of every shard has a list of int16 in `span_labels`, with an item for each mention.

    Attributes:
        name: Column name.
        type: Arrow type of the value, or of the items of the list.
        per: "row" for a single value; "token", "span" or "sentence" for a list with an item for
            each token, mention or sentence.
        when: Condition for the column. "always": every shard has it (default). "weak": mentions are
            weakly supervised. "text": `encode.keep_text`. "context": `annotate.context`.
            "documents": `source.doc_label`. "joined": `encode.join`.
    """

    name: str
    type: pa.DataType
    per: str
    when: str = "always"

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the whole column."""
        return self.type if self.per == "row" else pa.list_(self.type)

    @property
    def field(self) -> str:
        """Field of `Examples`, in the plural for a value per row, such as `keys` for `key`."""
        return f"{self.name}s" if self.per == "row" else self.name


COLUMNS = (
    Column("key", pa.uint64(), "row"),
    Column("doc_id", pa.string(), "row"),
    Column("doc_label", pa.int16(), "row", "documents"),
    Column("input_ids", pa.int32(), "token"),
    Column("word_ids", pa.int32(), "token"),
    Column("bio", pa.int16(), "token"),
    Column("sentence_starts", pa.int32(), "sentence", "joined"),
    Column("span_starts", pa.int32(), "span"),
    Column("span_ends", pa.int32(), "span"),
    Column("span_labels", pa.int16(), "span"),
    Column("span_concepts", pa.string(), "span", "weak"),
    Column("span_scores", pa.float32(), "span", "weak"),
    Column("span_contexts", pa.int8(), "span", "context"),
    Column("text", pa.string(), "row", "text"),
    Column("token_starts", pa.int32(), "token", "text"),
    Column("token_ends", pa.int32(), "token", "text"),
)
FORMAT = 2
"""Version of the folder format. Folders of other versions are not read."""


def schema(labels: Sequence[str], kinds: Set[str], doc_labels: Sequence[str] = ()) -> pa.Schema:
    """Return the Arrow schema of a shard.

    The metadata of the schema has the names of labels and tags under `mslm_data`, and the features
    for Hugging Face `datasets` under `huggingface`.

    Args:
        labels: Label names, by index.
        kinds: Kinds of optional columns, see `Column.when`.
        doc_labels: Names of document labels, by index, if `kinds` has "documents".
    """
    columns = [column for column in COLUMNS if column.when in {"always", *kinds}]
    names: dict[str, object] = {"format": FORMAT, "labels": list(labels), "tags": tag_names(labels)}
    if "documents" in kinds:
        names["doc_labels"] = list(doc_labels)
    if "context" in kinds:
        names["contexts"] = list(FLAGS)
    return pa.schema(
        [pa.field(column.name, column.arrow_type) for column in columns],
        metadata={
            "mslm_data": json.dumps(names, ensure_ascii=False),
            "huggingface": json.dumps({"info": {"features": features(columns)}}),
        },
    )


def features(columns: Sequence[Column]) -> dict[str, object]:
    """Return the columns in the format of `Features.to_dict()` of Hugging Face `datasets`."""
    by_name: dict[str, object] = {}
    for column in columns:
        # Arrow names float32 "float"; the other types have the same name in `datasets`.
        dtype = str(column.type).replace("float", "float32")
        value = {"dtype": dtype, "_type": "Value"}
        by_name[column.name] = value if column.per == "row" else {"feature": value, "_type": "List"}
    return by_name

"""The columns of a shard, each declared once; `shard/FORMAT.md` says the same in prose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from mslm_data.data.bio import tag_names


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: As in the contract.
        type: Of a row's value, or of an item of a row's list.
        rows: What has the same number of items in each row: "row" for one value a row, "tokens", or "spans".
        when: "always", "weak" for weakly supervised mentions, "text" with `encode.keep_text`.
    """

    name: str
    type: pa.DataType
    rows: str
    when: str = "always"

    @property
    def arrow_type(self) -> pa.DataType:
        """The column's Arrow type."""
        return self.type if self.rows == "row" else pa.list_(self.type)


COLUMNS = (
    Column("key", pa.uint64(), "row"),
    Column("doc_id", pa.string(), "row"),
    Column("input_ids", pa.int32(), "tokens"),
    Column("word_ids", pa.int32(), "tokens"),
    Column("bio", pa.int16(), "tokens"),
    Column("span_starts", pa.int32(), "spans"),
    Column("span_ends", pa.int32(), "spans"),
    Column("span_labels", pa.int16(), "spans"),
    Column("span_concepts", pa.string(), "spans", "weak"),
    Column("span_scores", pa.float32(), "spans", "weak"),
    Column("text", pa.string(), "row", "text"),
    Column("token_starts", pa.int32(), "tokens", "text"),
    Column("token_ends", pa.int32(), "tokens", "text"),
)
FORMAT = 2
"""Version of the folder's layout that this package writes, and the only one that it reads."""


def schema(labels: Sequence[str], *, weak: bool = False, text: bool = False) -> pa.Schema:
    """Return a shard's schema, with the label and tag names and Hugging Face's features in its metadata.

    Args:
        labels: The label of each index.
        weak: With the columns of weak supervision.
        text: With those of `keep_text`.
    """
    kinds = {"always", *(["weak"] if weak else []), *(["text"] if text else [])}
    columns = [column for column in COLUMNS if column.when in kinds]
    names = {"format": FORMAT, "labels": list(labels), "tags": tag_names(labels)}
    return pa.schema(
        [pa.field(column.name, column.arrow_type) for column in columns],
        metadata={
            "mslm_data": json.dumps(names, ensure_ascii=False),
            "huggingface": json.dumps({"info": {"features": features(columns)}}),
        },
    )


def features(columns: Sequence[Column]) -> dict[str, object]:
    """Return columns as Hugging Face's `Features.to_dict()` has them."""
    values = {
        column.name: {"dtype": str(column.type).replace("float", "float32"), "_type": "Value"}
        for column in columns
    }
    return {
        column.name: values[column.name]
        if column.rows == "row"
        else {"feature": values[column.name], "_type": "List"}
        for column in columns
    }

"""The columns of a shard, each declared once; `shard/FORMAT.md` says the same in prose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from mslm_data.data.bio import tag_names
from mslm_data.data.context import FLAGS


@dataclass(frozen=True, slots=True)
class Column:
    """Declare one column.

    Attributes:
        name: Its name.
        type: The Arrow type of a row's value, or of the items of a row's list.
        rows: "row" for one value a row; "tokens", "spans" or "sentences" for a list with one item
            for each.
        when: "always", "weak" for weakly supervised mentions only, "text" with `encode.keep_text`
            only, "context" with `annotate.context` only, "documents" with `source.doc_label` only,
            "joined" with `encode.join` only.
    """

    name: str
    type: pa.DataType
    rows: str
    when: str = "always"

    @property
    def arrow_type(self) -> pa.DataType:
        """Return the type of the whole column."""
        return self.type if self.rows == "row" else pa.list_(self.type)


COLUMNS = (
    Column("key", pa.uint64(), "row"),
    Column("doc_id", pa.string(), "row"),
    Column("doc_label", pa.int16(), "row", "documents"),
    Column("input_ids", pa.int32(), "tokens"),
    Column("word_ids", pa.int32(), "tokens"),
    Column("bio", pa.int16(), "tokens"),
    Column("sentence_starts", pa.int32(), "sentences", "joined"),
    Column("span_starts", pa.int32(), "spans"),
    Column("span_ends", pa.int32(), "spans"),
    Column("span_labels", pa.int16(), "spans"),
    Column("span_concepts", pa.string(), "spans", "weak"),
    Column("span_scores", pa.float32(), "spans", "weak"),
    Column("span_contexts", pa.int8(), "spans", "context"),
    Column("text", pa.string(), "row", "text"),
    Column("token_starts", pa.int32(), "tokens", "text"),
    Column("token_ends", pa.int32(), "tokens", "text"),
)
FORMAT = 2
"""Version of the folder's layout that this package writes, and the only one that it reads."""


def schema(
    labels: Sequence[str],
    *,
    weak: bool = False,
    text: bool = False,
    doc_labels: Sequence[str] | None = None,
    joined: bool = False,
    context: bool = False,
) -> pa.Schema:
    """Return a shard's schema.

    Its metadata holds the label and tag names, and Hugging Face's features.

    Args:
        labels: The label of each index.
        weak: Include the columns of weak supervision.
        text: Include the columns of `keep_text`.
        doc_labels: The label of each index of `doc_label`; None leaves that column out.
        joined: Include the column of `encode.join`.
        context: Include the column of `annotate.context`.
    """
    kinds = {"always"}
    if weak:
        kinds.add("weak")
    if text:
        kinds.add("text")
    if doc_labels is not None:
        kinds.add("documents")
    if joined:
        kinds.add("joined")
    if context:
        kinds.add("context")
    columns = [column for column in COLUMNS if column.when in kinds]

    names = {"format": FORMAT, "labels": list(labels), "tags": tag_names(labels)}
    if doc_labels is not None:
        names["doc_labels"] = list(doc_labels)
    if context:
        names["contexts"] = list(FLAGS)
    return pa.schema(
        [pa.field(column.name, column.arrow_type) for column in columns],
        metadata={
            "mslm_data": json.dumps(names, ensure_ascii=False),
            "huggingface": json.dumps({"info": {"features": features(columns)}}),
        },
    )


def features(columns: Sequence[Column]) -> dict[str, object]:
    """Return columns as Hugging Face's `Features.to_dict()` has them."""
    described: dict[str, object] = {}
    for column in columns:
        # Arrow calls float32 "float"; all other types have one name in both.
        dtype = str(column.type).replace("float", "float32")
        value = {"dtype": dtype, "_type": "Value"}
        described[column.name] = (
            value if column.rows == "row" else {"feature": value, "_type": "List"}
        )
    return described

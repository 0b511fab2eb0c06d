"""Tables in the format of `datasets`, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

NAMES = ("O", "B-Disease", "I-Disease")


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows of words with tags in the format of `datasets`."""
    feature = {"feature": {"names": list(NAMES), "_type": "ClassLabel"}, "_type": "List"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})}
    fields = [
        ("id", pa.string()),
        ("tokens", pa.list_(pa.string())),
        ("ner_tags", pa.list_(pa.int64())),
    ]
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields, metadata=metadata))

"""Tokenising words and aligning tags, against the `datasets.map` recipe of `run_ner`.

`python -m benchmarks encode`
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import datasets
from transformers import BertTokenizer

from benchmarks import folders
from benchmarks.harness import (
    Contestant,
    Goal,
    Results,
    Row,
    in_turn,
    make_row,
    row_at_most,
    same,
)
from benchmarks.inputs import Inputs, longer, read, write
from benchmarks.script import continued_labels, tokenize_and_align_labels
from mslm_data.data.bio import tag_names
from mslm_data.data.document import Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.data.examples import Examples
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.encode.encoder import Encoder
from mslm_data.encode.word_table import WordTable
from mslm_data.pipeline import EncodeOptions
from mslm_data.segment.given import GivenSentences
from mslm_data.source.formats.conll import Conll

_LONG = 400
"""Minimum number of words of a long document."""
_LONGEST = 1 << 16
"""Maximum number of tokens of both sides, large enough that no document is cut."""
_DISK = 6
"""Goal in bytes per token."""

_WHY_KNOWN = (
    "looking words up by their characters is the greatest part, and what rows have besides, their "
    "keys, mentions and cuts, is most of the rest; the peer's rows have none of it"
)


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time sentences with an empty and a full word table, then long documents."""
    datasets.disable_caching()
    datasets.disable_progress_bars()

    cold, warm = _rows(inputs.train, inputs, "sentences")

    joined = scratch / "long.tsv"
    write(joined, longer(read(inputs.train), _LONG))
    _, long = _rows(joined, inputs, f"documents of {_LONG} words and more")

    return Results(rows=[cold, warm, long, _disk(inputs, scratch)])


def _rows(path: Path, inputs: Inputs, name: str) -> tuple[Row, Row]:
    """Time a file with an empty word table ("cold") and a full one ("words known")."""
    tokenizer = tokenizers.load_tokenizer(str(inputs.vocab))
    theirs = _usual_tokenizer(inputs)

    documents = _documents(path)
    sentences = GivenSentences().sentences(documents)
    labels = sorted(documents.mentions.used_labels())
    numbers = {label: number for number, label in enumerate(labels)}
    table = _table(path, labels)

    def fresh() -> Encoder:
        return Encoder(WordTable(tokenizer), numbers, EncodeOptions(max_tokens=_LONGEST))

    def ours(encoder: Encoder) -> Examples:
        examples, _ = encoder.encode(documents, sentences)
        return examples

    def peer(_: None) -> Any:
        return _align(table, theirs, labels)

    _check(ours(fresh()), peer(None), theirs)

    # The limit tokenises each distinct word once, in groups as large as long rows.
    words = list(dict.fromkeys(chain.from_iterable(table["tokens"])))
    groups = [words[i : i + 512] for i in range(0, len(words), 512)]

    count = sum(map(len, table["tokens"]))
    warm = fresh()
    rates = in_turn(
        {
            "ours": Contestant(prepare=fresh, call=ours, work=count),
            "peer": Contestant(call=peer, work=count),
            "limit": Contestant(
                call=lambda _: tokenizer.core.encode_batch(groups, is_pretokenized=True), work=count
            ),
            "warm": Contestant(prepare=lambda: warm, call=ours, work=count, repeat=3),
        },
        rounds=5,
    )

    what = (
        f"`Encoder.encode` over {len(documents):,} {name}, read already; the peer is "
        "`datasets.map(batched=True)` with a fast tokenizer, `is_split_into_words`, `word_ids()` "
        "and a label for each token, over a table already loaded. Ids, word numbers and tags of "
        "every token were equal."
    )
    return (
        make_row(
            f"encode and align {name}, cold",
            {side_name: rates[side_name] for side_name in ("ours", "peer", "limit")},
            unit="words",
            what=f"{what} No word is known. The limit is the tokenizer on the {len(words):,} "
            "distinct words alone, its result left in Rust.",
            goal=Goal(peer=6),
        ),
        make_row(
            f"encode and align {name}, words known",
            {"ours": rates["warm"], "peer": rates["peer"]},
            unit="words",
            what=f"{what} Every word is known from an earlier call, as nearly all are in a large "
            "corpus.",
            goal=Goal(peer=30, why=_WHY_KNOWN),
        ),
    )


def _disk(inputs: Inputs, scratch: Path) -> Row:
    """Compare the size of our shards with the recipe's table after `save_to_disk`."""
    shards = folders.sentences(inputs, scratch, copies=1)
    labels = list(shards.labels)
    aligned = _align(_table(inputs.train, labels), _usual_tokenizer(inputs), labels)
    table = aligned.remove_columns(["tokens", "ner_tags"])
    table.save_to_disk(str(scratch / "aligned"))

    same("tokens", shards["train"].record.tokens, sum(map(len, table["input_ids"])))
    ours, theirs = (
        sum(path.stat().st_size for path in folder.rglob("*.arrow")) / shards["train"].record.tokens
        for folder in (Path(str(shards.folder)), scratch / "aligned")
    )

    return row_at_most(
        "shards on disk",
        ours,
        _DISK,
        unit="bytes",
        what="bytes a token, less is better: ids, word numbers, tags, mentions, keys and names of "
        "documents; the peer is the table of the recipe above, as `save_to_disk` leaves it: ids, "
        "types, mask and labels.",
        peer=theirs,
        why="ids and word numbers of 32 bits and tags of 16, as the layout promises, are ten bytes",
    )


def _documents(path: Path) -> Documents:
    """Read documents by source `conll`.

    Raises:
        ValueError: A line is broken.
    """
    (parsed,) = Conll().batches(Part(str(path)))
    if isinstance(parsed, SetAside):
        raise ValueError(f"{parsed.place}: {parsed.reason.text}")
    return parsed


def _usual_tokenizer(inputs: Inputs) -> Any:
    return BertTokenizer(
        vocab=str(inputs.vocab), do_lower_case=not inputs.cased, model_max_length=_LONGEST
    )


def _align(table: Any, tokenizer: Any, labels: list[str]) -> Any:
    """Tokenise the words of `_table` and align their tags like `run_ner`."""
    return table.map(
        tokenize_and_align_labels,
        batched=True,
        fn_kwargs={"tokenizer": tokenizer, "continued": continued_labels(tag_names(labels))},
    )


def _table(path: Path, labels: list[str]) -> Any:
    """Return words and tag ids as an in-memory dataset."""
    names = {name: number for number, name in enumerate(tag_names(labels))}

    sentences = read(path)
    return datasets.Dataset.from_dict(
        {
            "tokens": [[word for word, _ in sentence] for sentence in sentences],
            "ner_tags": [[names[tag] for _, tag in sentence] for sentence in sentences],
        }
    )


def _check(ours: Examples, theirs: Any, tokenizer: Any) -> None:
    """Check that ids, word numbers and tags are equal."""
    same("ids", ours.input_ids.tolist(), list(theirs["input_ids"]))

    words = [
        [-1 if word is None else word for word in encoding.word_ids]
        for encoding in tokenizer(list(theirs["tokens"]), is_split_into_words=True).encodings
    ]
    same("word numbers", ours.word_ids.tolist(), words)

    # Special tokens are -100 in the recipe's labels, and O in our tags.
    tags = [[max(tag, 0) for tag in labels_row] for labels_row in theirs["labels"]]
    same("tags", ours.bio.tolist(), tags)

"""Builds one work unit: reads, annotates, segments, encodes, writes its shard, leaves a receipt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mslm_data.builds.folder import Receipt, write_receipt
from mslm_data.builds.plan import Stamp, refuse_changed
from mslm_data.builds.reading import Reading
from mslm_data.builds.stages import annotator_of, segmenter_of, word_table_of
from mslm_data.builds.trail import Trail
from mslm_data.data import columns
from mslm_data.data.document import SetAside, WorkUnit
from mslm_data.data.documents import Documents
from mslm_data.data.examples import Examples, concatenate
from mslm_data.encode.encoder import Encoder
from mslm_data.encode.mentions import Account
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.io.files import make_folder
from mslm_data.pipeline import Pipeline
from mslm_data.shard.write import ShardRecord, write_shard

_NO_TOKEN = "expected text with at least one token, got none"


@dataclass(frozen=True, kw_only=True)
class UnitBuilder:
    """Builds work units, in whatever process it is sent to.

    Attributes:
        pipeline: Says how.
        labels: The label of each index.
        tokenizer: Makes the tokens.
        folder: The folder that is built.
        totals: Split -> number of its units, for the shards' names.
        stamps: Input file -> what its files looked like when their digests were taken.
        repeated: Ids that documents of units before have; see `finish.repeated_ids`.
    """

    pipeline: Pipeline
    labels: tuple[str, ...]
    tokenizer: Tokenizer
    folder: str
    totals: Mapping[str, int]
    stamps: Mapping[str, tuple[Stamp, ...]]
    repeated: frozenset[str] = frozenset()

    def __call__(self, unit: WorkUnit) -> str:
        """Build one unit and return its receipt's name.

        Raises:
            SourceError: An input file is not what it was when the build was planned.
        """
        out = Path(self.folder)
        account = Account()
        refuse_changed(self.stamps, unit)
        with Trail(out, unit) as trail:
            reading = Reading(self.pipeline, repeated=self.repeated, trail=trail)
            examples = self._examples(unit, reading, account)
        refuse_changed(self.stamps, unit)

        shard = self._write(unit, examples)
        return write_receipt(out, unit, _receipt(reading, account, shard))

    def died(self, unit: WorkUnit) -> None:
        """Record that a process died at a unit; see `engine.Work`."""
        Trail(Path(self.folder), unit).died()

    def _examples(self, unit: WorkUnit, reading: Reading, account: Account) -> Examples:
        """Turn the unit's documents into rows."""
        segmenter = segmenter_of(self.pipeline)
        encode = self.pipeline.encode
        encoder = Encoder(
            word_table_of(self.tokenizer),
            {label: number for number, label in enumerate(self.labels)},
            max_tokens=encode.max_tokens,
            protect_mentions=encode.split == "mention",
            keep_text=encode.keep_text,
            weak=annotator_of(self.pipeline).weak,
            corpus=self.pipeline.name,
        )

        parts = []
        for batch in reading.batches(unit):
            for documents, sentences in reading.attempts(batch, segmenter.sentences, "segmenter"):
                examples = encoder.encode(documents, sentences, account)
                reading.set_aside += _without_rows(documents, examples)
                parts.append(examples)
        if not parts:
            nothing = Documents.of([])
            parts.append(encoder.encode(nothing, nothing.sentences, account))
        return concatenate(parts)

    def _write(self, unit: WorkUnit, examples: Examples) -> ShardRecord:
        """Write the unit's shard."""
        folder = Path(self.folder) / unit.split
        make_folder(folder)
        schema = columns.schema(
            self.labels,
            weak=annotator_of(self.pipeline).weak,
            text=self.pipeline.encode.keep_text,
        )
        name = f"data-{unit.number:05d}-of-{self.totals[unit.split]:05d}.arrow"
        return write_shard(folder / name, examples, schema)


def _receipt(reading: Reading, account: Account, shard: ShardRecord) -> Receipt:
    return Receipt(
        read=reading.read,
        not_chosen=dict(sorted(reading.not_chosen.items())),
        given_mentions=reading.given,
        left_out=dict(sorted((reading.left_out + account.left_out).items())),
        adjusted=dict(sorted(reading.adjusted.items())),
        cut_mentions=account.cut_mentions,
        cut_pieces=account.cut_pieces,
        widened_mentions=account.widened,
        windowed=account.windowed,
        empty=account.empty,
        set_aside=tuple(reading.set_aside),
        shard=shard,
    )


def _without_rows(documents: Documents, examples: Examples) -> Iterator[SetAside]:
    """Give the documents that no row comes from."""
    with_rows = set(examples.doc_ids or ())
    if len(with_rows) == len(documents):
        return
    for number, doc_id in enumerate(documents.ids):
        if doc_id not in with_rows:
            yield SetAside(doc_id, documents.places[number], _NO_TOKEN)

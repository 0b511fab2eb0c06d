"""One work unit: read, annotate, segment, encode, write, and leave a receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.plan import Stamp, refuse_changed, segmenter_of
from mslm_data.builds.reading import OURS, Reading
from mslm_data.builds.trail import Trail
from mslm_data.data import columns
from mslm_data.data.document import Document, Sentence, SetAside, WorkUnit
from mslm_data.data.examples import Examples, concatenate
from mslm_data.encode.encoder import Encoder
from mslm_data.encode.mentions import Account
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import BuildError
from mslm_data.io.files import canonical_json, make_folder, sha256_of, write_whole
from mslm_data.pipeline import Pipeline
from mslm_data.segment import Segmenter
from mslm_data.shard.manifest import Counts
from mslm_data.shard.write import ShardRecord, write_shard


@dataclass(frozen=True, kw_only=True)
class Receipt(Counts):
    """What became of a unit, the documents it set aside, and its shard."""

    set_aside: tuple[SetAside, ...]
    shard: ShardRecord


@dataclass(frozen=True, kw_only=True)
class Work:
    """Builds units; travels to whatever process does it.

    Attributes:
        pipeline: How.
        labels: The label of each index.
        tokenizer: What tokenises.
        folder: The folder that is built.
        totals: Split -> number of its units, for the shards' names.
        stamps: Input file -> what it looked like when its digest was taken.
        repeated: Ids that documents of units before have; see `repeats`.
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
        account = Account()
        refuse_changed(self.stamps, unit)
        with Trail(Path(self.folder), unit) as trail:
            reading = Reading(self.pipeline, self.labels, repeated=self.repeated, trail=trail)
            examples = self._examples(unit, reading, account)
        refuse_changed(self.stamps, unit)
        folder = Path(self.folder) / unit.split
        make_folder(folder)
        name = f"data-{unit.number:05d}-of-{self.totals[unit.split]:05d}.arrow"
        schema = columns.schema(self.labels, weak=reading.weak, text=self.pipeline.encode.keep_text)
        shard = write_shard(folder / name, examples, schema)
        receipt = Receipt(
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
        name = receipt_name(unit)
        write_whole(
            receipts_folder(Path(self.folder)) / name,
            [canonical_json(asdict(receipt) | {"set_aside": [*map(list, receipt.set_aside)]})],
        )
        return name

    def died(self, unit: WorkUnit) -> None:
        """Note that a process died at a unit; see `engine.Work`."""
        Trail(Path(self.folder), unit).died()

    def _examples(self, unit: WorkUnit, reading: Reading, account: Account) -> Examples:
        segmenter = segmenter_of(self.pipeline)
        encode = self.pipeline.encode
        encoder = Encoder(
            self.tokenizer,
            self.labels,
            max_tokens=encode.max_tokens,
            protect_mentions=encode.split == "mention",
            keep_text=encode.keep_text,
            weak=reading.weak,
            corpus=self.pipeline.name,
        )
        parts = []
        for batch in reading.batches(unit):
            documents, sentences = _segmented(batch, segmenter, reading)
            examples = encoder.encode(documents, sentences, account)
            with_rows = set(examples.doc_ids or ())
            reading.set_aside += [
                SetAside(
                    document.id, document.place, "expected text with at least one token, got none"
                )
                for document in documents
                if document.id not in with_rows
            ]
            parts.append(examples)
        return concatenate(parts) if parts else encoder.encode([], [], account)


def _segmented(
    batch: Sequence[Document], segmenter: Segmenter, reading: Reading
) -> tuple[list[Document], list[list[Sentence]]]:
    """Return the documents that could be cut into sentences, and these."""
    documents, sentences = [], []
    for document in batch:
        try:
            cut = segmenter.sentences(document)
        except OURS:
            raise
        except Exception as error:  # noqa: BLE001 - a model may raise anything, and its message may hold text
            reading.refuse(document, f"{type(error).__name__} from the segmenter")
        else:
            documents.append(document)
            sentences.append(cut)
    return documents, sentences


def receipts_folder(folder: Path) -> Path:
    """Return where the receipts of an unfinished build lie."""
    return folder / ".build" / "receipts"


def receipt_name(unit: WorkUnit) -> str:
    """Return the file name of a unit's receipt."""
    return f"{unit.name}.json"


def read_receipt(folder: Path, unit: WorkUnit, *, every_byte: bool = False) -> Receipt | None:
    """Return a unit's receipt if there is one and its shard is there in full, else None: the unit is to be done.

    Args:
        folder: The unfinished folder.
        unit: Which.
        every_byte: Whether the shard's checksum is looked at, not its size only.
    """
    path = receipts_folder(folder) / receipt_name(unit)
    try:
        value: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        receipt = msgspec.convert(value, Receipt)
        shard = folder / unit.split / receipt.shard.file
        whole = shard.stat().st_size == receipt.shard.bytes and (
            not every_byte or sha256_of(shard) == receipt.shard.sha256
        )
    except (OSError, msgspec.DecodeError):
        return None
    return receipt if whole else None


def finished(folder: Path, unit: WorkUnit) -> Receipt:
    """Return the receipt of a unit that must be done, its shard as it was written.

    Raises:
        BuildError: It is not.
    """
    receipt = read_receipt(folder, unit, every_byte=True)
    if receipt is None:
        raise BuildError(
            f"{folder}: work unit {unit.number} of {unit.split} is not done; run the same command again"
        )
    return receipt

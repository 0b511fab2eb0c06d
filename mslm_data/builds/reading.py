"""Reads and annotates the documents of a work unit, and counts those that go elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mslm_data.annotate import Annotated
from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.stages import load_annotator, source_of
from mslm_data.builds.trail import Trail
from mslm_data.data.document import Document, NotChosen, Part, SetAside, WorkUnit
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.pipeline import Pipeline

_DOCUMENTS_AT_ONCE = 4096
_CHARACTERS_AT_ONCE = 8 << 20
OURS = (MslmDataError, MemoryError, OSError)
"""Exceptions that no document is to blame for."""
_REPEATED = "expected an id that no document before it has"


class Reading:
    """The reading of one work unit.

    Attributes:
        weak: Whether mentions have concepts and confidences for the shards.
        read: Documents of the corpus that was asked for.
        not_chosen: Reason -> records that are not part of it.
        given: Mentions that the annotator found, with those that it left out.
        left_out: Reason -> mentions that documents do not have.
        adjusted: Reason -> mentions not just as the source has them.
        set_aside: Documents that cannot be used.
    """

    def __init__(
        self, pipeline: Pipeline, labels: Sequence[str], *, repeated: frozenset[str], trail: Trail
    ) -> None:
        """Load the annotator.

        Args:
            pipeline: Says how documents are read and annotated.
            labels: Labels that mentions may have.
            repeated: Ids that documents of units before this one have.
            trail: The trail of this unit.
        """
        self._pipeline = pipeline
        self._labels = labels
        self._repeated = repeated
        self._trail = trail
        self._annotator = load_annotator(pipeline.annotate)
        self._num_begun = 0

        self.weak = self._annotator.weak
        self.read = 0
        self.given = 0
        self.not_chosen = Counter[str]()
        self.left_out = Counter[str]()
        self.adjusted = Counter[str]()
        self.set_aside: list[SetAside] = []

    def batches(self, unit: WorkUnit) -> Iterator[list[Document]]:
        """Give the unit's documents with flat mentions of the wanted labels, some at a time.

        A batch is worth one call and fits in memory. On a trail it is one document.
        """
        batch: list[Document] = []
        characters = 0
        for document in self._usable(unit):
            batch.append(document)
            characters += len(document.text)

            full = len(batch) >= _DOCUMENTS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE
            if full or self._trail.careful:
                yield self._annotated(batch)
                batch = []
                characters = 0
        if batch:
            yield self._annotated(batch)

    def refuse(self, document: Document, got: str) -> None:
        """Set a document aside that a model cannot take."""
        reason = f"expected text that the models of the pipeline can take, got {got}"
        self.set_aside.append(SetAside(document.id, document.place, reason))

    def _usable(self, unit: WorkUnit) -> Iterator[Document]:
        source = source_of(self._pipeline).of_split(unit.split)
        path_of: dict[str, str] = {}
        for part in unit.parts:
            for record in source.read(part):
                if isinstance(record, NotChosen):
                    self.not_chosen[record.reason] += 1
                    continue

                self.read += 1
                if isinstance(record, SetAside):
                    self.set_aside.append(record)
                elif _repeats(record, part, path_of) or record.id in self._repeated:
                    self.set_aside.append(SetAside(record.id, record.place, _REPEATED))
                else:
                    yield record

    def _annotated(self, documents: Sequence[Document]) -> list[Document]:
        """Give documents their mentions: found, renamed, chosen by label, flat."""
        annotate = self._pipeline.annotate
        made = []
        for document, found in self._found(documents):
            wanted, unwanted = relabel(found.spans, rename=annotate.rename, labels=self._labels)
            flat, overlapping = flatten(wanted)

            self.given += len(found.spans) + sum(found.left_out.values())
            for reasons in (found.left_out, unwanted, overlapping):
                self.left_out.update(reasons)
            self.adjusted.update(document.adjusted)
            made.append(document.with_spans(flat))
        return made

    def _found(self, documents: Sequence[Document]) -> Iterator[tuple[Document, Annotated]]:
        """Annotate documents at once or, if one of them makes that fail, one by one."""
        number = self._num_begun
        self._num_begun += len(documents)

        if self._trail.careful:
            self._trail.at(number)
        if number in self._trail.fatal:
            self.refuse(documents[0], "a process that died of it each time")
            return

        try:
            found = self._annotator.annotate(documents)
        except OURS:
            raise
        except Exception:  # noqa: BLE001 - it is met again below, and counted
            yield from self._found_alone(documents)
        else:
            yield from zip(documents, found, strict=True)

    def _found_alone(self, documents: Sequence[Document]) -> Iterator[tuple[Document, Annotated]]:
        for document in documents:
            try:
                found = self._annotator.annotate([document])[0]
            except OURS:
                raise
            except Exception as error:  # noqa: BLE001 - it may be anything, and hold text
                self.refuse(document, f"{type(error).__name__} from the annotator")
            else:
                yield document, found


def _repeats(document: Document, part: Part, path_of: dict[str, str]) -> bool:
    """Return whether a document of the same file had its id before, and remember the id.

    Args:
        document: The document.
        part: The piece of a file that it stands in.
        path_of: Id -> path of the file that had it last; changed.

    Raises:
        BuildError: A document of another file had it.
    """
    before = path_of.get(document.id)
    path_of[document.id] = part.path
    if before not in (None, part.path):
        raise shared_id(document.id, str(before), part.path)
    return before is not None


def shared_id(doc_id: str, before: str, path: str) -> BuildError:
    """Return the error for an id that documents of two files have.

    Setting them aside, as within a file, could silently lose the second file as a whole.
    """
    return BuildError(
        f"{path}: expected ids that no two files share, got document {doc_id}, which {before} has "
        "too; rename a file if its name is part of the id, or build the files apart"
    )

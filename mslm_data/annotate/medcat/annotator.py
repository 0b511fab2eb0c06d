"""Annotates with MedCAT: concepts filtered by semantic type.

This follows Appendix G.1 of Abaho et al. 2024. MedCAT returns all nested mentions, and
`overlaps.flatten` removes overlaps afterwards. So if a mention is left out, a shorter mention
inside it remains: `heart` for `Heart; failure`.
"""

from __future__ import annotations

import gc
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from mslm_data.annotate import boundaries, semantic_types
from mslm_data.annotate.cached import CachedAnnotator, FoundMentions, filter_mentions
from mslm_data.annotate.medcat import pack
from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.model import load_model
from mslm_data.annotate.medcat.names import FoundConcept, make_finder, read_concepts
from mslm_data.data.document import Document, Span, overwrite
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError
from mslm_data.registry import Options


class MedCat(Options, frozen=True, kw_only=True):
    """Find concepts with MedCAT 2."""

    model_pack: Annotated[
        str,
        Meta(description="Model pack of MedCAT 2, a folder or zip. Loading a pack runs its code."),
    ] = ""
    sha256: Annotated[
        str,
        Meta(
            pattern=r"^([0-9a-fA-F]{64})?\Z",
            description="Digest of the pack, checked before loading. It is the consent to run the "
            "code of the pack, so it is given by the command or call, not by a pipeline file.",
        ),
    ] = ""
    types: Annotated[
        str,
        Meta(
            description="Table of semantic types with their labels: a file below `vocab/`, or a "
            "path."
        ),
    ] = "semantic_types.toml"
    min_score: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Minimum confidence of a mention, from 0 to 1. Names of a single concept "
            "have confidence 1; the confidence of other names is the similarity of their context.",
        ),
    ] = 0.0
    tokenizer: Annotated[
        Literal["lemmas", "words"],
        Meta(
            description='"lemmas" also looks up plural nouns as singulars. "words" looks up words '
            "as written; same results as MedCAT's spaCy tokenizer without lemmatizer."
        ),
    ] = "lemmas"
    not_inside: Annotated[str, Meta(description="Characters not allowed inside a mention.")] = (
        ";():"
    )
    max_line_breaks: Annotated[
        int,
        Meta(
            description="Maximum number of line ends inside a mention. Blank lines and list marks "
            "are never allowed."
        ),
    ] = 1
    weak: Annotated[
        bool, Meta(description="Whether to store concepts and confidences of mentions.")
    ] = True
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return a digest of the pack, the type table and the version of MedCAT.

        Raises:
            AnnotateError: From `pack.check_consent`, so that a build is refused before it writes.
        """
        version = import_module("medcat.version").__version__
        semantic_types.read(self.types)
        table = hashlib.sha256(semantic_types.find_table(self.types).read_bytes()).hexdigest()
        checked = pack.check_consent(self._path(), self.sha256)
        return hashlib.sha256(f"{checked} {table} {version}".encode()).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the type table."""
        return semantic_types.read(self.types).labels

    def start(self) -> CachedAnnotator:
        """Check the digest of the pack, and load it."""
        return CachedAnnotator(self.load().find)

    def load(self) -> LoadedMedCat:
        """Check the digest of the pack, and load it without a cache for texts."""
        types = semantic_types.read(self.types)
        copy = pack.checked(self._path(), self.sha256)
        with _without_collector():
            try:
                cat = load_model(copy, tokenizer=self.tokenizer)
            except AnnotateError as error:
                # Name the pack of the user, not its private copy.
                raise AnnotateError(str(error).replace(str(copy), self.model_pack)) from None
            return LoadedMedCat(self, cat, types)

    def _path(self) -> Path:
        if not self.model_pack:
            raise AnnotateError(
                "annotator 'medcat': no model_pack given; pass --set annotate.model_pack=PACK with "
                "a pack of MedCAT 2. Without a pack, --set annotate.use=terms finds the names of a "
                "table, which `mslm-data vocab concepts` makes, and --set annotate.use=none builds "
                "without mentions"
            )
        return Path(self.model_pack)


class LoadedMedCat:
    """MedCAT with its model in memory."""

    def __init__(self, options: MedCat, cat: Any, types: semantic_types.SemanticTypes) -> None:
        """Select the concepts with a label.

        Args:
            options: Options of the annotator.
            cat: `CAT` of MedCAT.
            types: Semantic types with their labels.

        Raises:
            AnnotateError: The pack has no concepts with a label, or its filter excludes all of
                them.
        """
        self._options = options
        self._cat = cat

        infos = cat.cdb.cui2info
        find_label = cache(types.label)  # many concepts have equal sets of types
        labels = {cui: find_label(frozenset(info["type_ids"])) for cui, info in infos.items()}
        self._labels = {cui: label for cui, label in labels.items() if label}
        if not self._labels:
            raise AnnotateError(_no_concept(options, infos))

        # Fast test for `_crossing`: most mentions have none of these characters.
        self._may_cross = re.compile(f"[{re.escape(options.not_inside)}\r\n]")

        # MedCAT filters concepts before it resolves overlaps, so a concept without a label never
        # suppresses a concept with one.
        filters = cat.config.components.linking.filters
        wanted = set(self._labels)
        filters.cuis = wanted & filters.cuis if filters.cuis else wanted
        if not filters.cuis:
            raise AnnotateError(
                f"{options.model_pack}: the pack's own filter (linking.filters.cuis) excludes "
                f"all concepts with a label in {options.types}"
            )
        self._finder = make_finder(cat)

    def find(self, documents: Sequence[Document]) -> list[FoundMentions]:
        """Find the mentions of documents, one by one."""
        return [self._found(document) for document in documents]

    def _found(self, document: Document) -> FoundMentions:
        text = overwrite(document.text, document.placeholders, _barrier)
        # A cosine similarity may be negative, or slightly above 1 by rounding.
        spans = (
            Span(start, end, self._labels[concept], concept, min(1.0, max(0.0, float(similarity))))
            for start, end, concept, similarity in self._concepts(text)
        )
        found = filter_mentions(spans, document.placeholders, min_score=self._options.min_score)

        kept: list[Span] = []
        left_out = Counter(found.left_out)
        for span in found.spans:
            reason = self._crossing(document.text, span)
            if reason:
                left_out[Reason(reason)] += 1
            else:
                kept.append(span)
        return FoundMentions(sorted(kept), left_out)

    def _concepts(self, text: str) -> list[FoundConcept]:
        """Find the concepts of a text, with `NameFinder` if it is equivalent to MedCAT."""
        if self._finder is not None:
            return self._finder.find(text)
        return read_concepts(self._cat(text))

    def _crossing(self, text: str, span: Span) -> str:
        """Return the reason to leave out a mention that crosses a boundary; "" to keep it."""
        if not self._may_cross.search(text, span.start, span.end):
            return ""
        return boundaries.crossing(
            text[span.start : span.end],
            not_inside=self._options.not_inside,
            max_line_breaks=self._options.max_line_breaks,
        )


def _barrier(length: int) -> str:
    """Return text such as `.000.` for a placeholder, so that no name is found in or across it.

    MedCAT does not skip full stops within a name, and counts the digits as a single token of
    context.
    """
    return "." + "0" * (length - 2) + "." if length > 1 else "."


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause garbage collection while a model is loaded: none of its objects can be freed."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _no_concept(options: MedCat, infos: Mapping[str, Any]) -> str:
    """Return the error message for a pack without concepts of the selected types."""
    all_types = {type_id for info in infos.values() for type_id in info["type_ids"]}
    examples = ", ".join(sorted(all_types)[:3])
    types = f"types such as {examples}" if examples else "no types"
    return (
        f"{options.model_pack}: expected concepts with a semantic type of {options.types} (T047 "
        f"and others), got {len(infos)} concepts with {types}; SNOMED packs have no UMLS types: "
        f"use a UMLS pack, or a table of types of your own with annotate.types"
    )

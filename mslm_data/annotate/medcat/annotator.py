"""MedCAT annotator: concepts of a model pack, filtered by semantic type, as weak mentions.

As Appendix G.1 of Abaho et al. 2024 does it. MedCAT is made to give all nested mentions. So where a
mention is left out, a shorter one inside it can take its place: `heart` for `Heart; failure`.
`overlaps.flatten` makes the mentions flat afterwards.
"""

from __future__ import annotations

import gc
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from mslm_data.annotate import boundaries, semantic_types
from mslm_data.annotate.cached import IN_PLACEHOLDER, LOW_SCORE, CachedAnnotator, FoundMentions
from mslm_data.annotate.medcat import pack
from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.model import load_model
from mslm_data.annotate.medcat.names import FoundConcept, found_by, make_finder
from mslm_data.data.document import Document, Placeholder, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError
from mslm_data.registry import Help


@dataclass(frozen=True, kw_only=True)
class MedCat:
    """Find concepts with MedCAT 2."""

    model_pack: Annotated[
        str,
        Help(
            "A model pack (a folder or a zip) of MedCAT 2 or 1, or a concept table (.csv) in "
            "MedCAT's columns. A table becomes a concept database when annotation starts. Loading "
            "a pack runs code that is in it."
        ),
    ] = ""
    sha256: Annotated[
        str,
        Help(
            "The pack's digest; no other pack is then loaded. Required for a pack that is more "
            "than data: all but concept tables and packs of `mslm-data vocab concepts`. For a zip "
            "the file's own SHA-256 will do as well."
        ),
    ] = ""
    types: Annotated[
        str, Help("Table of semantic types and their labels: a file below `vocab/`, or a path.")
    ] = "semantic_types.toml"
    min_score: Annotated[
        float,
        Help(
            "Mentions of a lower confidence are left out. A name that stands for one concept only "
            "has confidence 1; other names have a similarity of contexts."
        ),
    ] = 0.0
    tokenizer: Annotated[
        Literal["lemmas", "words", "pack"],
        Help(
            '"lemmas": ours, which also looks plural nouns up as singulars; "words": ours, as '
            "written, which finds what MedCAT's spaCy tokenizer finds without a lemmatizer; "
            '"pack": the pack\'s own, thirty times slower.'
        ),
    ] = "lemmas"
    keep_meta: Annotated[
        Mapping[str, tuple[str, ...]],
        Help(
            'Name of a meta-annotation -> the values that are kept (`{"Status": ["Affirmed"]}`). '
            "If empty, the pack's meta-annotation models are not loaded; they take a hundred times "
            "longer than everything else."
        ),
    ] = field(default_factory=dict)
    not_inside: Annotated[str, Help("Characters that a mention may not reach across.")] = ";():"
    max_line_breaks: Annotated[
        int, Help("Line ends that a mention may reach across; never a blank line or list mark.")
    ] = 1
    settings: Annotated[
        Mapping[str, Any],
        Help(
            "MedCAT's own settings by their tables (`components.ner.min_name_len`), for those who "
            "know them."
        ),
    ] = field(default_factory=dict)
    weak: Annotated[bool, Help("Whether mentions carry concepts and confidences.")] = True
    slow: ClassVar[bool] = False

    def __post_init__(self) -> None:
        is_hexadecimal = set(self.sha256.lower()) <= set("0123456789abcdef")
        if self.sha256 and (len(self.sha256) != 64 or not is_hexadecimal):
            raise ValueError(
                f"expected sha256 as 64 hexadecimal digits, got {len(self.sha256)} characters"
            )
        if not 0 <= self.min_score <= 1:
            raise ValueError(f"expected min_score between 0 and 1, got {self.min_score}")

    def pack_digest(self) -> str:
        """Return the pack's digest, to be passed as the option `sha256`.

        Raises:
            AnnotateError: No pack is named, or nothing is there.
        """
        return pack.digest(self._path())

    def digest(self) -> str:
        """Return a digest of the pack, the type table and MedCAT's version."""
        version = import_module("medcat.version").__version__
        semantic_types.read(self.types)
        table = hashlib.sha256(semantic_types.find_table(self.types).read_bytes()).hexdigest()
        return hashlib.sha256(f"{self.pack_digest()} {table} {version}".encode()).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the type table."""
        return semantic_types.read(self.types).labels

    def start(self) -> CachedAnnotator:
        """Check the pack's digest, and load the pack."""
        return CachedAnnotator(self.load().find)

    def load(self) -> LoadedMedCat:
        """Check the pack's digest, and load it without a cache of equal texts."""
        types = semantic_types.read(self.types)
        copy = pack.checked(self._path(), self.sha256)
        with _without_collector():
            try:
                cat = load_model(
                    copy,
                    tokenizer=self.tokenizer,
                    meta=bool(self.keep_meta),
                    settings=self.settings,
                    prefer=types.of_type,
                )
            except AnnotateError as error:
                # The user named the pack, not our private copy of it.
                raise AnnotateError(str(error).replace(str(copy), self.model_pack)) from None
            return LoadedMedCat(self, cat, types)

    def _path(self) -> Path:
        if not self.model_pack:
            raise AnnotateError(
                "annotator 'medcat': no model_pack given; pass --set "
                "annotate.model_pack=PACK with a MedCAT model pack, or make one with "
                "`mslm-data vocab concepts`"
            )
        return Path(self.model_pack)


class LoadedMedCat:
    """MedCAT with its model in memory.

    Attributes:
        counts: Number of `concepts` of the pack, of those `with_label`, and of these the ones
            `with_two_labels`.
    """

    def __init__(self, options: MedCat, cat: Any, types: semantic_types.SemanticTypes) -> None:
        """Choose the concepts whose types the table has.

        Args:
            options: The annotator's options.
            cat: MedCAT's `CAT`.
            types: Semantic types and their labels.

        Raises:
            AnnotateError: The pack has no such concept, or its own filter keeps none of them.
        """
        self._options = options
        self._cat = cat

        infos = cat.cdb.cui2info
        # Many concepts have the same types, so each set of types is looked up once.
        concept_types = {cui: frozenset(info["type_ids"]) for cui, info in infos.items()}
        num_of_types = Counter(concept_types.values())
        label_of_types = {type_set: types.label(type_set) for type_set in num_of_types}
        labels = {cui: label_of_types[type_set] for cui, type_set in concept_types.items()}
        self._labels = {cui: label for cui, label in labels.items() if label}
        if not self._labels:
            raise AnnotateError(_no_concept(options, infos))

        self.counts = {
            "concepts": len(infos),
            "with_label": len(self._labels),
            "with_two_labels": sum(
                number
                for type_set, number in num_of_types.items()
                if types.num_labels(type_set) > 1
            ),
        }

        # What a mention reaches across is looked at only if it has such a character.
        self._may_cross = re.compile(f"[{re.escape(options.not_inside)}\r\n]")

        # MedCAT filters before it removes overlaps: a concept of another type hides none of ours.
        filters = cat.config.components.linking.filters
        wanted = set(self._labels)
        filters.cuis = wanted & filters.cuis if filters.cuis else wanted
        if not filters.cuis:
            raise AnnotateError(
                f"{options.model_pack}: the pack's own filter (linking.filters.cuis) keeps no "
                f"concepts of {options.types}"
            )
        self._finder = None if options.keep_meta else make_finder(cat)

    def find(self, documents: Sequence[Document]) -> list[FoundMentions]:
        """Find the mentions of documents, one by one."""
        return [self._found(document.text, document.placeholders) for document in documents]

    def _found(self, text: str, placeholders: Sequence[Placeholder]) -> FoundMentions:
        spans: list[Span] = []
        left_out: Counter[Reason] = Counter()
        for mention in self._concepts(boundaries.hide(text, placeholders)):
            start, end, concept, similarity, entity = mention
            score = float(similarity)
            if not 0 <= score <= 1:
                score = min(1.0, max(0.0, score))

            reason: Reason | None = None
            if score < self._options.min_score:
                reason = LOW_SCORE
            elif placeholders and boundaries.touches(start, end, placeholders):
                reason = IN_PLACEHOLDER
            elif self._may_cross.search(text, start, end):
                reason = self._crossing(text[start:end])
            if not reason and self._options.keep_meta:
                reason = self._other_meta(entity)

            if reason:
                left_out[reason] += 1
            else:
                spans.append(Span(start, end, self._labels[concept], concept, score))
        return FoundMentions(sorted(spans), left_out)

    def _concepts(self, text: str) -> list[FoundConcept]:
        """Find the concepts of a text, with the fast finder if it is equivalent."""
        if self._finder is not None:
            return self._finder.find(text)
        return found_by(self._cat(text))

    def _crossing(self, text: str) -> Reason | None:
        """Return what a mention crosses and must not, or ""."""
        crossed = boundaries.crossing(
            text,
            not_inside=self._options.not_inside,
            max_line_breaks=self._options.max_line_breaks,
        )
        return Reason(crossed) if crossed else None

    def _other_meta(self, entity: Any) -> Reason | None:
        """Return which meta-annotation has an excluded value."""
        meta = self._cat.get_addon_output(entity).get("meta_anns", {})
        for name, values in self._options.keep_meta.items():
            if name not in meta:
                known = ", ".join(sorted(meta)) or "none"
                raise AnnotateError(
                    f"annotate.keep_meta: expected a meta-annotation of the pack ({known}), "
                    f"got '{name}'"
                )
            if meta[name]["value"] not in values:
                return Reason(f"meta-annotation {name}")
        return None


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause garbage collection while a model is loaded, as none of its objects are freed."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _no_concept(options: MedCat, infos: Mapping[str, Any]) -> str:
    """Return the message for a pack without concepts of the selected types."""
    all_types = {type_id for info in infos.values() for type_id in info["type_ids"]}
    examples = ", ".join(sorted(all_types)[:3])
    types = f"types such as {examples}" if examples else "no types"
    return (
        f"{options.model_pack}: expected concepts with a semantic type of {options.types} (T047 "
        f"and others), got {len(infos)} concepts with {types}; SNOMED packs have no UMLS types: "
        f"use a UMLS pack, or a table of types of your own with annotate.types"
    )

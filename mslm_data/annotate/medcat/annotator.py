"""MedCAT: the concepts of a model pack whose semantic types a table names, as weak mentions.

As Appendix G.1 of Abaho et al. 2024 does it. MedCAT gives all nested mentions here, so that a shorter one takes the
place of a longer that is left out (`heart` for `Heart; failure`); `resolve.flatten` makes them flat afterwards.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mslm_data.annotate import Annotated, boundaries, semantic_types
from mslm_data.annotate.medcat import importing as medcat_import
from mslm_data.annotate.medcat import loading as medcat_load
from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.data.document import Document, Span
from mslm_data.errors import AnnotateError


@dataclass(frozen=True, kw_only=True)
class MedCat:
    """Options of annotation with MedCAT 2.

    Attributes:
        model_pack: A model pack, a folder or a zip, of MedCAT 2 or 1; or a concept table (.csv, in MedCAT's columns),
            which becomes a concept database when annotation starts. Loading a pack runs what is in it.
        sha256: The pack's digest; with it, no other pack is loaded. A pack that is more than data has to be named by
            it: all but concept tables and what `mslm-data vocab concepts` makes. Of a zip the file's own SHA-256 will
            do as well.
        types: Table of semantic types and their labels, below `vocab/` or a path.
        min_score: Mentions of a lower confidence are left out. 1 is a name that stands for one concept only; others
            have a similarity of contexts.
        tokenizer: "lemmas": ours, plural nouns also as singulars; "words": ours, as written, which finds what
            MedCAT's spaCy tokenizer finds without a lemmatizer; "pack": the pack's own, three to four times slower.
        keep_meta: Name of a meta-annotation -> its values that are kept (`{"Status": ["Affirmed"]}`). Empty: the
            pack's meta-annotation models, which take a hundred times longer than all else, are not loaded.
        not_inside: Characters that a mention may not reach across.
        max_line_breaks: Line ends that a mention may reach across; never a blank line or a list mark.
        settings: Settings of MedCAT by their tables (`components.ner.min_name_len`), for those who know them.
        weak: Mentions carry concepts and confidences.
    """

    model_pack: str = ""
    sha256: str = ""
    types: str = "semantic_types.toml"
    min_score: float = 0.0
    tokenizer: Literal["lemmas", "words", "pack"] = "lemmas"
    keep_meta: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_inside: str = ";():"
    max_line_breaks: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    weak: bool = True

    def __post_init__(self) -> None:
        if self.sha256 and (
            len(self.sha256) != 64 or set(self.sha256.lower()) - set("0123456789abcdef")
        ):
            raise ValueError("expected sha256 as 64 hexadecimal digits")
        if not 0 <= self.min_score <= 1:
            raise ValueError(f"expected min_score between 0 and 1, got {self.min_score}")

    def pack_digest(self) -> str:
        """Return the digest of the pack, which `sha256` can name.

        Raises:
            AnnotateError: No pack is named, or there is none.
        """
        return medcat_pack.digest(self._path())

    def digest(self) -> str:
        """Return a digest of the pack, the table of types and MedCAT's version; see `Annotator`."""
        version = medcat_import.load("medcat.version").__version__
        semantic_types.read(self.types)
        table = hashlib.sha256(semantic_types.path_of(self.types).read_bytes()).hexdigest()
        return hashlib.sha256(f"{self.pack_digest()} {table} {version}".encode()).hexdigest()

    def start(self) -> LoadedMedCat:
        """Check the pack's digest and load it; see `Annotator`."""
        types = semantic_types.read(self.types)
        copy = medcat_pack.checked(self._path(), self.sha256)
        meta, settings = bool(self.keep_meta), self.settings
        try:
            cat = medcat_load.load(
                copy, tokenizer=self.tokenizer, meta=meta, settings=settings, prefer=types.of_type
            )
        except AnnotateError as error:
            raise AnnotateError(str(error).replace(str(copy), self.model_pack)) from None
        return LoadedMedCat(self, cat, types)

    def _path(self) -> Path:
        if not self.model_pack:
            raise AnnotateError(
                "annotator 'medcat': expected model_pack, got none; pass --set annotate.model_pack=PACK with a MedCAT "
                "model pack, or make one with `mslm-data vocab concepts`"
            )
        return Path(self.model_pack)


class LoadedMedCat:
    """MedCAT with its model in memory.

    Attributes:
        counts: `concepts` of the pack, those `with_label`, and of them `with_two_labels`.
    """

    def __init__(self, options: MedCat, cat: Any, types: semantic_types.SemanticTypes) -> None:
        """Choose the concepts whose types the table has.

        Raises:
            AnnotateError: The pack has none.
        """
        self._options, self._cat = options, cat
        infos = cat.cdb.cui2info
        labels = {cui: types.label(info["type_ids"]) for cui, info in infos.items()}
        self._labels = {cui: label for cui, label in labels.items() if label}
        if not self._labels:
            some = sorted({type_id for info in infos.values() for type_id in info["type_ids"]})[:3]
            raise AnnotateError(
                f"{options.model_pack}: expected concepts with a semantic type of {options.types} (T047 and others), "
                f"got {len(infos)} concepts with {'types such as ' + ', '.join(some) if some else 'no types'}; SNOMED "
                f"packs have no UMLS types: use a UMLS pack, or a table of types of your own with annotate.types"
            )
        self.counts = {
            "concepts": len(infos),
            "with_label": len(self._labels),
            "with_two_labels": sum(
                types.num_labels(infos[cui]["type_ids"]) > 1 for cui in self._labels
            ),
        }
        # Applied before the pack removes overlaps: a concept of another type hides none of ours.
        filters = cat.config.components.linking.filters
        filters.cuis = (set(self._labels) & filters.cuis) if filters.cuis else set(self._labels)
        if not filters.cuis:
            raise AnnotateError(
                f"{options.model_pack}: expected that the pack's own filter (linking.filters.cuis) keeps concepts of "
                f"{options.types}, got none"
            )

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Annotate documents one by one; see `Running`."""
        return [self._annotate(document) for document in documents]

    def _annotate(self, document: Document) -> Annotated:
        found = self._cat(boundaries.hide(document.text, document.placeholders))
        spans: list[Span] = []
        left_out: Counter[str] = Counter()
        for entity in found.linked_ents if found else ():
            start, end = entity.base.start_char_index, entity.base.end_char_index
            score = min(1.0, max(0.0, float(entity.context_similarity)))
            reason = self._refusal(document, start, end, score, entity)
            if reason:
                left_out[reason] += 1
            else:
                spans.append(Span(start, end, self._labels[entity.cui], entity.cui, score))
        return Annotated(tuple(sorted(spans)), left_out)

    def _refusal(
        self, document: Document, start: int, end: int, score: float, entity: Any
    ) -> str | None:
        """Return why a mention that MedCAT found is left out, or None."""
        options = self._options
        if score < options.min_score:
            return "score below min_score"
        if boundaries.touches(start, end, document.placeholders):
            return "in a placeholder"
        crossing = boundaries.crossing(
            document.text[start:end],
            not_inside=options.not_inside,
            max_line_breaks=options.max_line_breaks,
        )
        if crossing or not options.keep_meta:
            return crossing
        meta = self._cat.get_addon_output(entity).get("meta_anns", {})
        for name, values in options.keep_meta.items():
            if name not in meta:
                known = ", ".join(sorted(meta)) or "none"
                raise AnnotateError(
                    f"annotate.keep_meta: expected a meta-annotation of the pack ({known}), got '{name}'"
                )
            if meta[name]["value"] not in values:
                return f"meta-annotation {name}"
        return None

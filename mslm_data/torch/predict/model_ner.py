"""Annotate with a token-classification model: `annotate.use = "model"`.

torch is imported when a model is loaded, so options can be read without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from mslm_data import _optional
from mslm_data.annotate.cached import CachedAnnotator, FoundMentions, filter_mentions
from mslm_data.data.document import Document, Span
from mslm_data.data.documents import Documents
from mslm_data.errors import AnnotateError
from mslm_data.registry import Options
from mslm_data.torch.predict.machine import check_gpu, machine_errors, threads, versions
from mslm_data.torch.predict.model_files import ModelFiles, find_model

if TYPE_CHECKING:
    from mslm_data.torch.predict.tagger import Tagger

_WANTED_BY = "annotator 'model'"


class ModelNer(Options, frozen=True, kw_only=True):
    """Find entities with an `MslmModel` or any token-classification model of transformers.

    Documents are read in overlapping windows of at most 512 tokens, across sentences; mentions
    begin and end at word boundaries. Mentions have the model's labels; use `[annotate] rename` and
    `labels` to map or select them. Only safetensors are loaded, no pickles and no remote code.

    Mentions and scores of a document do not depend on the documents annotated together with it.
    They may change slightly with the version of torch or transformers, the device, the number of
    threads, the batch size and the type of processor: in the last digit of a score, and rarely a
    mention.
    """

    model: Annotated[str, Meta(description="The model's folder, or its name on the hub.")] = ""
    min_score: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Minimum score of a mention. The score is the mean probability of the tags "
            "of its words; for an `MslmModel` times the probability of its type.",
        ),
    ] = 0.0
    batch_size: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of windows of full length in a batch, or of shorter windows with "
            "as many tokens. Use at least 32 on a GPU; on a CPU, larger batches are not faster.",
        ),
    ] = 1
    device: Annotated[
        Literal["cpu", "cuda"],
        Meta(
            description='Device of the model. With "cuda", each worker loads a copy onto the GPU.'
        ),
    ] = "cpu"
    threads: Annotated[int, Meta(ge=1, description="Number of CPU threads per worker.")] = 1
    weak: Annotated[bool, Meta(description="Whether to store the scores of mentions.")] = True
    slow: ClassVar[bool] = True

    def digest(self) -> str:
        """Return a digest of the model's files and the versions of torch and transformers."""
        digests = [self._files().digest(), *versions("torch", "transformers", wanted_by=_WANTED_BY)]
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the labels in the model's configuration."""
        return self._files().labels()

    def start(self) -> CachedAnnotator:
        """Load the model into CPU memory."""
        _optional.load("torch", wanted_by=_WANTED_BY)
        _optional.load("transformers", wanted_by=_WANTED_BY)
        from mslm_data.torch.predict.load_tagger import load_tagger

        # Load with one thread: workers may be forked from this process, and a thread pool does not
        # survive a fork.
        files = self._files()
        with threads(1):
            tagger = load_tagger(files)
        return CachedAnnotator(partial(self._find, tagger))

    def _files(self) -> ModelFiles:
        if not self.model:
            raise AnnotateError(
                f"{_WANTED_BY}: no model given; pass --set annotate.model=MODEL, the folder "
                "of a model or its name on the hub"
            )
        return find_model(self.model)

    def _find(self, tagger: Tagger, documents: Sequence[Document]) -> list[FoundMentions]:
        """Find the entities of documents."""
        if not documents:
            return []
        if self.device == "cuda":
            # At first use: a process that has used a GPU cannot be forked.
            check_gpu(_WANTED_BY)
            tagger.move(self.device)

        with threads(self.threads), machine_errors(_WANTED_BY):
            mentions = tagger.mentions(
                Documents.from_documents(documents), batch_size=self.batch_size
            )
        return [
            filter_mentions(
                (
                    Span(start, end, label, score=score)
                    for start, end, label, score in document_mentions
                ),
                document.placeholders,
                min_score=self.min_score,
            )
            for document, document_mentions in zip(documents, mentions, strict=True)
        ]

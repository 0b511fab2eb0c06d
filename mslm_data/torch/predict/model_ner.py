"""Annotate with a token-classification model: `annotate.use = "model"`.

torch is imported where a model is loaded, so that a pipeline's options can be read without it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mslm_data import _optional
from mslm_data.annotate.cached import CachedAnnotator, FoundMentions, filter_mentions
from mslm_data.data.document import Document, Span
from mslm_data.data.documents import Documents
from mslm_data.errors import AnnotateError
from mslm_data.registry import Help
from mslm_data.torch.predict.model_files import ModelFiles, find_model

if TYPE_CHECKING:
    from mslm_data.torch.predict.tagger import Tagger

_ASKS = "annotator 'model'"
_NO_MEMORY = ("can't allocate memory", "not enough memory")
"""How torch says that the machine has no memory left."""


@dataclass(frozen=True, kw_only=True)
class ModelNer:
    """Find entities with an `MslmModel` or any token-classification model of transformers.

    Documents are read in overlapping windows of at most 512 tokens, across sentences, and mentions
    begin and end where words do. Their labels are the model's; `[annotate] rename` and `labels`
    choose among them. Only safetensors are loaded, no pickles and no code of others.

    What is found in a document is the same to the last bit whatever other documents are annotated
    beside it. Another version of torch or transformers, device, number of threads, batch size or
    kind of processor may change the last digit of a score, and so, rarely, a mention.
    """

    model: Annotated[str, Help("The model's folder, or its name on the hub.")] = ""
    min_score: Annotated[
        float,
        Help(
            "Mentions of a lower score are left out. A score is the mean, over a mention's words, "
            "of the probability of the word's tag; for an `MslmModel` times the probability of the "
            "mention's type."
        ),
    ] = 0.0
    batch_size: Annotated[
        int,
        Help(
            "How many windows of full length the model sees at once, or as many tokens in shorter "
            "rows. A GPU is faster with 32 and more, a CPU is not."
        ),
    ] = 1
    device: Annotated[
        Literal["cpu", "cuda"],
        Help('"cuda" runs the model on a GPU, of which each worker loads a copy.'),
    ] = "cpu"
    threads: Annotated[int, Help("Threads of a CPU that a worker computes with.")] = 1
    weak: Annotated[bool, Help("Whether mentions carry confidences.")] = True
    slow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self.min_score, self.batch_size, self.threads)

    def digest(self) -> str:
        """Return a digest of the model's files, and of the versions of torch and transformers."""
        digests = [self._files().digest(), *versions("torch", "transformers", wanted_by=_ASKS)]
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the labels that the model's configuration names."""
        return self._files().labels()

    def start(self) -> CachedAnnotator:
        """Load the model into CPU memory."""
        _optional.load("torch", wanted_by=_ASKS)
        _optional.load("transformers", wanted_by=_ASKS)
        from mslm_data.torch.predict.load_tagger import load_files

        # Workers may be forked from this process, and a pool of threads would not be there.
        files = self._files()
        with threads(1):
            tagger = load_files(files)
        return CachedAnnotator(LoadedModel(self, tagger).find)

    def _files(self) -> ModelFiles:
        if not self.model:
            raise AnnotateError(
                f"{_ASKS}: no model given; pass --set annotate.model=MODEL, the folder "
                "of a model or its name on the hub"
            )
        return find_model(self.model)


class LoadedModel:
    """A model in memory, moved to its device at first use."""

    def __init__(self, options: ModelNer, tagger: Tagger) -> None:
        """Keep the model and its options."""
        self._options = options
        self._tagger = tagger
        self._is_there = options.device == "cpu"

    def find(self, documents: Sequence[Document]) -> list[FoundMentions]:
        """Find the entities of documents."""
        if not documents:
            return []
        if not self._is_there:
            # Not before: a process that has used a GPU cannot be forked.
            check_gpu(_ASKS)
            self._tagger.move(self._options.device)
            self._is_there = True

        with threads(self._options.threads), without_blame(_ASKS):
            found = self._tagger.mentions(
                Documents.from_documents(documents),
                batch_size=self._options.batch_size,
                steady=True,
            )
        min_score = self._options.min_score
        return [
            filter_mentions(
                (Span(start, end, label, score=score) for start, end, label, score in of_document),
                document.placeholders,
                min_score=min_score,
            )
            for document, of_document in zip(documents, found, strict=True)
        ]


# What annotators that run torch share -------------------------------------------------------------


def check_options(min_score: float, batch_size: int, threads: int) -> None:
    """Check the options of a model.

    Raises:
        ValueError: The score is not between 0 and 1, or a number is below 1.
    """
    if not 0 <= min_score <= 1:
        raise ValueError(f"expected min_score between 0 and 1, got {min_score}")
    for name, number in (("batch_size", batch_size), ("threads", threads)):
        if number < 1:
            raise ValueError(f"expected {name} of at least 1, got {number}")


def versions(*packages: str, wanted_by: str) -> list[str]:
    """Return names and versions of packages without importing them, without local build tags.

    Raises:
        MissingExtraError: One is not installed.
    """
    found = []
    for package in packages:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            _optional.load(package, wanted_by=wanted_by)
            raise
        found.append(f"{package} {version.partition('+')[0]}")
    return found


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Set torch's number of threads within a `with` block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_gpu(asks: str) -> None:
    """Check that torch finds a GPU.

    Raises:
        AnnotateError: It sees none.
    """
    import torch

    if not torch.cuda.is_available():
        raise AnnotateError(
            f"{asks}: torch finds no GPU; pass --set annotate.device=cpu, "
            "or install a build of torch for your GPU"
        )


@contextmanager
def without_blame(asks: str) -> Iterator[None]:
    """Raise errors of the machine as our own, so that no document is blamed for them.

    Raises:
        AnnotateError: The GPU is out of memory, or fails.
        MemoryError: The machine is out of memory.
    """
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise AnnotateError(
            f"{asks}: out of GPU memory; build with fewer --workers or a "
            "smaller annotate.batch_size"
        ) from None
    except RuntimeError as error:
        said = str(error)
        if any(words in said for words in _NO_MEMORY):
            raise MemoryError from None
        if "CUDA error" in said:
            raise AnnotateError(
                f"{asks}: the GPU failed ({type(error).__name__}); run the same command again"
            ) from None
        raise

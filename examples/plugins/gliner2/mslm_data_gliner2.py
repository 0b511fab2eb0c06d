"""Example of an annotator plug-in: zero-shot entities by GLiNER2 (Zaratiana et al. 2025).

A GLiNER2 model finds entities by prompts, such as "disease", and their descriptions. The package
`gliner2` does not limit the tokens of a text. Here documents are read in overlapping windows, whose
mentions are merged.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta, field

from mslm_data.annotate.cached import CachedAnnotator, FoundMentions, filter_mentions
from mslm_data.data.document import Document, Span
from mslm_data.errors import AnnotateError
from mslm_data.registry import Options
from mslm_data.torch.predict import (
    ModelFiles,
    Window,
    WordMention,
    check_gpu,
    find_model,
    machine_errors,
    max_word_tokens,
    merge_windows,
    threads,
    versions,
    windows,
)

_CALLER = "annotator 'gliner2'"
_ENCODER = "encoder_config/config.json"
_CONFIGS = ("config.json", _ENCODER, "tokenizer_config.json")
_FILES = (*_CONFIGS, "tokenizer.json", "model.safetensors")
_MAX_TOKENS = 512
"""Maximum number of tokens of a window, prompts included. The encoder may have a lower one."""
_MIN_ROOM = 4
"""Minimum number of tokens in a window besides prompts."""
_DIGITS = 4


class Gliner2Ner(Options, frozen=True, kw_only=True):
    """Zero-shot entities by a GLiNER2 model and prompts in plain words.

    Documents are read in overlapping windows of up to 512 tokens, across sentences. Of overlapping
    mentions in a window, the one with the highest score is kept. Only safetensors are loaded, from
    a folder with tokenizer and encoder configuration; neither pickles nor custom code.

    The mentions of a document do not depend on other documents. The package versions, device,
    number of threads, batch size and processor may change the last digit of a score and so, rarely,
    a mention.
    """

    model: Annotated[str, Meta(description="Folder of the model.")] = ""
    prompts: Annotated[
        Mapping[str, str],
        Meta(
            description='Prompt, such as "disease" -> label. Several prompts may have the same '
            "label."
        ),
    ] = field(default_factory=dict)
    descriptions: Annotated[
        Mapping[str, str],
        Meta(description="Prompt -> a sentence that explains it to the model. Default: none."),
    ] = field(default_factory=dict)
    min_score: Annotated[float, Meta(ge=0, le=1, description="Minimum score of a mention.")] = 0.5
    batch_size: Annotated[
        int, Meta(ge=1, description="Number of windows of a document in a batch.")
    ] = 1
    device: Annotated[
        Literal["cpu", "cuda"],
        Meta(description='Device of the model. With "cuda", each worker loads a copy.'),
    ] = "cpu"
    threads: Annotated[int, Meta(ge=1, description="Number of CPU threads of a worker.")] = 1
    weak: Annotated[bool, Meta(description="Whether mentions have scores.")] = True
    slow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        pairs = [*self.prompts.items(), *self.descriptions.items()]
        if not all(text.strip() for pair in pairs for text in pair):
            raise ValueError("prompts, descriptions: expected words, got an empty text")
        for prompt in self.descriptions:
            if prompt not in self.prompts:
                raise ValueError(f"descriptions: expected those of prompts, got '{prompt}'")

    def digest(self) -> str:
        """Return a digest of model files and package versions."""
        files = self._files()
        encoder = hashlib.sha256((files.folder / _ENCODER).read_bytes()).hexdigest()
        packages = versions("gliner2", "torch", "transformers", wanted_by=_CALLER)
        return hashlib.sha256(" ".join([files.digest(), encoder, *packages]).encode()).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the distinct labels of the prompts, in order."""
        return tuple(dict.fromkeys(self._required_prompts().values()))

    def start(self) -> CachedAnnotator:
        """Load the model on the CPU."""
        files = self._files()

        # Thread pools do not survive a fork of this process into workers.
        with threads(1):
            model = _load(files)
        return CachedAnnotator(LoadedGliner2(self, model).find)

    def _required_prompts(self) -> Mapping[str, str]:
        if not self.prompts:
            raise AnnotateError(
                f"{_CALLER}: expected prompts, got none; pass "
                '--set \'annotate.prompts={"disease" = "Disease"}\', what the model is asked for '
                "and its label"
            )
        return self.prompts

    def _files(self) -> ModelFiles:
        if not self.model:
            raise AnnotateError(
                f"{_CALLER}: expected model, got none; pass --set annotate.model=MODEL, the folder "
                "of a GLiNER2 model"
            )
        # `find_model` ignores subfolders of a repository, such as that of the encoder.
        if not Path(self.model).is_dir():
            raise AnnotateError(
                f"{self.model}: expected the folder of a GLiNER2 model, found none; download a "
                "model of the hub with `hf download NAME --local-dir FOLDER`"
            )
        files = find_model(self.model)
        _check_model(files)
        return files


class LoadedGliner2:
    """A loaded GLiNER2 model. It is moved to its device on first use."""

    def __init__(self, options: Gliner2Ner, model: Any) -> None:
        """Wrap a model, and compute the room for text in a window.

        Args:
            options: Options of the annotator.
            model: The GLiNER2 model, on the CPU.

        Raises:
            AnnotateError: The prompts leave no room for text.
        """
        self._options = options
        self._model = model
        self._on_device = options.device == "cpu"

        # Sorted, as the order of prompts can change scores.
        prompts = sorted(options._required_prompts())
        self._labels = list(options.labels())
        self._label_numbers = {
            prompt: self._labels.index(options.prompts[prompt]) for prompt in prompts
        }
        # A prompt -> its description, or no configuration.
        self._entity_types: dict[str, Any] = {
            prompt: options.descriptions.get(prompt, {}) for prompt in prompts
        }
        self._schema = model.create_schema().entities(self._entity_types)

        self._room = self._max_text_tokens()
        if self._room < _MIN_ROOM:
            raise AnnotateError(
                f"{_CALLER}: expected prompts that leave room for {_MIN_ROOM} tokens, got "
                f"{len(prompts)} that leave {max(0, self._room)}; ask for less, or in fewer words"
            )

    def find(self, documents: Sequence[Document]) -> list[FoundMentions]:
        """Return the entities of each document."""
        if documents and not self._on_device:
            # Not earlier, as a process that has initialised CUDA cannot be forked.
            check_gpu(_CALLER)
            self._model.to(self._options.device)
            self._on_device = True

        with threads(self._options.threads), machine_errors(_CALLER):
            return [
                filter_mentions(self._spans(document.text), document.placeholders, min_score=0)
                for document in documents
            ]

    def _spans(self, text: str) -> Iterator[Span]:
        """Yield the entities of a text."""
        record = self._model.processor.transform_record(text, self._schema)
        places = np.array([*record.text_word_first_positions, len(record.input_ids)])

        # The package adds a full stop, as a word or to the last word.
        starts = record.start_token_idx[: bisect_left(record.start_token_idx, len(text))]
        ends = [min(end, len(text)) for end in record.end_token_idx[: len(starts)]]

        # Windows do not cross words that are too long for the model.
        max_tokens = max_word_tokens(self._room)
        counts = np.diff(places).tolist()
        for is_long, group in groupby(range(len(starts)), key=lambda n: counts[n] > max_tokens):
            words = list(group)
            if is_long:
                continue
            text_windows = windows(places, self._room, first=words[0], past=words[-1] + 1)
            found = self._window_mentions(text, starts, ends, text_windows)
            for mention in merge_windows(text_windows, found, places):
                score = round(sum(mention.scores) / len(mention.scores), _DIGITS)
                start, end = starts[mention.start], ends[mention.end - 1]
                yield Span(start, end, self._labels[mention.label], score=score)

    def _window_mentions(
        self,
        text: str,
        starts: Sequence[int],
        ends: Sequence[int],
        text_windows: Sequence[Window],
    ) -> list[list[WordMention]]:
        """Return the mentions of each window, as ranges of words of the text."""
        window_texts = [
            text[starts[window.start] : ends[window.end - 1]] for window in text_windows
        ]
        results = self._model.batch_extract_entities(
            window_texts,
            self._entity_types,
            batch_size=self._options.batch_size,
            threshold=self._options.min_score,
            include_confidence=True,
            include_spans=True,
        )

        mentions = []
        for window, window_text, result in zip(text_windows, window_texts, results, strict=True):
            base = starts[window.start]
            found = []
            for prompt, entities in result.get("entities", {}).items():
                for entity in entities:
                    # The full stop that the package adds may be an entity. If it ends one,
                    # `merge_windows` cuts that to the window.
                    if entity["start"] >= len(window_text):
                        continue
                    first = bisect_right(starts, base + entity["start"]) - 1
                    past = bisect_left(starts, base + entity["end"])
                    scores = (entity["confidence"],) * (past - first)
                    found.append(WordMention(first, past, self._label_numbers[prompt], scores))
            mentions.append(_keep_best(found))
        return mentions

    def _max_text_tokens(self) -> int:
        """Return the maximum number of text tokens in a window, without prompts and full stop."""
        processor = self._model.processor
        other_tokens = len(processor.transform_record("", self._schema).input_ids)

        encoder = self._model.encoder.config
        max_positions = int(getattr(encoder, "max_position_embeddings", None) or _MAX_TOKENS)
        max_tokens = min(_MAX_TOKENS, max_positions, processor.tokenizer.model_max_length)
        return int(max_tokens) - other_tokens


def _keep_best(mentions: Sequence[WordMention]) -> list[WordMention]:
    """Return the mentions with the highest scores that do not overlap, sorted."""
    kept: list[WordMention] = []
    for mention in sorted(mentions, key=lambda mention: (-mention.scores[0], mention)):
        if all(mention.end <= other.start or other.end <= mention.start for other in kept):
            kept.append(mention)
    return sorted(kept)


# Files --------------------------------------------------------------------------------------------


def _load(files: ModelFiles) -> Any:
    """Load a model, and check that all its weights are there and finite."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import gliner2
    import transformers
    from safetensors import SafetensorError, safe_open

    # The package logs words of texts.
    logging.getLogger("gliner2").setLevel(logging.CRITICAL)
    transformers_log: Any = transformers.utils.logging
    transformers_log.set_verbosity_error()
    transformers_log.disable_progress_bar()
    try:
        model = gliner2.AutoExtractor.from_pretrained(
            str(files.folder), local_files_only=True, attention_backend="standard"
        )
        with safe_open(files.folder / "model.safetensors", framework="pt") as weights:
            shapes = {name: weights.get_slice(name).get_shape() for name in sorted(weights.keys())}
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise AnnotateError(
            f"{files.folder}: expected a model that gliner2 loads, got {type(error).__name__} from "
            "it; load it where you trust it, and save it with save_pretrained"
        ) from None

    for name, values in model.state_dict().items():
        # The package completes embeddings of words by random ones.
        if shapes.get(name) != list(values.shape):
            raise AnnotateError(
                f"{files.folder}: expected all weights of a GLiNER2 model, got none, or some, for "
                f"{name}"
            )
        # With NaN scores, the package silently finds no entities.
        if not values.isfinite().all():
            raise AnnotateError(
                f"{files.folder}: expected weights that are numbers, got NaN or infinity in "
                f"{name}; copy or train the model again"
            )
    return model


def _check_model(files: ModelFiles) -> None:
    """Check that a model is complete and names no custom code.

    Raises:
        AnnotateError: The model lacks a file, or names custom code, which the package would run.
    """
    for name in _FILES:
        path = files.folder / name
        reason = "" if path.is_file() else "none"
        if not reason and name in _CONFIGS:
            reason = _find_fault(path)
        if reason:
            raise AnnotateError(
                f"{path}: expected the {name} of a GLiNER2 model, got {reason}; load the model "
                "where you trust it, and save it with save_pretrained"
            )


def _find_fault(path: Path) -> str:
    """Return what is wrong with a configuration file; "" for nothing."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        return "a damaged file"
    return "one that names code of its own (auto_map)" if "auto_map" in str(content) else ""

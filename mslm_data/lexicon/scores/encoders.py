"""Load frozen Hugging Face models for scoring, and run them on batches of rows.

Only safetensors are loaded, no remote code is run, and files are downloaded only if the name is not
a folder. All weights must be in the files: transformers would initialise missing weights randomly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mslm_data import _optional
from mslm_data.data.ragged import Ragged
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import VocabularyError
from mslm_data.io import hub
from mslm_data.io.files import hash_file

TOKENS_AT_ONCE = 1 << 13
"""Maximum number of tokens in a batch of several rows, including padding."""
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")
_FILES = (
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    *_TOKENIZER_FILES,
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
"""Files to download from the hub."""
_MAX_PADDING = 128
"""Limit of unused embeddings: models pad their vocabulary to a multiple of 8, 64 or 128."""

Head = Literal["AutoModel", "AutoModelForTokenClassification"]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrozenEncoder:
    """A frozen model with its tokenizer.

    Attributes:
        name: Name given by the user.
        model: The transformers model, float32, in evaluation mode.
        tokenizer: Tokenizer in its folder; None if there is none.
        digest: SHA-256 of configuration, weights and tokenizer.
        limit: Maximum row length in tokens; None without limit.
        has_pooler: Whether the pooler's weights are in the files.
    """

    name: str
    model: Any
    tokenizer: Tokenizer | None
    digest: str
    limit: int | None
    has_pooler: bool

    @property
    def about(self) -> dict[str, str]:
        """Metadata of the model for lexicons and score columns: its digest, no path."""
        return {"class": type(self.model).__name__, "sha256": self.digest}

    def shares_ids(self, tokenizer: Tokenizer) -> bool:
        """Return whether the model uses the token ids of this tokenizer.

        True if all pieces have the same ids in the model's tokenizer. If that is unknown, the
        number of embeddings must equal the number of ids, or exceed it by less than padding can
        explain.
        """
        spare = self.model.get_input_embeddings().weight.shape[0] - tokenizer.ids.size
        if self.tokenizer is None:
            return bool(0 <= spare < _MAX_PADDING)
        model_ids = self.tokenizer.core.get_vocab()
        return bool(spare >= 0) and all(
            model_ids.get(piece) == id_ for piece, id_ in tokenizer.core.get_vocab().items()
        )

    def check_shares_ids(self, tokenizer: Tokenizer) -> None:
        """Check that the model uses the rows' token ids; see `shares_ids`.

        Raises:
            VocabularyError: The vocabularies differ.
        """
        if not self.shares_ids(tokenizer):
            raise VocabularyError(
                f"{self.name}: its vocabulary differs from that of the shards "
                f"({tokenizer.ids.size} ids); build the folder with this model's tokenizer"
            )

    def check_row_length(self, longest: int) -> None:
        """Check that the model accepts rows of this length.

        Args:
            longest: Maximum row length, including special tokens.

        Raises:
            VocabularyError: The rows are too long.
        """
        if self.limit is not None and longest > self.limit:
            raise VocabularyError(
                f"{self.name}: expected rows of at most {self.limit} tokens, got {longest}; "
                f"build the folder with encode.max_tokens={self.limit}"
            )

    def batches(
        self, rows: Ragged, *, squares: int | None = None, **options: Any
    ) -> Iterator[tuple[Places, Any]]:
        """Yield the model's outputs for all rows, longest first, in batches of similar length.

        Batches depend only on the rows, so outputs are reproducible on the same machine.

        Args:
            rows: int32, the model's token ids, including special tokens.
            squares: Maximum size of a `[rows, length, length]` array. Default: unlimited.
            **options: Options of the model, such as `output_attentions`.

        Yields:
            Row numbers of the batch `[B]`, and the model's output, on its device.
        """
        torch = _optional.load("torch", wanted_by="scores of an encoder")
        pad = self.model.config.get_text_config().pad_token_id or 0
        for row_numbers in split_batches(rows.lengths, squares=squares):
            lengths = rows.lengths[row_numbers]
            is_token = np.arange(lengths.max()) < lengths[:, None]
            ids = np.full(is_token.shape, pad, np.int64)
            ids[is_token] = np.concatenate([rows[row] for row in row_numbers.tolist()])
            with torch.inference_mode():
                yield (
                    row_numbers,
                    self.model(
                        input_ids=torch.from_numpy(ids).to(self.model.device),
                        attention_mask=torch.from_numpy(is_token.astype(np.int64)).to(
                            self.model.device
                        ),
                        **options,
                    ),
                )


def split_batches(
    lengths: npt.NDArray[np.int64], *, squares: int | None = None
) -> Iterator[Places]:
    """Split rows into batches: longest first, at most `TOKENS_AT_ONCE` tokens or a single row.

    Args:
        lengths: Number of tokens of each row, `[N]`, at least 1.
        squares: See `FrozenEncoder.batches`.

    Yields:
        Row numbers of a batch.
    """
    order = np.argsort(-lengths, kind="stable")

    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        batch_rows = TOKENS_AT_ONCE // longest
        if squares is not None:
            batch_rows = min(batch_rows, squares // longest**2)

        yield order[start : start + max(1, batch_rows)]
        start += max(1, batch_rows)


def load_encoder(name: str, *, head: Head = "AutoModel", attentions: bool = False) -> FrozenEncoder:
    """Load a model.

    Args:
        name: A folder written by `save_pretrained`, or a hub id. Hub files are stored in the hub's
            cache.
        head: Auto class of transformers.
        attentions: Whether attention weights are needed; slower.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        VocabularyError: The model is missing or unusable: weights are missing or not safetensors,
            it needs remote code, or is an adapter.
        TokenizerError: The tokenizer is unusable.
    """
    torch = _optional.load("torch", wanted_by="scores of an encoder")
    _optional.load("transformers", wanted_by="scores of an encoder")

    folder = Path(name) if Path(name).is_dir() else _download(name)

    # An adapter's folder has safetensors too, but only a few weights.
    if (folder / "adapter_config.json").is_file():
        raise VocabularyError(
            f"{name}: an adapter, not a complete model; merge it into its base model"
        )

    model, has_pooler = _load_model(name, folder, head=head, attentions=attentions)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    has_tokenizer = any((folder / file).is_file() for file in _TOKENIZER_FILES)
    tokenizer = tokenizers.load_tokenizer(str(folder)) if has_tokenizer else None
    return FrozenEncoder(
        name=name,
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        digest=_digest(folder, tokenizer),
        limit=_find_limit(model),
        has_pooler=has_pooler,
    )


def _load_model(name: str, folder: Path, *, head: Head, attentions: bool) -> tuple[Any, bool]:
    """Load a model from a folder; also return whether its files include a pooler.

    Raises:
        VocabularyError: See `load_encoder`.
    """
    transformers = _optional.load("transformers", wanted_by="scores of an encoder")
    torch = _optional.load("torch", wanted_by="scores of an encoder")
    options: dict[str, Any] = {"attn_implementation": "eager"} if attentions else {}
    try:
        with _optional.quiet_transformers():
            model, report = getattr(transformers, head).from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
                **options,
            )
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise VocabularyError(
            f"{name}: cannot load a model from safetensors ({type(error).__name__}: {reason})"
        ) from None

    # transformers initialises missing weights randomly. Only an unused pooler may be missing.
    pooler = {key for key in report["missing_keys"] if "pooler" in key}
    missing = len(set(report["missing_keys"]) - pooler)
    if missing:
        raise VocabularyError(
            f"{name}: {missing} weights of {type(model).__name__} are missing; pass a model that "
            "was trained for this task"
        )
    return model, getattr(model, "pooler", None) is not None and not pooler


def _download(name: str) -> Path:
    """Download a model to the hub's cache; no pickles, no code."""
    if not hub.is_repository_name(name):
        raise VocabularyError(f"{name}: no such folder; pass a model's folder or a hub id")
    try:
        return hub.fetch_files(name, _FILES, wanted_by="an encoder of the hub")
    except hub.NotFetchedError as error:
        raise VocabularyError(
            f"{name}: no such folder, and the hub {error}; pass a folder written by save_pretrained"
        ) from None


def _digest(folder: Path, tokenizer: Tokenizer | None) -> str:
    files = sorted(folder.glob("*.safetensors"))
    parts = [
        hash_file(folder / "config.json"),
        *map(hash_file, files),
        tokenizer.digest if tokenizer else "",
    ]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _find_limit(model: Any) -> int | None:
    """Return the maximum row length, from the number of positions."""
    tables = [
        module for name, module in model.named_modules() if name.endswith("position_embeddings")
    ]
    tables = [table for table in tables if hasattr(table, "num_embeddings")]
    if not tables:
        return None
    # RoBERTa-like models number positions from `padding_idx + 1`.
    padding = tables[0].padding_idx
    return int(tables[0].num_embeddings - (0 if padding is None else padding + 1))

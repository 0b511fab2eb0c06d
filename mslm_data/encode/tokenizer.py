"""Loads tokenizers of any common form, and makes their encoding exact.

Some things are set right on every tokenizer. Truncation, padding, and the dropout of BPE, which
draws pieces at random, are off; a `tokenizer.json` may carry them. Text that spells a special token
(`[SEP]`) is text, never that token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from mslm_data.data.examples import TokenIds
from mslm_data.errors import TokenizerError
from mslm_data.io import hub, json_once
from mslm_data.io.limits import LARGEST

_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_CHARACTER_MAP = re.compile(r'"precompiled_charsmap"\s*:\s*("(?:[^"\\]|\\.)*")')

_MAX_HOLES = 1 << 20
"""Ids without a token. Tables with an item for each id are made; one huge id would fill memory."""

_PROBE = "\u2603\U0010fffd 7x"
"""Characters that hardly any vocabulary has."""

_USUAL = {"mask": ("[MASK]", "<mask>"), "pad": ("[PAD]", "<pad>"), "unk": ("[UNK]", "<unk>")}
"""Kind of special token -> its usual names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """A tokenizer, its special ids, and the tokens that it puts around a row.

    Attributes:
        core: The object of the `tokenizers` library.
        ids: Its special ids.
        prefix: Special ids before a row (`[CLS]`).
        suffix: Special ids after it (`[SEP]`).
        lead: Characters put before each word when it is encoded. This is a space for byte-level
            tokenizers, whose pieces hold it, as `is_split_into_words` with `add_prefix_space` has
            it; "" for all others.
        json: Its `tokenizer.json`.
    """

    core: tokenizers.Tokenizer
    ids: TokenIds
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    lead: str
    json: str

    @property
    def digest(self) -> str:
        """The SHA-256 of its `tokenizer.json`."""
        return _digest_json(self.json)

    def config(self, *, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the contents of a `tokenizer_config.json`.

        Without it transformers takes the tokenizer for one without a mask, and without padding.

        Args:
            max_tokens: The longest row that a model takes; None where that is not known.
        """
        ids = {kind: getattr(self.ids, kind) for kind in _USUAL}
        if self.prefix:
            ids["cls"] = self.prefix[0]
        if self.suffix:
            ids["sep"] = self.suffix[-1]

        config: dict[str, Any] = {
            f"{kind}_token": name for kind, name in self._token_names(ids).items()
        }
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        config["clean_up_tokenization_spaces"] = False
        config["model_input_names"] = ["input_ids", "attention_mask"]
        if max_tokens is not None:
            config["model_max_length"] = max_tokens
        return config

    def _token_names(self, ids: Mapping[str, int]) -> dict[str, str]:
        """Return kind -> token name, for ids that have a token."""
        names = {kind: self.core.id_to_token(id_) for kind, id_ in ids.items() if id_ >= 0}
        return {kind: name for kind, name in names.items() if name is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as JSON with the names of special tokens."""
        ids = {kind: getattr(self.ids, kind) for kind in _USUAL}
        return parse_tokenizer, (self.json, self._token_names(ids))


@lru_cache(maxsize=1)
def _digest_json(text: str) -> str:
    """Digest a `tokenizer.json`. Cached, since every work unit asks for the digest."""
    return hashlib.sha256(text.encode()).hexdigest()


def load_tokenizer(name: str, *, lowercase: bool | None = None) -> Tokenizer:
    """Load a tokenizer from a file, a folder or the Hugging Face hub.

    Args:
        name: A `tokenizer.json`, a BERT `vocab.txt`, a folder as `save_pretrained` writes it, or a
            hub id.
        lowercase: For a `vocab.txt`: whether text is lower-cased. None lower-cases it if the
            vocabulary has no capitals, whatever a config beside it says (Bio_ClinicalBERT's says
            `do_lower_case` over a cased vocabulary).

    Raises:
        TokenizerError: Nothing is there, or it is not a tokenizer that can be used.
    """
    path = Path(name)
    if path.is_dir():
        return _read_folder(path, lowercase)
    if path.is_file():
        return _read_file(path, {}, lowercase)
    if path.suffix in (".json", ".txt") or not _HUB_ID.fullmatch(name):
        raise TokenizerError(
            f"{name}: no such file or folder; pass a tokenizer.json, a vocab.txt or a folder with "
            "one"
        )
    return _read_folder(_fetch_from_hub(name), lowercase)


def parse_tokenizer(text: str, names: Mapping[str, str] | None = None) -> Tokenizer:
    """Parse the text of a `tokenizer.json`.

    Args:
        text: JSON.
        names: `mask`, `pad`, `unk` -> the token, where it does not have one of the usual names.

    Raises:
        TokenizerError: The text is not a tokenizer.
    """
    _check_character_maps(text)
    with library_errors("tokenizer.json: not a tokenizer of the tokenizers library: "):
        core = tokenizers.Tokenizer.from_str(text)
    return _prepare(core, names or {})


def _check_character_maps(text: str) -> None:
    """Check the size that SentencePiece's character map declares.

    It begins with the size of a table in four bytes. The library takes that much memory before it
    looks for the table, and a process that cannot have it is ended.
    """
    for quoted in _CHARACTER_MAP.findall(text):
        try:
            data = base64.b64decode(json.loads(quoted))
        except ValueError:  # the library says what is wrong
            continue
        size = int.from_bytes(data[:4], "little")
        if size > len(data) - 4:
            raise TokenizerError(
                f"tokenizer.json: precompiled_charsmap declares a table of {size:,} bytes, but has "
                f"{max(len(data) - 4, 0):,}; the file is damaged, copy it again"
            )


@contextmanager
def library_errors(expected: str, *, private: bool = False) -> Iterator[None]:
    """Convert errors and panics of the tokenizers library to TokenizerError.

    Args:
        expected: The beginning of the message: where, and what was expected. The library's own
            words follow.
        private: Whether these are left out, as they could hold the text that was encoded.

    Raises:
        TokenizerError: The library raised an error.
    """
    try:
        yield
    except TokenizerError:
        raise
    except BaseException as error:
        # A panic of Rust is not an Exception, and its class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        got = type(error).__name__ if private else error
        raise TokenizerError(f"{expected}{got}") from None


def _read_folder(folder: Path, lowercase: bool | None) -> Tokenizer:
    names = _read_token_names(folder)
    for file in ("tokenizer.json", "vocab.txt"):
        if (folder / file).is_file():
            return _read_file(folder / file, names, lowercase)

    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        with library_errors(f"{folder}: cannot read vocab.json and merges.txt as byte-level BPE: "):
            core = _make_byte_level(folder)
        return _prepare(core, names)

    raise TokenizerError(
        f"{folder}: no tokenizer.json, vocab.txt, or vocab.json with merges.txt found; convert a "
        "SentencePiece model with "
        f"AutoTokenizer.from_pretrained(...).save_pretrained(...)"
    )


def _read_file(path: Path, names: Mapping[str, str], lowercase: bool | None) -> Tokenizer:
    _check_size(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TokenizerError(
            f"{path}: not valid UTF-8; pass a tokenizer.json or a vocab.txt in UTF-8"
        ) from None
    except OSError as error:
        raise TokenizerError(f"{path}: cannot read the file: {error.strerror}") from None

    if text.lstrip().startswith("{"):
        _check_unique_keys(path, text.encode())
        return parse_tokenizer(text, names)
    return _prepare(_make_word_piece(path, text, lowercase), names)


def _check_size(path: Path) -> None:
    """Check that a file is not so large that loading it would take minutes."""
    # The library reads some 3 MiB a second, and nothing can interrupt it.
    size = path.stat().st_size
    if size > LARGEST:
        raise TokenizerError(
            f"{path}: too large for a tokenizer: {size >> 20} MiB, maximum {LARGEST >> 20} MiB; "
            "pass a tokenizer.json, a vocab.txt or a folder with one"
        )


def _check_unique_keys(path: Path, data: bytes) -> None:
    """Check that JSON has no duplicate key; the library reports other faults."""
    try:
        json_once.decode(data)
    except json_once.KeyTwiceError as error:
        raise TokenizerError(f"{path}: {error}; save the tokenizer again") from None
    except json_once.DECODE_ERRORS:
        return


def _fetch_from_hub(name: str) -> Path:
    """Download a hub repository's tokenizer files into the hub's cache."""
    try:
        return hub.fetch_files(name, _FILES, wanted_by="a tokenizer of the hub")
    except hub.NotFetchedError as error:
        raise TokenizerError(
            f"{name}: no such file or folder, and the hub {error}; pass "
            "a path to a tokenizer.json, a vocab.txt or a folder"
        ) from None


def _read_token_names(folder: Path) -> dict[str, str]:
    """Read the names of special tokens from the config files in a folder."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if not (folder / file).is_file():
            continue
        config = _read_object(folder / file)
        for kind in _USUAL:
            token = config.get(f"{kind}_token")
            if isinstance(token, dict):
                token = token.get("content")
            if isinstance(token, str):
                names.setdefault(kind, token)
    return names


def _read_object(path: Path) -> dict[str, Any]:
    try:
        _check_size(path)
        value = json_once.decode(path.read_bytes())
    except json_once.KeyTwiceError as error:
        raise TokenizerError(f"{path}: {error}; save the tokenizer again") from None
    except (OSError, ValueError, *json_once.DECODE_ERRORS) as error:
        raise TokenizerError(
            f"{path}: expected a JSON object, got {type(error).__name__}"
        ) from None
    if not isinstance(value, dict):
        raise TokenizerError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def _make_word_piece(path: Path, text: str, lowercase: bool | None) -> tokenizers.Tokenizer:
    """Build BERT's tokenizer from its vocabulary: a piece per line, the empty piece included."""
    pieces = [line.removesuffix("\r") for line in text.split("\n")]
    if not pieces[-1]:
        pieces.pop()
    vocab = {piece: number for number, piece in enumerate(pieces)}
    missing = [token for token in ("[UNK]", "[CLS]", "[SEP]") if token not in vocab]
    if missing:
        raise TokenizerError(
            f"{path}: not a BERT vocabulary (one piece per line), it lacks {', '.join(missing)}"
        )

    is_cased = any(piece != piece.lower() for piece in pieces if not piece.startswith("["))
    lower = not is_cased if lowercase is None else lowercase
    if lower and is_cased:
        warnings.warn(
            f"{path.name}: lower-casing text for a vocabulary that has capitals", stacklevel=2
        )

    core = tokenizers.Tokenizer(
        models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    core.normalizer = normalizers.BertNormalizer(lowercase=lower)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.post_processor = processors.BertProcessing(
        ("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"])
    )
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    core.add_special_tokens([token for token in special if token in vocab])
    return core


def _make_byte_level(folder: Path) -> tokenizers.Tokenizer:
    """Build RoBERTa's tokenizer from its vocabulary and merges."""
    for name in ("vocab.json", "merges.txt"):
        _check_size(folder / name)
    _check_unique_keys(folder / "vocab.json", (folder / "vocab.json").read_bytes())

    core = tokenizers.Tokenizer(
        models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()

    vocab = core.get_vocab()
    if "<s>" in vocab and "</s>" in vocab:
        core.post_processor = processors.RobertaProcessing(
            ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"])
        )
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    core.add_special_tokens([token for token in special if token in vocab])
    return core


def _prepare(core: tokenizers.Tokenizer, names: Mapping[str, str]) -> Tokenizer:
    """Switch off truncation, padding and dropout, and find the special ids.

    Args:
        core: The tokenizer; changed.
        names: Kind of special token -> its name, where it does not have one of the usual names.
    """
    core.no_truncation()
    core.no_padding()
    if isinstance(core.model, models.BPE):
        core.model.dropout = None
    core.encode_special_tokens = True
    size = _count_ids(core)
    text = core.to_str()
    pre_tokenizer = json.dumps(json.loads(text).get("pre_tokenizer"))
    lead = " " if '"ByteLevel"' in pre_tokenizer else ""
    with library_errors("tokenizer: cannot encode text: "):
        prefix, suffix = _around(core)
        core.encode(_PROBE)

    known = {
        kind: _find_id(core, (names[kind],) if kind in names else usual)
        for kind, usual in _USUAL.items()
    }
    added = {id_ for id_, token in core.get_added_tokens_decoder().items() if token.special}
    present = {id_ for id_ in known.values() if id_ >= 0}
    special = tuple(sorted(added | present | set(prefix) | set(suffix)))
    if max(special, default=0) >= size:
        raise TokenizerError(
            f"tokenizer: expected special ids below the vocabulary size {size}, got {special[-1]}"
        )

    ids = TokenIds(size=size, special=special, **known)
    return Tokenizer(core=core, ids=ids, prefix=prefix, suffix=suffix, lead=lead, json=text)


def _count_ids(core: tokenizers.Tokenizer) -> int:
    """Return the vocabulary size: the highest id + 1."""
    ids = core.get_vocab(with_added_tokens=True).values()
    size = max(ids, default=-1) + 1
    if len(set(ids)) < len(ids):
        raise TokenizerError(
            f"tokenizer: expected unique ids, got {len(set(ids))} ids for {len(ids)} tokens"
        )
    if size > len(ids) + _MAX_HOLES:
        raise TokenizerError(
            f"tokenizer: expected ids without large gaps, got id {size - 1} in a vocabulary of "
            f"{len(ids)}"
        )
    return int(size)


def _find_id(core: tokenizers.Tokenizer, tokens: tuple[str, ...]) -> int:
    """Return the id of the first token that is in the vocabulary, or -1."""
    for token in tokens:
        id_ = core.token_to_id(token)
        if id_ is not None:
            return int(id_)
    return -1


def _around(core: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special ids that a tokenizer puts before and after a row.

    They stand around the ids of a probe that it encodes to anything at all.
    """
    for probe in ("a", "0", "the", "A"):
        bare = core.encode(probe, add_special_tokens=False).ids
        full = core.encode(probe).ids
        for start in range(len(full) - len(bare) + 1):
            if bare and full[start : start + len(bare)] == bare:
                return tuple(full[:start]), tuple(full[start + len(bare) :])
    raise TokenizerError(
        "tokenizer: it encodes none of 'a', '0' and 'the' to tokens; check its vocabulary"
    )

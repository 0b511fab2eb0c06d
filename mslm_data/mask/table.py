"""The table of shipped strategies, and the function that makes a strategy from a name or a table.

A version is part of a strategy's name and stands for its masks: different masks for the same seed
need a new version, such as `joint.v2`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mslm_data.errors import PipelineError
from mslm_data.registry import Registry, from_options, list_options

if TYPE_CHECKING:
    from mslm_data.mask.strategy import Origin, Recipe, Strategy

Status = Literal["paper", "released", "adapted", "recalled", "own"]
"""The source of a strategy: the `paper`; the code its authors `released`; a paper or code `adapted`
to rows of text; a paper `recalled` and not re-read; or none (`own`): an idea of this package, or
the user's parts."""


class Shipped(NamedTuple):
    """A row of the table.

    Attributes:
        make: `module:function` within `mslm_data.mask`. The parameters of the function are the
            strategy's options.
        status: The kind of source.
        source: Paper or repository.
    """

    make: str
    status: Status
    source: str


class Summary(NamedTuple):
    """A strategy in a listing.

    Attributes:
        masks: First line of its docstring.
        status: The kind of source; see `Status`.
        source: Paper or repository, or the plug-in's package and version.
    """

    masks: str
    status: Status
    source: str


_ATTMASK = "Kakogeorgiou et al. 2022"
_DIFFERENCE = "abwilf/Difference-Masking"
_MSLM = "Abaho et al. 2024, section 3"

SHIPPED: dict[str, Shipped] = {
    "joint.v1": Shipped("recipes.mslm:joint", "paper", _MSLM),
    "joint-paper.v1": Shipped("recipes.mslm:joint_paper", "paper", _MSLM),
    "elm.v1": Shipped("recipes.mslm:elm", "paper", _MSLM),
    "blm.v1": Shipped("recipes.mslm:blm", "paper", _MSLM),
    "joint-released.v1": Shipped(
        "recipes.mslm:joint_released", "released", "mykelismyname/MSLM at c9cde41"
    ),
    "bert.v1": Shipped("recipes.tokens:bert", "released", "google-research/bert"),
    "token.v1": Shipped("recipes.tokens:token", "released", "transformers 5.23"),
    "dga.v1": Shipped("recipes.tokens:dga", "released", "Ke et al. 2022; UIC-Liu-Lab/DGA"),
    "roberta.v1": Shipped("recipes.tokens:roberta", "released", "fairseq"),
    "wettig.v1": Shipped("recipes.tokens:wettig", "released", "princeton-nlp/DinkyTrain"),
    "modernbert.v1": Shipped("recipes.tokens:modernbert", "released", "AnswerDotAI/ModernBERT"),
    "electra.v1": Shipped("recipes.tokens:electra", "released", "google-research/electra"),
    "unmasked.v1": Shipped("recipes.tokens:unmasked", "own", "plain fine-tuning"),
    "whole-word.v1": Shipped("recipes.words:whole_word", "released", "google-research/bert"),
    "whole-word-hf.v1": Shipped("recipes.words:whole_word_hf", "released", "transformers 5.23"),
    "whole-word-roberta.v1": Shipped("recipes.words:whole_word_roberta", "released", "fairseq"),
    "random-word.v1": Shipped(
        "recipes.words:random_word", "adapted", "slides of Difference-Masking"
    ),
    "pmi.v1": Shipped("recipes.ngrams:pmi", "paper", "Abaho et al. 2024, Algorithm 2"),
    "pmi-levine.v1": Shipped("recipes.ngrams:pmi_levine", "recalled", "Levine et al. 2021"),
    "ernie.v1": Shipped("recipes.entities:ernie", "adapted", "PaddlePaddle/ERNIE"),
    "entitybert.v1": Shipped("recipes.entities:entitybert", "recalled", "Lin et al. 2021"),
    "entitybert-difference.v1": Shipped(
        "recipes.entities:entitybert_difference", "released", _DIFFERENCE
    ),
    "salient.v1": Shipped(
        "recipes.entities:salient", "adapted", "Guu et al. 2020; google-research/language"
    ),
    "lim.v1": Shipped(
        "recipes.entities:lim", "released", "Althammer et al. 2021; sophiaalthammer/patent-lim"
    ),
    "difference.v1": Shipped("recipes.likeness:difference", "paper", "Wilf et al. 2023"),
    "difference-patches.v1": Shipped(
        "recipes.likeness:difference_patches", "released", _DIFFERENCE
    ),
    "selective-task.v1": Shipped(
        "recipes.scores:selective_task", "adapted", "Gu et al. 2020; thunlp/SelectiveMasking"
    ),
    "selective.v1": Shipped(
        "recipes.scores:selective", "adapted", "Gu et al. 2020; thunlp/SelectiveMasking"
    ),
    "attention-high.v1": Shipped("recipes.scores:attention_high", "adapted", _ATTMASK),
    "attention-hints.v1": Shipped("recipes.scores:attention_hints", "adapted", _ATTMASK),
    "attention-low.v1": Shipped("recipes.scores:attention_low", "adapted", _ATTMASK),
    "mst.v1": Shipped("recipes.scores:mst", "recalled", "Li et al. 2021"),
    "informask.v1": Shipped(
        "recipes.scores:informask", "released", "Sadeq et al. 2022; NafisSadeq/InforMask"
    ),
    "keywords.v1": Shipped("recipes.scores:keywords", "paper", "Golchin et al. 2023"),
    "span.v1": Shipped("recipes.spans:span", "paper", "Abaho et al. 2024, Algorithm 1"),
    "spanbert.v1": Shipped(
        "recipes.spans:spanbert", "released", "Joshi et al. 2020; facebookresearch/SpanBERT"
    ),
    "spanbert-ner.v1": Shipped(
        "recipes.spans:spanbert_ner", "released", "Joshi et al. 2020; facebookresearch/SpanBERT"
    ),
    "t5.v1": Shipped(
        "recipes.spans:t5", "released", "Raffel et al. 2020; transformers' run_t5_mlm_flax.py"
    ),
    "salient-t5.v1": Shipped("recipes.entities:salient_t5", "recalled", "Roberts et al. 2020"),
    "ccm.v1": Shipped("recipes.ngrams:ccm", "released", "Lee et al. 2022; KoreaMGLEE"),
    "causal.v1": Shipped("causal:Causal", "own", "the objective of decoders"),
    "diffusion.v1": Shipped("diffusion:Diffusion", "own", "Sahoo et al. 2024; Nie et al. 2025"),
    "picks.v1": Shipped("strategy:Recipe", "own", "picks of your own"),
    "mixture.v1": Shipped("strategy:Mixture", "own", "strategies of your choice"),
    "curriculum.v1": Shipped("strategy:Curriculum", "own", "strategies of your choice"),
}

STRATEGIES = Registry(
    "strategy",
    {name: f"mslm_data.mask.{shipped.make}" for name, shipped in SHIPPED.items()},
    plugins="mslm_data.strategies",
)

NO_MASKS = {
    "ptw": "weights words by the running loss of their part of speech (Yang et al. 2023), which "
    "only the trainer knows; the nearest strategy is 'difference' with a lexicon of your own",
    "entropy": "chooses tokens by the entropy of the model in training; the nearest strategy is "
    "'selective' with a score column of a frozen model",
    "ul2": "also continues prefixes and prepends tokens of modes (Tay et al. 2023); its other "
    "denoisers are a 'mixture' of 't5' with several rates and means",
    "bart": "masks a span by one token and inserts masks, and its decoder writes the whole row "
    "(Lewis et al. 2020); the nearest strategy is 't5'",
}
"""Systems that are compared with masking but do not mask the input of an encoder -> the reason, and
the nearest strategy."""


def strategy(name: str | Path, **options: Any) -> Strategy:
    """Make a strategy: `strategy("joint", elm=0.5, blm=0.15)`.

    Args:
        name: A registered name, or a TOML file with a table `[mask]`. Default version: the newest.
        **options: Options of the strategy, as listed by `mslm-data recipes --strategies NAME`. They
            override options in the file.

    Raises:
        TypeError: `name` is neither a name nor a path.
        ValueError: The name or an option is unknown, or a value is invalid.
    """
    try:
        return make(name, options)
    except PipelineError as error:
        raise ValueError(str(error)) from None


def make(name: str | Path, options: Mapping[str, Any]) -> Strategy:
    """Make a strategy from a name or a file, and options, for commands.

    Args:
        name: A registered name, or a TOML file with a table `[mask]`.
        options: Options of the strategy. They override options in the file.

    Raises:
        TypeError: `name` is neither a name nor a path.
        PipelineError: The name, the file or an option is unknown, or a value is invalid.
    """
    from mslm_data.mask.file import read_table

    if not isinstance(name, str | Path):
        raise TypeError(
            "strategy: expected a name or a TOML file with a table [mask], got "
            f"{type(name).__name__}"
        )
    name = str(name)
    plain = {name: _plain(value) for name, value in options.items()}
    if name.endswith(".toml"):
        table = read_table(Path(name)) | plain
        return parse_strategy(table, where=f"{name}, [mask]")
    return _make_named(name, plain, where=f"strategy '{name}'")


def parse_strategy(table: Mapping[str, Any], *, where: str) -> Strategy:
    """Make a strategy from a table with a name and options, or with picks.

    Args:
        table: `use` with the options of that strategy, or `picks` and `corruption`.
        where: Prefix of error messages.

    Raises:
        PipelineError: A name or an option is unknown at any depth, or a value is invalid.
    """
    if "use" not in table:
        if "picks" not in table:
            raise PipelineError(f'{where}: expected use = "NAME", or a list of picks, got neither')
        return _make_recipe(table, where=where)

    name = table["use"]
    if not isinstance(name, str):
        raise PipelineError(f"{where}: expected the name of a strategy as 'use', got {name!r}")
    options = {option: value for option, value in table.items() if option != "use"}
    return _make_named(name, options, where=where)


def default_options(name: str) -> dict[str, Any]:
    """Return the options of a strategy with their defaults, in order.

    Raises:
        PipelineError: The name is unknown.
    """
    return {option.name: option.default for option in list_options(STRATEGIES.load(name))}


def varied(strategy: Strategy, **options: Any) -> Strategy:
    """Make a strategy again with some options changed.

    Args:
        strategy: A strategy made by name.
        **options: Options to change.

    Raises:
        ValueError: The strategy was not made by name, or an option is unknown or invalid.
    """
    if strategy.origin is None:
        raise ValueError(
            "strategy: expected one made by name, such as md.strategy('joint'), got one made of "
            "picks"
        )
    try:
        return make(strategy.origin.name, {**strategy.origin.options, **options})
    except PipelineError as error:
        raise ValueError(str(error)) from None


def strategies() -> dict[str, Summary]:
    """Return a summary of each registered strategy, sorted by name.

    Systems such as PTW or BART's denoising are not listed, because no mask of a row describes them.
    For these, `strategy` raises an error that names the nearest strategy.
    """
    return {name: summary(name) for name in STRATEGIES.names()}


def summary(name: str) -> Summary:
    """Return the summary of a strategy.

    Raises:
        PipelineError: The name is unknown.
    """
    masks = (inspect.getdoc(STRATEGIES.load(name)) or "").partition("\n")[0]
    plugin = STRATEGIES.plugin(name)
    if plugin is not None:
        return Summary(masks, "own", f"{plugin.distribution} {plugin.version}")
    shipped = SHIPPED[STRATEGIES.resolve(name)]
    return Summary(masks, shipped.status, shipped.source)


def _make_named(name: str, options: Mapping[str, Any], *, where: str) -> Strategy:
    """Make a registered strategy, after the strategies and picks nested in its options."""
    from mslm_data.mask.strategy import Origin, Strategy

    if name in NO_MASKS:
        raise PipelineError(f"'{name}' is not a text-masking strategy: it {NO_MASKS[name]}")

    full = STRATEGIES.resolve(name)
    if full == "picks.v1":
        return _with_origin(_make_recipe(options, where=where), Origin(full, options))

    options = dict(options)
    if isinstance(options.get("parts"), list | tuple):
        options["parts"] = tuple(
            part if isinstance(part, Strategy) else _part(part, where=f"{where}: parts[{number}]")
            for number, part in enumerate(options["parts"])
        )
    made: Any = from_options(STRATEGIES.load(full), options, where=where)
    all_options = {
        option: options.get(option, default) for option, default in default_options(full).items()
    }
    if not isinstance(made, Strategy):
        raise PipelineError(
            f"{where}: expected a strategy, from md.strategy(...) or of a subclass of md.Strategy, "
            f"got {type(made).__name__}"
        )
    return _with_origin(made, Origin(full, all_options))


def _make_recipe(table: Mapping[str, Any], *, where: str) -> Recipe:
    from mslm_data.mask.file import complete_recipe
    from mslm_data.mask.strategy import Recipe

    return from_options(Recipe, complete_recipe(table), where=where)


def _with_origin(strategy: Strategy, origin: Origin) -> Strategy:
    """Return a copy of a strategy with its origin."""
    # A copy, because a function may return the same strategy again. Not by `dataclasses.replace`,
    # because a plug-in's class need not be a dataclass, or have this field. It may be frozen.
    copied = copy.copy(strategy)
    object.__setattr__(copied, "origin", origin)
    return copied


def _part(table: Any, *, where: str) -> Strategy:
    if not isinstance(table, Mapping):
        raise PipelineError(
            f"{where}: expected a strategy or its table, got {type(table).__name__}"
        )
    return parse_strategy(table, where=where)


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    import numpy as np

    if isinstance(value, np.floating):
        # Through its decimals: float32(0.15) is 0.150000006, whose ceiling for 20 tokens is 4.
        return float(str(value))
    return value.item() if isinstance(value, np.generic) else value

"""Chooses the layer and feature of mentions in files that lack the default layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mslm_data.errors import SourceError
from mslm_data.log import LOGGER, TO_KEEP, few
from mslm_data.source.reading.cells import can_be_shown

_STANDARD = (
    "uima.",
    "de.tudarmstadt.ukp.dkpro.core.api.",
    "de.tudarmstadt.ukp.clarin.webanno.api.type.",
    "org.dkpro.core.api.",
)
"""Prefixes of types that annotation tools add to every text: tokens, sentences, parts of speech."""
_SHOWN = 12


def is_user_layer(name: str) -> bool:
    """Return whether a type is a layer defined by users, not one added to every text."""
    return bool(name) and not name.startswith(_STANDARD)


def take_only(
    option: str,
    layers: Mapping[str, Sequence[str]],
    *,
    feature: str,
    instead_of: str,
    may_take: bool,
) -> dict[str, str]:
    """Choose the only layer of some files and its only feature.

    Args:
        option: Name of the option for the layer.
        layers: Layers that may hold mentions -> their features.
        feature: Name of the option for the label's feature.
        instead_of: The default layer, which is missing.
        may_take: Whether another layer may be used, because the user has not set the option.

    Returns:
        The options to set.

    Raises:
        SourceError: There are several layers or features, or another layer may not be used.
    """
    expected = f"the layer '{instead_of}' in one of the files"
    if not may_take or len(layers) != 1:
        raise _not_one(expected, "layers", layers, option)
    [(layer, features)] = layers.items()
    chosen = {option: layer}
    if len(features) > 1:
        alternatives = f"{expected}, or one feature in the only layer {layer}"
        raise _not_one(alternatives, "features", features, f"{option} and {feature}")
    if features:
        chosen[feature] = features[0]
    say_taken(chosen)
    return chosen


def say_taken(chosen: Mapping[str, str]) -> None:
    """Log the options that were set to the only candidate."""
    LOGGER.info(
        "source: took %s, as the files have no other",
        ", ".join(f"{option} = '{name}'" for option, name in chosen.items()),
        extra=TO_KEEP,
    )


def _not_one(expected: str, noun: str, names: Iterable[str], option: str) -> SourceError:
    shown_names = [name for name in names if can_be_shown(name)]
    got = f"the {noun} {few(shown_names, _SHOWN)}" if shown_names else f"no {noun} of users"
    return SourceError(f"expected {expected}, got {got}; set [source] {option}")

"""Chooses among layers, types and keys of mentions where files do not have the usual one."""

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
"""Beginnings of types that annotation tools give every text: tokens, sentences, parts of speech."""
_SHOWN = 12


def is_user_layer(name: str) -> bool:
    """Return whether a type is a layer of a tool's users, and none that every text has."""
    return bool(name) and not name.startswith(_STANDARD)


def take_only(
    option: str,
    layers: Mapping[str, Sequence[str]],
    *,
    feature: str,
    instead_of: str,
    may_take: bool,
) -> dict[str, str]:
    """Return the options that name the one layer of some files and its one feature.

    Args:
        option: The option that names a layer.
        layers: The layers that may hold mentions, each with its features.
        feature: The option that names the feature of the label.
        instead_of: The layer that was expected.
        may_take: Whether another may be taken, as nobody has named that one.

    Raises:
        SourceError: There are several layers, or several features, or none may be taken.
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
    """Log which option was set to the only candidate that files have."""
    LOGGER.info(
        "source: took %s, as the files have no other",
        ", ".join(f"{option} = '{name}'" for option, name in chosen.items()),
        extra=TO_KEEP,
    )


def _not_one(expected: str, noun: str, names: Iterable[str], option: str) -> SourceError:
    shown_names = [name for name in names if can_be_shown(name)]
    got = f"the {noun} {few(shown_names, _SHOWN)}" if shown_names else f"no {noun} of users"
    return SourceError(f"expected {expected}, got {got}; set [source] {option}")

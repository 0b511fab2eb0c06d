"""`mslm-data audit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import FileOrFolder, LocalFolder
from mslm_data.registry import Options

if TYPE_CHECKING:
    from mslm_data.builds.audit import Audit
    from mslm_data.pipeline import Pipeline
    from mslm_data.shard.manifest import Manifest

_HOW_FAST = ("batch_size", "device", "threads")
"""Options of annotators that decide speed, but not mentions."""
_NOT_FOUND_IN_TEXT = ("gold", "none")
"""Annotators that do not search the text."""


class AuditOptions(Options, frozen=True, kw_only=True):
    """Options of `mslm-data audit`."""

    folder: LocalFolder
    gold: Annotated[
        tuple[str, ...],
        option("File or folder with gold mentions. Can be repeated.", metavar="PATH"),
    ]
    gold_source: Annotated[
        str,
        option(
            "Pipeline that reads the gold files: a shipped one, a source such as `pubtator`, or a "
            "TOML file.",
            metavar="NAME|FILE.toml",
        ),
    ]
    gold_set: Annotated[
        tuple[str, ...],
        option("Option of the gold pipeline. Can be repeated.", metavar="STAGE.OPTION=VALUE"),
    ] = ()
    label: Annotated[
        tuple[str, ...],
        option(
            "Gold label, and the label of the folder to compare with. Can be repeated.",
            metavar="GOLD=OURS",
            default="all that the gold and the folder have in common",
        ),
    ] = ()
    train: Annotated[
        tuple[Path, ...],
        option(
            "Training data of the annotator: a built folder (its training split), the folder of "
            "one split, or a table of names, as for `terms`. Recall is also reported for gold "
            "mentions in the training data, and for new ones. Can be repeated.",
            metavar="DIR|TABLE",
            type=FileOrFolder(),
        ),
    ] = ()
    set: Annotated[
        tuple[str, ...],
        option(
            "File of the folder's annotator, such as its model, which the folder does not contain. "
            "Can be repeated.",
            metavar="annotate.OPTION=PATH",
        ),
    ] = ()


@make_command("audit", AuditOptions)
def command(options: AuditOptions) -> Audit:
    r"""Score the weak labels of a folder against gold mentions: precision, recall and F1.

    The annotator of DIR annotates the text of the gold corpus, and its mentions are compared with
    the gold ones. Mentions that DIR leaves out by context are left out here too. Each score has a
    95 % interval, by the bootstrap over gold documents. With --train, recall is also reported for
    mentions whose text occurs in the training data, for those of which only the concept does, and
    for new ones.

    Gold documents and mentions that cannot be used are counted by reason. If their share is above
    `source.max_loss` of the gold pipeline, the exit code is 1.

    \b
    Example:
        mslm-data audit shards/mimic --set annotate.table=TERMS.csv \
            --gold NCBI_corpus --gold-source blurb/ncbi-disease \
            --gold-set source.use=pubtator --label Disease=Disease
    """
    from mslm_data.api.building import read_named
    from mslm_data.builds.audit import audit, read_training
    from mslm_data.shard.manifest import read_manifest
    from mslm_data.source.inputs.localise import localise

    folder = options.folder
    manifest = read_manifest(folder)
    _check_weak_labels(manifest, folder)
    gold = read_named(options.gold_source, sets=options.gold_set)
    labels = _labels(options.label, manifest, folder)
    weak = _read_pipeline(manifest, options.set, folder)
    training = [read_training(path) for path in options.train]
    return audit(manifest, weak, gold, localise(options.gold), labels=labels, train=training)


def _check_weak_labels(manifest: Manifest, folder: Path) -> None:
    """Check that the labels of a folder were found by an annotator.

    Raises:
        PipelineError: They are gold labels, or there are none.
    """
    from mslm_data.errors import PipelineError

    use = manifest.pipeline["annotate"]["use"]
    if use in _NOT_FOUND_IN_TEXT:
        raise PipelineError(
            f"audit: expected {folder} to have labels that an annotator found in its text, such as "
            f"medcat or terms, got annotate.use = '{use}'; build a folder with the annotator that "
            "is to be audited"
        )


def _labels(pairs: Sequence[str], manifest: Manifest, folder: Path) -> dict[str, str]:
    """Return gold label -> the folder's label, as far as `--label` names them.

    Raises:
        PipelineError: A pair is invalid, repeats a gold label, or has an unknown label of the
            folder.
    """
    from mslm_data.errors import PipelineError

    parsed = [pair.partition("=")[::2] for pair in pairs]
    labels = dict(parsed)

    # A pair without "=" or with an empty side, or a label that the folder does not have.
    halves = [pair for pair in parsed if not all(pair)]
    unknown = sorted(set(filter(None, labels.values())) - set(manifest.labels))
    if halves or unknown:
        got = ["a pair without a label"] * bool(halves) + unknown
        raise PipelineError(
            f"audit: expected --label GOLD=OURS with labels of {folder} "
            f"({', '.join(manifest.labels)}), got {', '.join(got)}"
        )

    twice = [label for label, count in Counter(label for label, _ in parsed).items() if count > 1]
    if twice:
        raise PipelineError(
            f"audit: expected each gold label once in --label GOLD=OURS, got {', '.join(twice)} "
            "more than once; several gold labels may have one label of the folder, and each has "
            "only one"
        )
    return labels


def _read_pipeline(manifest: Manifest, sets: Sequence[str], folder: Path) -> Pipeline:
    """Return the pipeline that annotated a folder, with the files from `--set`.

    Raises:
        PipelineError: An option is not allowed in `--set`.
    """
    from mslm_data.pipeline import check_consent, read

    _check_audited_options(manifest, sets)
    annotate = dict(manifest.pipeline["annotate"])
    options = annotate.pop("options")
    segment = manifest.pipeline["segment"]
    tables = {
        "name": f"{manifest.name} of {folder}",
        "source": {"use": "conll"},  # a pipeline needs one; it is not used
        "annotate": {**annotate, **options, "labels": list(manifest.labels)},
        "segment": {"use": segment["use"], **segment["options"]},
    }
    check_consent(str(folder), tables)
    return read(tables, sets=sets)


def _check_audited_options(manifest: Manifest, sets: Sequence[str]) -> None:
    """Check that `--set` changes only files and speed, and not the labels to audit.

    Files are allowed, because their digests are compared with the folder's.

    Raises:
        PipelineError: Another option is set.
    """
    from mslm_data.errors import PipelineError
    from mslm_data.pipeline import CONSENT, FILES

    # Options of the annotator itself, and of the members of an ensemble.
    made = manifest.pipeline["annotate"]
    allowed = [f"annotate.{option}" for option in (*FILES, CONSENT, *_HOW_FAST)]
    allowed += [
        f"annotate.annotators.{name}.{option}"
        for name in made["options"].get("annotators", {})
        for option in (*FILES, CONSENT, *_HOW_FAST)
    ]
    # Sentences decide which mentions are in a context.
    if made.get("leave_out_context"):
        allowed += [f"segment.{option}" for option in FILES]

    for text in sets:
        path = text.partition("=")[0].strip()
        if path not in allowed:
            files = ", ".join(f"annotate.{option}" for option in (*FILES, CONSENT))
            computing = ", ".join(f"annotate.{option}" for option in _HOW_FAST)
            raise PipelineError(
                f"audit, --set: expected a file option ({files}) or one that sets only the speed "
                f"({computing}) of the folder's annotator (annotate.annotators.NAME.… in an "
                f"ensemble), got '{path}'; to audit another option, build a folder with it"
            )

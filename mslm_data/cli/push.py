"""`mslm-data push`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mslm_data.cli.command import argument, make_command, option
from mslm_data.cli.options import LocalFolder
from mslm_data.registry import Options

if TYPE_CHECKING:
    from mslm_data.builds.push import Pushed


class Push(Options, frozen=True, kw_only=True):
    """Options of `mslm-data push`."""

    folder: LocalFolder
    repo: Annotated[str, argument("REPO")]
    public: Annotated[bool, option("Upload to a public repository instead of a private one.")] = (
        False
    )
    share_protected: Annotated[
        bool,
        option(
            "Upload patients' text. Data use agreements such as MIMIC's forbid this. With this "
            "option, you confirm that yours allows it, and take responsibility."
        ),
    ] = False


@make_command("push", Push)
def command(options: Push) -> Pushed:
    r"""Verify DIR and upload it as the dataset REPO (OWNER/NAME) to the Hugging Face hub.

    The repository is private unless --public is given. Only files written by the build are
    uploaded. Log in first, with `hf auth login`.

    A folder of patients' notes is an error, even for a private repository. Its token ids can be
    turned back into text, and data use agreements forbid passing it on.

    \b
    Example:
        mslm-data push shards/ncbi me/ncbi-disease-mslm
        mslm-data push shards/ncbi me/ncbi-disease-mslm --public
    """
    from mslm_data.builds.push import push

    return push(
        options.folder,
        options.repo,
        public=options.public,
        share_protected=options.share_protected,
    )

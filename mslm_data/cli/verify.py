"""`mslm-data verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mslm_data.cli.command import make_command
from mslm_data.cli.options import AnyFolder
from mslm_data.io.remote import redact_url
from mslm_data.registry import Options
from mslm_data.results import Result, Table, counted

if TYPE_CHECKING:
    from mslm_data.builds.verify import Problem


class Verify(Options, frozen=True, kw_only=True):
    """Options of `mslm-data verify`."""

    folder: AnyFolder


@dataclass(frozen=True, kw_only=True)
class Verified(Result):
    """The problems of a folder, and the files in it that no build writes."""

    folder: str
    ok: bool
    shards: int
    sequences: int
    problems: list[Problem]
    passed_over: list[str]

    @property
    def exit_code(self) -> int:
        """1 if there is a problem."""
        return 0 if self.ok else 1

    def to_json(self) -> dict[str, Any]:
        """Return the fields without the folder, so that a folder and its URL give the same."""
        fields = super().to_json()
        del fields["folder"]
        return fields

    def tables(self) -> Iterator[str | Table]:
        """Yield a line for each problem, the verdict, and the number of other files."""
        from mslm_data.builds.verify import describe_other_files

        yield from map(str, self.problems)
        verdict = counted(len(self.problems), "problem") if self.problems else "no problems"
        shards = counted(self.shards, "shard")
        yield f"{self.folder}: {shards}, {counted(self.sequences, 'row')}: {verdict}"
        if self.passed_over:
            yield f"{self.folder}: ignored {describe_other_files(self.passed_over)}"


@make_command("verify", Verify)
def command(options: Verify) -> Verified:
    r"""Check a built folder: checksums, counts, schema, offsets, tags and spans.

    The exit code is 1 if there is a problem. Files that no build writes, such as those of
    `datasets` and `mslm-data vocab`, are ignored. A folder at a URL is copied to the cache folder
    first, so the URL must support listing.

    \b
    Example:
        mslm-data verify shards/ncbi
        mslm-data verify s3://bucket/shards/ncbi --json
    """
    from mslm_data.builds.verify import find_other_files, verify
    from mslm_data.shard.remote import RemoteFolder

    folder = options.folder
    local_folder = RemoteFolder(folder).copy() if isinstance(folder, str) else folder
    manifest, problems = verify(local_folder)
    return Verified(
        folder=redact_url(str(folder)),
        ok=not problems,
        shards=sum(len(split.shards) for split in manifest.splits.values()),
        sequences=sum(split.sequences for split in manifest.splits.values()),
        problems=problems,
        passed_over=find_other_files(local_folder, manifest),
    )

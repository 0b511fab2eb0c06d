"""Uploads built folders to the Hugging Face Hub, except patients' text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mslm_data._version import __version__
from mslm_data.builds.verify import describe_other_files, find_other_files, verify
from mslm_data.errors import PushError
from mslm_data.io.hub import check_repository_name, uploading
from mslm_data.results import Result, Table, counted
from mslm_data.shard.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Pushed(Result):
    """The result of an upload.

    Attributes:
        repo: Full name of the repository.
        url: URL of the repository.
        private: Whether the repository is private.
        files: Number of uploaded files.
        left_behind: Files in the folder that were not written by the build, and not uploaded.
    """

    repo: str
    url: str
    private: bool
    files: int
    left_behind: tuple[str, ...]

    def tables(self) -> Iterator[str | Table]:
        """Yield the number of uploaded files, and that of others."""
        visibility = "private" if self.private else "public"
        yield f"{self.url}: {counted(self.files, 'file')}, {visibility}"
        if self.left_behind:
            yield f"{self.repo}: did not upload {describe_other_files(self.left_behind)}"


def push(folder: Path, repo: str, *, public: bool = False, share_protected: bool = False) -> Pushed:
    """Verify a built folder and upload the files of its build. Other files, such as `vocab/`, stay.

    Args:
        folder: Built folder.
        repo: Dataset repository `OWNER/NAME`, or `NAME` for one of the user. Created if missing.
        public: Whether the repository may be public. A new repository is private by default.
        share_protected: Whether to upload patients' text. Default: False. The caller is responsible
            for data use agreements.

    Raises:
        CallError: The repository name is invalid.
        ShardError: The folder is not a built folder.
        PushError: The folder is protected or damaged, the upload was rejected, or the Hub is
            unreachable.
        MissingExtraError: `huggingface_hub` is not installed.
    """
    check_repository_name(repo, wanted_by="`mslm-data push`")
    manifest, problems = verify(folder)
    check_not_protected(folder, manifest, share_protected=share_protected)
    if problems:
        number = counted(len(problems), "problem")
        raise PushError(f"{folder}: the folder is damaged: {number}; the first: {problems[0]}")

    files = manifest.files()
    with uploading(repo, wanted_by="`mslm-data push`") as api:
        url = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        made = url.repo_id
        private = bool(api.repo_info(made, repo_type="dataset").private)
        if not (private or public):
            raise PushError(f"{made}: the repository is public; pass --public to upload to it")
        api.upload_folder(
            repo_id=made,
            repo_type="dataset",
            folder_path=str(folder),
            allow_patterns=files,
            commit_message=f"{manifest.name}, built by mslm-data {__version__}",
        )
    return Pushed(
        repo=made,
        url=str(url),
        private=private,
        files=len(files),
        left_behind=tuple(find_other_files(folder, manifest)),
    )


def check_not_protected(folder: Path, manifest: Manifest, *, share_protected: bool) -> None:
    """Check that a folder may be shared.

    Raises:
        PushError: The folder is protected and `share_protected` is False.
    """
    if manifest.protected and not share_protected:
        raise PushError(
            f"{folder}: contains patients' text (token ids can be decoded); data use agreements "
            "forbid sharing it, even in a private repository; see --share-protected"
        )

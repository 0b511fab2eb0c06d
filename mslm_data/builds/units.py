"""Builds the work units of a build, and knows what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mslm_data.builds import scan
from mslm_data.builds.copies import Found, check_equal_texts, looks_for_copies
from mslm_data.builds.data_loss import check_all_labels, check_losses
from mslm_data.builds.folder import Receipt, Unfinished, digest_of
from mslm_data.builds.plan import (
    Plan,
    collect_versions,
    load_plan,
    make_plan,
)
from mslm_data.builds.stages import Inputs, make_annotator
from mslm_data.builds.tasks import BuildUnit, FindDrops, ReadUnit, Unit, Unpack
from mslm_data.engine import Run, death_error
from mslm_data.errors import BuildError
from mslm_data.log import LOGGER, plain
from mslm_data.pipeline import Pipeline


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a build, as counts only.

    Attributes:
        done: Number of finished work units, including earlier builds.
        total: Number of work units; 0 while input files are scanned.
        bytes_done: Input bytes of the finished units.
        bytes_total: Input bytes of all units.
        documents: Number of documents read.
        rows: Number of rows written.
    """

    done: int
    total: int
    bytes_done: int
    bytes_total: int
    documents: int = 0
    rows: int = 0


Tell = Callable[[Progress], None]


class BuildUnits:
    """The work units of a build, and what they came to.

    Attributes:
        folder: The unfinished folder.
        inputs: The input files.
        plan: The plan.
        versions: Versions of packages.
        found: Documents to drop, and equal texts; None until all units are read.
        receipts: Unit -> its receipt, for finished units in the order of the input.
    """

    def __init__(
        self,
        run: Run,
        folder: Unfinished,
        inputs: Inputs,
        identity: dict[str, Any],
        progress: Tell,
        *,
        compares: bool = True,
    ) -> None:
        """Begin without a plan.

        Args:
            run: Runs tasks.
            folder: The unfinished folder.
            inputs: The input files.
            identity: From `plan.collect_identity`.
            progress: See `build`.
            compares: Whether ids and texts are compared. Default: True.
        """
        self.folder = folder
        self.inputs = inputs
        self.versions = collect_versions(inputs.pipeline)
        self.plan = Plan(identity=identity, sources={}, files=(), units=())
        self.found: Found | None = None if compares else Found({}, {}, [])
        self.receipts: dict[str, Receipt] = {}
        self._made: dict[tuple[str, bytes], str] = {}
        self._run = run
        self._progress = progress
        self._now = Progress(done=0, total=0, bytes_done=0, bytes_total=0)

    def build(self, part: tuple[int, int] | None = None) -> None:
        """Plan the build, and build all units, or those of a part.

        Args:
            part: See `build`.

        Raises:
            BuildError: The unfinished build is of other inputs or options, or too many texts are
                equal.
            SourceError: A file has changed since the build began.
        """
        with self._forgetting_changed():
            # Parts wait for the first of them, which plans, and reads all units if needed.
            with self.folder.planning():
                self._load_plan(is_part=part is not None)
                if self.found is None and _reads_first(self.inputs.pipeline):
                    self._read()
                    self.found = self._find_drops()

            units = self.plan.units
            if part is not None:
                self._build(units[part[0] - 1 :: part[1]], is_alone=False)
                return
            self._build(units)
            if self.found is None:
                # No unit was read before. Few corpora repeat an id, so few are built twice.
                self.found = self._find_drops()
                self._build([unit for unit in units if unit.name in self.found.kinds])
        self.receipts = {unit.name: self.receipts[unit.name] for unit in units}

    def made(self, unit: Unit) -> str:
        """Return what decides the bytes of a unit, as a digest."""
        known = (unit.name, self._kinds(unit))
        if known not in self._made:
            self._made[known] = self.plan.made(unit, self._kinds(unit), self.versions)
        return self._made[known]

    def made_of_shard(self, units: Iterable[Unit]) -> str:
        """Return what decides the bytes of a shard's units, as a digest."""
        return digest_of([self.made(unit) for unit in units])

    def outcomes(self) -> dict[str, list[Receipt]]:
        """Return split -> the receipts of its units."""
        outcomes: dict[str, list[Receipt]] = {split: [] for split in self.inputs.files}
        for unit in self.plan.units:
            outcomes[unit.split].append(self.receipts[unit.name])
        return outcomes

    @property
    def all_found(self) -> Found:
        """The documents to drop and the equal texts, once all units are built."""
        assert self.found is not None  # noqa: S101 - set by `build`
        return self.found

    def check_losses(self) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        """Check labels and data loss, and return the labels of mentions and of documents.

        Raises:
            BuildError: Labels seem to be texts or are too many, or too much data is lost.
        """
        pipeline = self.inputs.pipeline
        try:
            whole = check_all_labels(pipeline, self.receipts.values())
        except BuildError:
            self.folder.remove()  # receipts contain labels, and must not contain text
            raise
        with self.asking():
            check_losses(self.inputs, self.outcomes())
        doc_labels = tuple(whole.doc_labels) if pipeline.has_doc_labels else None
        return pipeline.annotate.labels or tuple(whole.labels), doc_labels

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Forget the plan if a check fails, so that the same folder takes the options it names."""
        try:
            yield
        except BuildError:
            self.folder.forget_plan()
            raise

    @contextmanager
    def _forgetting_changed(self) -> Iterator[None]:
        """Forget the plan if an input file has changed, so that the build takes it as it is."""
        try:
            yield
        except scan.ChangedError:
            self.folder.forget_copies()
            self.folder.forget_plan()
            raise

    def _load_plan(self, *, is_part: bool) -> None:
        """Load the plan and the drops of the folder; make the plan if there is none."""
        args = (self._run, self.inputs, self.plan.identity, self.folder)
        self.plan = load_plan(*args, is_part=is_part) or make_plan(*args)
        if self.found is None:
            self.found = self.folder.read_found(Found, self._key())

    def _key(self) -> str:
        """Return what decides the drops, as a digest."""
        units = [(unit.name, unit.digests, unit.prefixes) for unit in self.plan.units]
        return digest_of(self.versions, self.plan.identity, units)

    def _read(self) -> None:
        """Read all units without annotating them, for the hashes of their documents."""
        self._unpack(self.plan.units)
        for _ in self._run(map(ReadUnit, self.plan.units)):
            pass

    def _build(self, units: Sequence[Unit], *, is_alone: bool = True) -> None:
        """Build the units that are not done, and collect the receipts of all.

        Args:
            units: The units.
            is_alone: Whether no other process builds other units. Default: True.
        """
        joined = set()
        if self.found is not None:
            joined = {
                unit.name
                for name, members in self.plan.shards().items()
                if self.folder.joined(name, self.made_of_shard(members))
                for unit in members
            }

        tasks = []
        is_read = self.found is not None
        for unit in units:
            made = self.made(unit)
            receipt = self.folder.receipt(unit.name, made)
            has_rows = receipt is not None and (
                unit.name in joined or self.folder.has_piece(receipt)
            )
            # A unit without hashes would be missing where documents are compared.
            has_hashes = is_read or self.folder.has_hashes(unit.name)
            if receipt is not None and has_rows and has_hashes:
                self.receipts[unit.name] = receipt
            else:
                self.receipts.pop(unit.name, None)
                tasks.append(BuildUnit(unit, made, self._kinds(unit), is_read=is_read))

        # Units that are built again are counted already.
        if not self._now.total:
            self._begin(units)
        copies = self._unpack([task.unit for task in tasks])
        for task, receipt in self._run(tasks, died=_Deaths(self.inputs.pipeline)):
            self.receipts[task.name] = receipt
            copies.subtract(part.path for part in task.unit.parts)
            for part in task.unit.parts if is_alone else ():
                if copies[part.path] == 0:  # below 0 for files that are not unpacked
                    Path(part.path).unlink()
            if self._now.done < self._now.total:
                self._add(task.unit)
                self._progress(self._now)

    def _unpack(self, units: Sequence[Unit]) -> Counter[str]:
        """Unpack the compressed files that units need; return copy -> number of its units."""
        needed = Counter(part.path for unit in units for part in unit.parts)
        unpacks = []
        for path, file in zip(self.inputs.splits_of_paths(), self.plan.files, strict=True):
            copy = str(self.folder.copy(file.copy))
            if file.copy and copy in needed:
                unpacks.append(Unpack(str(path), file.sha256, copy))
        for _ in self._run(unpacks):
            pass
        return Counter({task.into: needed[task.into] for task in unpacks})

    def _kinds(self, unit: Unit) -> bytes:
        return self.found.kinds.get(unit.name, b"") if self.found else b""

    def _find_drops(self) -> Found:
        """Compare the hashes of all units, and ask about texts that are there twice."""
        answers: list[tuple[FindDrops, Found]] = [*self._run([FindDrops(self.plan.units)])]
        ((_, found),) = answers
        with self.asking():
            check_equal_texts(found, self.inputs)
        self.folder.write_found(found, self._key())
        return found

    def _begin(self, units: Sequence[Unit]) -> None:
        """Report the units that are done already."""
        done = [unit for unit in units if unit.name in self.receipts]
        self._now = Progress(
            done=0, total=len(units), bytes_done=0, bytes_total=sum(unit.bytes for unit in units)
        )
        for unit in done:
            self._add(unit)
        self._progress(self._now)

    def _add(self, unit: Unit) -> None:
        counts = self.receipts[unit.name].counts
        self._now = replace(
            self._now,
            done=self._now.done + 1,
            bytes_done=self._now.bytes_done + unit.bytes,
            documents=self._now.documents + counts.read,
            rows=self._now.rows + counts.sequences,
        )


class _Deaths:
    """Decides how a work unit goes on after its process has died."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._skips = pipeline.source.on_crash == "skip"

    def __call__(self, task: BuildUnit, how: str, noted: Any) -> BuildUnit:
        """Return the task to run next; see `engine.Run`.

        A unit runs once more, one document at a time. So the second death names the document.

        Raises:
            BuildError: The process died again.
        """
        if not task.is_careful:
            return task._replace(is_careful=True)
        if noted is None:
            raise death_error(task.name, how)

        number, doc_id, place = noted
        where = f"{plain(place)}: document {plain(doc_id)}"
        if not self._skips:
            raise BuildError(
                f"{where}: a worker process died twice at this document or close to it (the last: "
                f"{how}); remove the document, or set it aside with --set source.on_crash=skip, "
                "and run the same command again"
            )
        LOGGER.warning("%s is set aside, as a worker process died at it (%s)", where, how)
        return task._replace(fatal=(*task.fatal, number))


def _reads_first(pipeline: Pipeline) -> bool:
    """Return whether all units are read before one is annotated."""
    drops = bool(pipeline.source.decontaminate) or looks_for_copies(pipeline)
    return drops or make_annotator(pipeline).slow

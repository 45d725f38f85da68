"""A run's folder: what was asked for, what happened, and enough to go on.

run.json          config, versions, seed, data fingerprint; how it ended
metrics.jsonl     one line an epoch, numbers that depend on nothing but the run itself: equal runs, equal files
timing.jsonl      what took how long: differs from run to run
findings.json     what the doctor said
tokenizer.json    and other texts that belong to how rows are read, where there are any
checkpoints/      see `leadline.engine.checkpoint`
figures/, report.html
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from leadline.engine.files import replace_bytes, replace_json
from leadline.errors import RunError

try:
    import fcntl
except ImportError:  # not on Windows, where two processes on one run are not told apart
    fcntl = None  # type: ignore[assignment]

SCHEMA = 1


class Record:
    """The files of one run. `create` makes a new folder, `open` reads one that exists."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self._lock: IO[str] | None = None
        self._identity: str | None = None

    @classmethod
    def create(cls, folder: str | Path, config: dict[str, Any], attached: Mapping[str, str] | None = None) -> Record:
        """A new run folder; one that exists and holds anything is never touched.

        Args:
            attached: texts that belong to the inputs, by the names of their files.
        """
        cls.check_free(folder)
        record = cls(Path(folder))
        with record.writing():
            record.checkpoints.mkdir(parents=True, exist_ok=True)
            for name, text in (attached or {}).items():
                replace_bytes(record.folder / name, text.encode())
            replace_json(record.folder / "run.json", {"schema": SCHEMA, **config})
        return record

    @staticmethod
    def check_free(folder: str | Path) -> None:
        """Refuse a folder that holds anything."""
        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            do = f"Continue it with `leadline resume {folder}`" if (folder / "run.json").exists() else "Move it away"
            raise RunError(
                "the folder of a run must be new",
                got=f"{folder}, which exists",
                do=f"{do}, or name another with --folder",
            )

    @classmethod
    def open(cls, folder: str | Path) -> Record:
        """The record of an existing run."""
        record = cls(Path(folder))
        schema = record.config.get("schema")
        if schema != SCHEMA:
            raise RunError(
                f"a run must be of schema {SCHEMA}",
                got=f"{folder} of schema {schema}",
                do="Use the version of leadline that wrote it, named in its run.json",
            )
        return record

    @property
    def config(self) -> dict[str, Any]:
        """The content of run.json."""
        path = self.folder / "run.json"
        try:
            return json.loads(path.read_text())
        except OSError:
            raise RunError(
                "a run folder must hold run.json",
                got=f"{self.folder}" + ("" if self.folder.exists() else ", which does not exist"),
                do="`leadline list runs` shows the runs that there are",
            ) from None
        except ValueError:
            raise RunError("run.json must be JSON", got=f"damaged {path}", do="Restore it from a copy") from None

    @property
    def identity(self) -> str:
        """A hash of what decides the run: model, data, likelihood, settings. Checkpoints carry it."""
        if self._identity is None:
            config = self.config
            parts = [config.get(name) for name in ("model", "data", "likelihood", "settings", "rule")]
            self._identity = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
        return self._identity

    def attached(self) -> dict[str, str]:
        """The texts that belong to the inputs, by the arguments that they are."""
        found = {}
        for name in self.config["data"]["inputs"].get("attached", ()):
            path = self.folder / Path(name).name
            try:
                found[name.partition(".")[0]] = path.read_text(encoding="utf-8")
            except (OSError, ValueError):
                must = f"a run must keep its {name}"
                raise RunError(must, got=f"none that can be read: {path}", do="Restore it") from None
        return found

    def update(self, **changes: Any) -> None:
        """Replace some entries of run.json."""
        with self.writing():
            replace_json(self.folder / "run.json", {**self.config, **changes})

    def lock(self) -> None:
        """Keep other processes from training this run, until this one ends or `unlock` is called."""
        if fcntl is None or self._lock is not None:
            return
        with self.writing():
            handle = open(self.folder / ".lock", "w")  # noqa: SIM115 - it stays open for as long as the lock is held
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            raise RunError(
                "a run must be trained by one process at a time",
                got=f"{self.folder}, which another process is training",
                do="Wait until it ends, or stop it first",
            ) from None
        self._lock = handle

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            (self.folder / ".lock").unlink(missing_ok=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn what the file system refuses into a message that says what is safe and how to go on."""
        try:
            yield
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            must = "the disk must have room for the run" if full else "the run's folder must be writable"
            there = sorted(self.checkpoints.glob("step-*")) if self.checkpoints.is_dir() else []
            do = "Free some space" if full else "Choose a folder that you may write to, with --folder"
            if there:
                do += f"; nothing up to {there[-1].name} is lost: then run `leadline resume {self.folder}`"
            raise RunError(must, got=f"{error.strerror} at {error.filename or self.folder}", do=do) from None

    def append(self, name: str, line: dict[str, Any]) -> None:
        """Add one line to a .jsonl file. It survives a kill at once, a power cut after `sync`."""
        with self.writing(), open(self.folder / name, "a") as file:
            file.write(json.dumps(_finite(line)) + "\n")

    def sync(self, name: str) -> None:
        """Put a file's lines through to the disk."""
        path = self.folder / name
        if path.exists():
            with self.writing(), open(path, "rb") as file:
                os.fsync(file.fileno())

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a .jsonl file; one that a kill cut short is left out."""
        path = self.folder / name
        found = []
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def cut(self, name: str, step: int) -> list[dict[str, Any]]:
        """Forget the lines after `step`: a resumed run writes them again. The lines that stay."""
        kept = [line for line in self.lines(name) if line["step"] <= step]
        with self.writing():
            replace_bytes(self.folder / name, "".join(json.dumps(line) + "\n" for line in kept).encode())
        return kept

    def write_findings(self, findings: list[dict[str, Any]]) -> None:
        with self.writing():
            replace_json(self.folder / "findings.json", findings)

    def findings(self) -> list[dict[str, Any]]:
        path = self.folder / "findings.json"
        return json.loads(path.read_text()) if path.exists() else []


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is not finite becomes null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value

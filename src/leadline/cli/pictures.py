"""Pictures of one's own through a trained run: a table of classes or numbers, or masks, boxes and points drawn.

What the network says lies in the picture as it read it, at one size; it is brought back to each file's own size.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from leadline.cli.screen import Screen
from leadline.data.account import counted
from leadline.data.decode import Placement, Unreadable, coloured, decoded, hushed, mapped, upright
from leadline.data.folder import survey
from leadline.data.pairs import pairs_of
from leadline.data.pictures import Pictures
from leadline.data.table import ENDINGS
from leadline.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

    from leadline.run import Run

_AT_ONCE = 64
_NAMED = 5  # refused files that are named
_SEEN = 0.1  # height of a heat map's peak from which on a point is drawn


@dataclass(frozen=True, eq=False)
class Read:
    """A file as the network reads it, and its picture at its own size, where that is needed."""

    path: Path
    x: np.ndarray
    image: Image | None


def files_of(what: str) -> tuple[Path, list[Path]]:
    """The folder that names are relative to, and the pictures in it; or a picture and its folder."""
    path = Path(what).expanduser()
    if path.is_dir():
        known = survey(path)
        masks = set(pairs_of(known.pictures).masks)  # beside pictures: what is known of them
        found = [known.root / name for name in known.pictures if name not in masks]
        return path.absolute(), found or Pictures.paths(path)
    if not path.is_file():
        raise DataError("there must be a picture or a folder of pictures", got=what, do="Check the path")
    return path.absolute().parent, [path.absolute()]


def read(files: list[Path], inputs: Pictures, whole: bool, refused: dict[Path, str]) -> Iterator[list[Read]]:
    """The pictures, some at a time; what cannot be read is entered in `refused`."""

    def one(path: Path) -> Read | None:
        try:
            x = decoded(path, inputs.size, inputs.channels, inputs.fit)
            return Read(path, x, coloured(upright(path), 3) if whole else None)
        except Unreadable as error:
            refused[path] = str(error)
            return None

    with hushed():
        for start in range(0, len(files), _AT_ONCE):
            found = [each for each in mapped(one, files[start : start + _AT_ONCE]) if each is not None]
            if found:
                yield found


def predict(trained: Run, what: str, output: str | None, level: float | None, screen: Screen) -> int:
    """Predict pictures; a table goes to `output` or is printed, drawings go to a folder."""
    root, files = files_of(what)
    refused: dict[Path, str] = {}
    drawing = trained.target.spatial
    folder = Path(output) if output else Path(trained.folder or ".") / "predicted"
    if drawing and folder.suffix.lower() in ENDINGS:
        raise DataError("--output must be a folder, because pictures are drawn", got=output or "", do="Name a folder")
    stems = Counter(path.with_suffix("") for path in files)
    rows: list[dict[str, Any]] = []
    count = 0
    for part in read(files, cast(Pictures, trained.inputs), drawing, refused):
        prediction = trained.predict(torch.from_numpy(np.stack([each.x for each in part])))
        names = [each.path.relative_to(root).as_posix() for each in part]
        count += len(part)
        if drawing:
            pngs = [Path(f"{n}.png" if stems[e.path.with_suffix("")] > 1 else n) for e, n in zip(part, names)]
            rows += _drawn(trained, part, names, [png.with_suffix(".png") for png in pngs], prediction, folder)
        else:
            rows += _told(trained, names, prediction, level)
    if not count:
        raise DataError(
            "there must be a picture that can be read", got=_refusals(refused, root), do="Repair or replace the files"
        )
    where = _written(rows, folder / f"{trained.target.kind}.csv" if drawing else output, screen)
    said = f"{counted(count, 'picture')} predicted" + (f": {folder if drawing else where}" if where else "")
    said += f"; {_refusals(refused, root)}" if refused else ""
    screen.say(said)
    screen.answer(
        {
            "rows": count,
            "output": str(folder) if drawing else output,
            "columns": list(rows[0]) if rows else [],
            "refused": {path.relative_to(root).as_posix(): reason for path, reason in sorted(refused.items())},
        }
    )
    return 0


def _refusals(refused: dict[Path, str], root: Path) -> str:
    some = [f"{path.relative_to(root)} ({reason})" for path, reason in sorted(refused.items())[:_NAMED]]
    more = ", …" if len(refused) > _NAMED else ""
    return f"{counted(len(refused), 'file')} refused: {', '.join(some)}{more}"


def _told(trained: Run, names: list[str], prediction: Any, level: float | None) -> list[dict[str, Any]]:
    from leadline.cli.predict import class_columns, number_columns

    target = trained.target
    columns = class_columns(prediction, target, level) if target.discrete else number_columns(prediction, level)
    return [dict(zip(("file", *columns), row, strict=True)) for row in zip(names, *columns.values(), strict=True)]


def _drawn(
    trained: Run, part: list[Read], names: list[str], pngs: list[Path], prediction: Any, folder: Path
) -> list[dict[str, Any]]:
    """Write the pictures with what was found drawn on them; a line of the table for each thing found."""
    from leadline.report.pictures import drawn

    kind, classes = trained.target.kind, trained.target.classes
    found = {"pixels": _masks, "boxes": _boxes, "points": _points}[kind](prediction)
    rows = []
    for each, name, png, said in zip(part, names, pngs, found, strict=True):
        pixels = np.asarray(each.image)  # (Y, X, 3)
        view = _View(cast(Pictures, trained.inputs), pixels.shape[1::-1])
        answer, scores, told = said(view, classes)
        own = torch.from_numpy(pixels.copy()).permute(2, 0, 1)
        _save(drawn(own, answer, kind, classes, scores), folder / png)
        if kind == "pixels":
            from PIL import Image

            _save(Image.fromarray(answer.numpy().astype(np.uint8)), folder / "masks" / png)
        rows += [{"file": name, **line} for line in told]
    return rows


@dataclass(frozen=True)
class _View:
    """How a file's picture and what the network read of it lie over each other.

    Args:
        wide: columns and rows of the file.
    """

    inputs: Pictures
    wide: tuple[int, int]

    @property
    def at(self) -> Placement:
        return Placement.of(self.inputs.fit, self.wide, self.inputs.size)

    def back(self, relative: Tensor) -> Tensor:
        """Points (K, 2) or boxes (K, 4), relative to what the network read, relative to the file's own picture."""
        at, (rows, columns) = self.at, self.inputs.size
        there, own = (torch.tensor(pair, dtype=torch.float64) for pair in ((columns, rows), self.wide))
        scale, shift = (torch.tensor(pair, dtype=torch.float64) for pair in ((at.a, at.b), (at.s, at.t)))
        relative = relative.double().cpu()
        centre = (relative[:, :2] * there - shift) / scale / own
        return centre if relative.shape[1] == 2 else torch.cat([centre, relative[:, 2:] * there / scale / own], 1)

    def codes(self, codes: Tensor) -> Tensor:
        """Codes of pixels as the network read them, for the pixels of the file; 255 where it read nothing."""
        at, size = self.at, self.inputs.size
        whole = torch.full(size, 255, dtype=torch.uint8)
        top, left = ((own - found) // 2 for own, found in zip(size, codes.shape, strict=True))
        whole[top : top + codes.shape[0], left : left + codes.shape[1]] = codes.cpu().to(torch.uint8)
        column = ((torch.arange(self.wide[0]) + 0.5) * at.a + at.s).floor().long()
        row = ((torch.arange(self.wide[1]) + 0.5) * at.b + at.t).floor().long()
        inside = ((row >= 0) & (row < size[0]))[:, None] & ((column >= 0) & (column < size[1]))
        found = whole[row.clamp(0, size[0] - 1)][:, column.clamp(0, size[1] - 1)]
        return torch.where(inside, found, 255)


#: in a picture: what is drawn, in the form of a row of y; scores to write beside it; a line for each thing
Said = Callable[[_View, Sequence[str]], tuple[Tensor, list[float], list[dict[str, Any]]]]


def _masks(prediction: Any) -> Iterator[Said]:
    for mode in prediction.mode:

        def said(view: _View, classes: Sequence[str], mode: Tensor = mode) -> Any:
            codes = view.codes(mode)
            shares = torch.bincount(codes[codes < 255].flatten().long(), minlength=len(classes)) / codes.numel()
            line = {f"share({name})": f"{share:.4g}" for name, share in zip(classes, shares.tolist(), strict=True)}
            return codes, [], [line]

        yield said


def _boxes(prediction: Any) -> Iterator[Said]:
    for found in prediction.detections():

        def said(view: _View, classes: Sequence[str], found: Any = found) -> Any:
            boxes = view.back(found.boxes)
            low, high = (boxes[:, :2] + sign * boxes[:, 2:] / 2 for sign in (-1, 1))
            low, high = low.clamp(0, 1), high.clamp(0, 1)  # what leaves the picture is not told
            answer = torch.cat([found.codes.double().cpu()[:, None], (low + high) / 2, high - low], 1)
            wide = torch.tensor(view.wide, dtype=torch.float64)
            corners = torch.cat([low * wide, (high - low) * wide], 1).tolist()
            lines = [
                {"class": classes[int(code)], "score": f"{score:.4f}"}
                | {name: f"{value:.1f}" for name, value in zip(("left", "top", "width", "height"), corner, strict=True)}
                for code, score, corner in zip(found.codes.tolist(), found.scores.tolist(), corners, strict=True)
            ]
            return answer, found.scores.tolist(), lines

        yield said


def _points(prediction: Any) -> Iterator[Said]:
    for points, scores in zip(prediction.points, prediction.scores.double().cpu(), strict=True):

        def said(view: _View, classes: Sequence[str], points: Tensor = points, scores: Tensor = scores) -> Any:
            own = view.back(points)
            lines = [
                {"point": name, "score": f"{score:.4f}", "x": f"{x * view.wide[0]:.1f}", "y": f"{y * view.wide[1]:.1f}"}
                for name, score, (x, y) in zip(classes, scores.tolist(), own.tolist(), strict=True)
            ]
            return torch.cat([own, (scores > _SEEN)[:, None].double()], 1), [], lines

        yield said


def _save(image: Image, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    except OSError as error:
        raise DataError(
            "--output must be a folder that can be written to",
            got=f"{path} ({error.strerror or error})",
            do="Name a folder in a place that exists and has room",
        ) from None


def _written(rows: list[dict[str, Any]], path: str | Path | None, screen: Screen) -> str:
    """The table in its file, or printed; the file's name."""
    from leadline.cli.predict import printed, write

    heads = list(dict.fromkeys(name for row in rows for name in row)) or ["file"]
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if path is None:
        printed(text.getvalue(), screen)
        screen.aside()
        return ""
    write(Path(path), text.getvalue())
    return str(path)

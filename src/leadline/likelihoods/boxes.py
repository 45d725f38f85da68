"""Boxes: y is a list of objects, each a class and a box, found in one look at a grid of cells (Redmon et al., 2016).

    x = (i + 2 σ(t_x) - ½) / X,     y = (j + 2 σ(t_y) - ½) / Y                                (1)   centre
    w = σ(t_w + b_a)²,              h = σ(t_h + b_a)²,        b_a = logit(a / (A + 1))        (2)   size
    p(object) = σ(t_o),             p(c | object) = softmax(class scores of the cell)         (3)
    score     = p(object) max_c p(c | object)                                                 (4)

An object belongs to the cell of its centre, and there to the predictor whose box overlaps it most. Where a cell has
several objects, the pair of largest overlap is joined first, then the best of the rest; beyond A they are left over.

    loss = Σ_objects [ λ (1 - GIoU + |Δx| + |Δy| + |Δ√w| + |Δ√h|) - log p(object) - log p(c | object) ]
           - λ_0 Σ_predictors without an object log(1 - p(object))                            (5)

Notation   (i, j) -> column and row of the cell;  a = 1 … A -> predictor;  λ -> coordinate;  λ_0 -> no_object
Paper      squares of x, y, √w, √h there, and of the confidence, which is to become the IoU; here GIoU with absolute
           differences, and cross-entropies. (1) reaches half a cell beyond its own; (2) starts each predictor with a
           size of its own. What is left of x, y, w, h is relative to the picture.
Shapes     output (B, 5 A + C, Y, X): A times (t_x, t_y, t_w, t_h, t_o), then C class scores;
           y (B, M, 5) of (code, x, y, w, h), code -1 where there is no more object
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError
from leadline.likelihoods.average_precision import mean_average_precision, tallied
from leadline.likelihoods.likelihood import Likelihood, full
from leadline.likelihoods.margin import Undistributed, no_density
from leadline.likelihoods.overlap import giou, iou, suppress
from leadline.likelihoods.values import names_of
from leadline.settings import real, whole

MOST = 100  # detections of a picture that are scored
_CONSIDERED = 400  # predictors of a picture that suppression looks at
_FAINT = 0.001  # score from which on a detection is scored
_WHAT = "the loss of boxes"
_INSTEAD = "Use detections(), whose scores rank the boxes"


class Boxes(Likelihood):
    """Args:
        num_classes: C, at least 1.
        num_boxes: boxes A that a cell may propose, at least 1.
        coordinate: weight λ of the places in the loss, above 0.
        no_object: weight λ_0 of cells in which nothing is, above 0.
        names: of the classes; 0, 1 … where they are left out.

    >>> boxes = Boxes(3, num_boxes=2)
    >>> boxes.dim_output
    13
    >>> y = torch.tensor([[[2, 0.5, 0.5, 0.2, 0.3], [-1, 0, 0, 0, 0]]])
    >>> boxes.loss(torch.zeros(1, 13, 7, 7), y).shape
    torch.Size([1])
    """

    headline = "map50"
    higher_is_better = True
    has_density = False
    kinds = ("boxes",)

    def __init__(
        self,
        num_classes: int,
        num_boxes: int = 2,
        coordinate: float = 5.0,
        no_object: float = 0.5,
        names: Sequence[str] = (),
    ):
        super().__init__()
        self.num_classes, self.num_boxes = whole("num_classes", num_classes), whole("num_boxes", num_boxes)
        self.coordinate = real("coordinate", coordinate, 0, above=True, usual=5.0)
        self.no_object = real("no_object", no_object, 0, above=True, usual=0.5)
        self.names = names_of(names or range(num_classes), num_classes)  # type: ignore[arg-type]
        self.dim_output = 5 * num_boxes + num_classes

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Boxes:
        return cls(len(target.classes), names=target.classes, **options)

    def distribution(self, output: Tensor) -> NoReturn:
        raise no_density(_WHAT, "distribution", _INSTEAD)

    def places(self, output: Tensor) -> Places:
        """What the output says, one row for each predictor of each cell."""
        B, _, Y, X = output.shape
        A = self.num_boxes
        boxes, classes = full(output).split([5 * A, self.num_classes], 1)
        t = boxes.reshape(B, A, 5, Y * X).permute(0, 3, 1, 2).flatten(1, 2)  # (B, YXA, 5)
        column = torch.arange(X, device=t.device).repeat(Y).repeat_interleave(A)  # of each predictor's cell
        row = torch.arange(Y, device=t.device).repeat_interleave(X * A)
        a = torch.arange(1, A + 1, dtype=t.dtype, device=t.device)
        b = (a / (A + 1 - a)).log().repeat(Y * X)[:, None]
        offset = 2 * t[..., :2].sigmoid() - 0.5
        centre = torch.stack([(column + offset[..., 0]) / X, (row + offset[..., 1]) / Y], -1)  # eq. 1
        root = (t[..., 2:4] + b).sigmoid()  # eq. 2: of the size
        return Places(centre, root, t[..., 4], classes.flatten(2).transpose(1, 2), (Y, X))

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        said = self.places(output)
        y = y.to(said.centre.dtype)
        there, code, box = y[..., 0] >= 0, y[..., 0].clamp(min=0).long(), _filled(y)
        cell = said.cell_of(box)
        slot, has = self._assigned(said, cell, box, there)
        centre, root, confidence = (_at(t, slot) for t in (said.centre, said.root, said.confidence[..., None]))
        near = 1 - giou(torch.cat([centre, root.square()], -1), box)
        off = (centre - box[..., :2]).abs().sum(-1) + (root - box[..., 2:].sqrt()).abs().sum(-1)
        classes = _at(said.classes, cell).log_softmax(-1)
        wrong = -classes.gather(-1, code[..., None]).squeeze(-1)
        each = self.coordinate * (near + off) + F.softplus(-confidence.squeeze(-1)) + wrong
        nowhere = said.confidence.shape[1]  # a place after the last, for objects that no predictor has
        taken = said.confidence.new_zeros(len(y), nowhere + 1)
        taken = taken.scatter(1, torch.where(has, slot, nowhere), 1.0)[:, :nowhere]
        empty = ((1 - taken) * F.softplus(said.confidence)).sum(1)
        return torch.where(has, each, 0).sum(1) + self.no_object * empty  # eq. 5

    @torch.no_grad()
    def _assigned(self, said: Places, cell: Tensor, box: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        """The predictor of each object, (B, M), and whether it has one: a round for each predictor of a cell."""
        A, predictors = self.num_boxes, torch.arange(self.num_boxes, device=cell.device)
        slots = cell[..., None] * A + predictors  # (B, M, A)
        own = torch.cat([_at(said.centre, slots.flatten(1)), _at(said.root, slots.flatten(1)).square()], -1)
        overlap = iou(own.view(*slots.shape, 4), box[:, :, None])
        same = (cell[:, :, None] == cell[:, None]) & there[:, None]  # (B, M, M): other objects of the cell
        earlier = torch.ones_like(same).tril(-1)  # [m, n]: n before m
        choice, waits = torch.zeros_like(cell), there
        for _ in range(A):
            most, wish = overlap.max(-1)  # (B, M)
            ahead = (most[:, None] > most[:, :, None]) | ((most[:, None] == most[:, :, None]) & earlier)
            won = waits & (most >= 0) & ~(same & waits[:, None] & ahead).any(-1)
            choice, waits = torch.where(won, wish, choice), waits & ~won
            given = (wish[..., None] == predictors) & won[..., None]
            taken = (same[..., None] & given[:, None]).any(2)  # (B, M, A)
            overlap = overlap.masked_fill(taken, -1.0)
        return cell * A + choice, there & ~waits

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        said = self.places(output)
        y = y.to(said.centre.dtype)
        there, box = y[..., 0] >= 0, _filled(y)
        _, has = self._assigned(said, said.cell_of(box), box, there)
        return {"loss": self.loss(output, y), "left_over": (there & ~has).sum(1).to(said.centre.dtype)}

    @torch.no_grad()
    def tallies(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        boxes, scores, codes = self.prediction(output).padded(_FAINT, 0.5, MOST)
        return tallied(boxes, scores, codes, y, self.num_classes)

    def overall(self, tallies: dict[str, Tensor]) -> dict[str, float]:
        return mean_average_precision(tallies)

    def prediction(self, output: Tensor) -> BoxesPrediction:
        said = self.places(output)
        p, codes = said.classes.softmax(-1).max(-1)  # (B, YX)
        A = self.num_boxes
        scores = said.confidence.sigmoid() * p.repeat_interleave(A, 1)  # eq. 4
        boxes = torch.cat([said.centre, said.root.square()], -1)
        return BoxesPrediction(boxes, scores, codes.repeat_interleave(A, 1)).named(self.names)

    def check(self, y: Tensor) -> None:
        if y.dim() != 3 or y.shape[2] != 5:
            raise ShapeError(
                "boxes must have shape (n, most boxes of a picture, 5)",
                got=f"y of shape {tuple(y.shape)}",
                do="Pass (code, x, y, width, height) of each box, code -1 where there are no more",
            )
        if not y.is_floating_point():
            raise DataError("boxes must be floating-point numbers", got=f"y of type {y.dtype}", do="Pass y.float()")
        code, centre, size = y[..., 0], y[..., 1:3], y[..., 3:]
        known = (code == code.round()) & (code >= -1) & (code < self.num_classes)
        inside = ((centre >= 0) & (centre <= 1) & (size > 0) & (size <= 1)).all(-1) | (code == -1)
        for fits, must, do in (
            (known, f"class codes of boxes must lie in 0 … {self.num_classes - 1}, or be -1 for no box", "Recode them"),
            (inside, "boxes must be given relative to the picture, centre and size", "Divide by its width and height"),
        ):
            if not bool(fits.all()):
                row, place = (~fits).nonzero()[0].tolist()
                values = ", ".join(f"{value:g}" for value in y[row, place].tolist())
                raise DataError(must, got=f"{int((~fits).sum())} others, the first ({values}) in picture {row}", do=do)

    def check_output(self, output: Tensor, y: Tensor) -> None:
        if output.dim() != 4 or output.shape[:2] != (len(y), self.dim_output):
            raise ShapeError(
                f"Boxes needs {self.dim_output} outputs for each cell of a grid",
                got=f"model output of shape {tuple(output.shape)} for {len(y)} pictures",
                do=f"Take a model that answers for a grid, such as GridDetector, with dim_output={self.dim_output}",
            )


@dataclass(frozen=True)
class Places:
    """What a network says of every place where a box can be; root is (√w, √h).

    Args:
        centre, root, confidence: (B, YXA, 2), (B, YXA, 2) and (B, YXA), of each predictor, cell by cell.
        classes: (B, YX, C), scores of each cell.
        grid: rows and columns of cells.
    """

    centre: Tensor
    root: Tensor
    confidence: Tensor
    classes: Tensor
    grid: tuple[int, int]

    def cell_of(self, box: Tensor) -> Tensor:
        """The cell that holds the centre of each box."""
        Y, X = self.grid
        column, row = (box[..., k].mul(n).long().clamp(0, n - 1) for k, n in ((0, X), (1, Y)))
        return row * X + column


def _filled(y: Tensor) -> Tensor:
    """The boxes of y, with half of the picture where there is none, since of nothing there is no slope."""
    return torch.where(y[..., :1] >= 0, y[..., 1:], 0.5)


def _at(t: Tensor, index: Tensor) -> Tensor:
    """Rows of t (B, K, D) at index (B, M)."""
    return t.gather(1, index[..., None].expand(-1, -1, t.shape[-1]))


@dataclass(frozen=True)
class Detections:
    """The objects of one picture, the best score first.

    Args:
        boxes: (K, 4), centre and size relative to the picture.
        scores, codes: (K,) both.
    """

    boxes: Tensor
    scores: Tensor
    codes: Tensor

    def __len__(self) -> int:
        return len(self.scores)


class BoxesPrediction(Undistributed):
    """Boxes of each picture with a score and a class.

    Args:
        boxes, scores, codes: (B, K, 4), (B, K) and (B, K), of all predictors.
    """

    def __init__(self, boxes: Tensor, scores: Tensor, codes: Tensor):
        super().__init__(_WHAT, _INSTEAD)
        self.boxes, self.scores, self.codes = boxes, scores, codes

    @property
    def mode(self) -> Tensor:
        """The detections in the form of y, (B, K, 5), code -1 where there are no more."""
        boxes, _, codes = self.padded()
        most = max(int((codes >= 0).sum(1).max()), 1) if len(codes) else 1
        return torch.cat([codes[..., None].to(boxes.dtype), boxes], -1)[:, :most]

    def detections(self, confidence: float = 0.25, overlap: float = 0.5, most: int = MOST) -> list[Detections]:
        """The boxes of each picture that stay after non-maximum suppression.

        Args:
            confidence: least score.
            overlap: largest IoU of two boxes of one class.
            most: largest number for a picture.

        >>> output = torch.full((1, 6, 2, 2), -9.0)
        >>> output[0, :5, 0, 1] = torch.tensor([0.0, 0.0, 0.0, 0.0, 9.0])
        >>> (found,) = Boxes(1, num_boxes=1).prediction(output).detections()
        >>> found.boxes, found.codes
        (tensor([[0.7500, 0.2500, 0.2500, 0.2500]]), tensor([0]))
        """
        boxes, scores, codes = self.padded(confidence, overlap, most)
        counts = (codes >= 0).sum(1).tolist()
        each = zip(boxes, scores, codes, counts, strict=True)
        return [Detections(b[:count], s[:count], c[:count]) for b, s, c, count in each]

    def padded(self, confidence: float = 0.25, overlap: float = 0.5, most: int = MOST) -> tuple[Tensor, Tensor, Tensor]:
        """The detections of all pictures: boxes (B, most, 4), scores and codes (B, most), code -1 where no more are."""
        whole("most", most)
        scores, order = self.scores.sort(dim=1, descending=True, stable=True)
        scores, order = scores[:, : max(_CONSIDERED, most)], order[:, : max(_CONSIDERED, most)]
        boxes, codes = _at(self.boxes, order), self.codes.gather(1, order)
        stays = suppress(boxes, codes, overlap) & (scores >= confidence)
        order = (~stays).long().sort(dim=1, stable=True).indices[:, :most]  # those that stay, in their order
        boxes, (scores, codes, stays) = _at(boxes, order), (t.gather(1, order) for t in (scores, codes, stays))
        return (
            _widened(torch.where(stays[..., None], boxes, 0), most, 0),
            _widened(torch.where(stays, scores, 0), most, 0),
            _widened(torch.where(stays, codes, -1), most, -1),
        )

    def __len__(self) -> int:
        return len(self.scores)


def _widened(t: Tensor, count: int, value: float) -> Tensor:
    """t with `count` places along its axis 1."""
    more = t.new_full((len(t), count - t.shape[1], *t.shape[2:]), value)
    return torch.cat([t, more], 1)

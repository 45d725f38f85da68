"""Average precision against COCO's own program and against loops."""

import contextlib
import io

import numpy as np
import pytest
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from leadline.likelihoods.average_precision import (
    THRESHOLDS,
    average_precision,
    matches,
    mean_average_precision,
    tallied,
)
from leadline.reference import boxes as twin


def scene(seed, pictures=12, most=6, detections=25, classes=4, ties=False):
    """Truths, and detections that lie about them: some close, some of another class, some anywhere."""
    rng = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(*shape, generator=rng, dtype=torch.float64)  # noqa: E731
    truth = torch.cat([draw(pictures, most, 2), 0.1 + 0.3 * draw(pictures, most, 2)], -1)
    code = torch.randint(-1, classes - 1, (pictures, most), generator=rng)  # the last class is never there
    pick = torch.randint(most, (pictures, detections), generator=rng)
    boxes = truth.gather(1, pick[..., None].expand(-1, -1, 4)) + 0.08 * (draw(pictures, detections, 4) - 0.5)
    codes = code.gather(1, pick)
    codes = torch.where(draw(pictures, detections) < 0.2, torch.randint(classes, codes.shape, generator=rng), codes)
    codes[:, 20:] = -1
    scores = draw(pictures, detections).float()
    scores = (scores * 8).round() / 8 if ties else scores
    scores = torch.where(codes >= 0, scores, 0).sort(dim=1, descending=True, stable=True).values
    return boxes.float(), scores, codes, torch.cat([code[..., None].double(), truth], -1).float(), classes


def by_coco(boxes, scores, codes, truth, classes):
    """Average precision by threshold and class, -1 where a class is nowhere."""
    corner = lambda b: [float(b[0] - b[2] / 2), float(b[1] - b[3] / 2), float(b[2]), float(b[3])]  # noqa: E731
    annotations, results = [], []
    for picture in range(len(truth)):
        for code, *box in truth[picture].double().tolist():
            if code >= 0:
                area = {"area": box[2] * box[3], "iscrowd": 0, "id": len(annotations) + 1}
                annotations.append({"image_id": picture, "category_id": int(code), "bbox": corner(box), **area})
        rows = zip(boxes[picture].double().tolist(), scores[picture].tolist(), codes[picture].tolist(), strict=True)
        for box, score, code in rows:
            if code >= 0:
                results.append({"image_id": picture, "category_id": code, "bbox": corner(box), "score": score})
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "info": {},
            "images": [{"id": picture} for picture in range(len(truth))],
            "categories": [{"id": code} for code in range(classes)],
            "annotations": annotations,
        }
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.eval["precision"][:, :, :, 0, 2].mean(1), evaluation.stats


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_coco_counts(seed, ties):
    rows = scene(seed, ties=ties)
    tallies = tallied(*rows)
    table, stats = by_coco(*rows)
    ours = average_precision(tallies)
    np.testing.assert_allclose(np.nan_to_num(ours, nan=-1.0), table, atol=1e-9)
    assert np.isnan(ours[:, -1]).all()  # the class without truth
    found = mean_average_precision(tallies)
    assert found["map50"] == pytest.approx(stats[1], abs=1e-9)
    assert found["map"] == pytest.approx(stats[0], abs=1e-9)
    assert 0.02 < found["map"] < found["map50"] < 0.98


def test_it_is_what_loops_count():
    boxes, scores, codes, truth, classes = scene(11)
    ours = average_precision(tallied(boxes, scores, codes, truth, classes))
    for t in (0, 4, 8):
        for code in range(classes - 1):
            rows, count = [], 0
            for picture in range(len(boxes)):
                own = (codes[picture] == code).nonzero().flatten()
                there = [row[1:] for row in truth[picture].double().tolist() if row[0] == code]
                right = twin.matched(boxes[picture, own].double().tolist(), there, THRESHOLDS[t])
                rows += list(zip((-scores[picture, own]).tolist(), right, strict=True))
                count += len(there)
            right = [hit for _, hit in sorted(rows, key=lambda row: row[0])]
            assert ours[t, code] == pytest.approx(twin.average_precision(right, count), abs=1e-12)


def test_batches_of_pictures_may_be_joined_in_any_cut():
    rows = scene(5)
    whole = mean_average_precision(tallied(*rows))
    parts = [tallied(*(t[cut] for t in rows[:4]), rows[4]) for cut in (slice(0, 5), slice(5, 12))]
    assert mean_average_precision({k: torch.cat([part[k] for part in parts]) for k in parts[0]}) == whole


def test_of_two_detections_of_one_object_the_second_is_wrong():
    boxes = torch.tensor([[[0.5, 0.5, 0.4, 0.4], [0.5, 0.5, 0.42, 0.42], [0.5, 0.5, 0.4, 0.4]]])
    truth = torch.tensor([[[1.0, 0.5, 0.5, 0.4, 0.4], [-1.0, 0.5, 0.5, 0.4, 0.4]]])
    assert matches(boxes, torch.tensor([[0, 1, 1]]), truth)[0, :, 0].tolist() == [False, True, False]
    assert matches(boxes, torch.tensor([[0, 1, 1]]), truth)[0, :, -1].tolist() == [False, False, True]  # IoU 0.907


def test_nothing_found_is_zero_and_nothing_to_find_is_no_number():
    boxes, scores, codes = torch.zeros(2, 3, 4), torch.zeros(2, 3), torch.full((2, 3), -1)
    truth = torch.tensor([[[0.0, 0.5, 0.5, 0.4, 0.4]]]).repeat(2, 1, 1)
    assert mean_average_precision(tallied(boxes, scores, codes, truth, 2)) == {"map50": 0.0, "map": 0.0}
    truth[..., 0] = -1
    assert np.isnan(list(mean_average_precision(tallied(boxes, scores, codes, truth, 2)).values())).all()
    assert not bool(matches(boxes, codes, truth[:, :0]).any())

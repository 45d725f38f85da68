"""Words by which folders of pictures are called: splits, pictures, masks."""

from __future__ import annotations

#: folders that name a split, in lower case
SPLITS = {
    **dict.fromkeys(("train", "training", "trn", "train2017", "train2014"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev", "val2017", "val2014"), "val"),
    **dict.fromkeys(("test", "testing", "tst", "test2017"), "test"),
}
#: folders that hold pictures beside one that holds what is known of them
BESIDE = ("images", "image", "imgs", "img", "jpegimages", "pictures", "photos")
MASKS = ("masks", "mask", "labels", "annotations", "segmentation", "segmentations", "segmentationclass", "trimaps")
#: what the name of a split or of a folder of pictures has more, where it is a folder of masks
MASKS_OF = ("_labels", "_label", "_masks", "_mask", "_annotations", "_annot")


def split_of(name: str) -> str:
    """The split that a path names by one of its folders, "" for none; the outermost counts.

    >>> split_of("images/train2017/1.jpg"), split_of("cats/1.jpg"), split_of("Test/cat/1.jpg")
    ('train', '', 'test')
    """
    return next((SPLITS[part] for part in name.lower().split("/")[:-1] if part in SPLITS), "")

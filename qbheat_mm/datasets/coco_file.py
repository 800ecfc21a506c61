# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Records of an annotation file in COCO format, with their types."""
from typing import Annotated, Any

import msgspec

_Length = Annotated[int, msgspec.Meta(ge=1)]
_NotEmpty = msgspec.Meta(min_length=1)


class Record(msgspec.Struct, kw_only=True, gc=False):
    """A record with the dict methods that mmdet calls, but far smaller."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field, as dict does."""
        return getattr(self, key, default)


class ImageRecord(Record):
    """An image; its size is that of the file, in pixels."""
    id: int | str
    file_name: Annotated[str, _NotEmpty]
    width: _Length
    height: _Length


class Category(Record):
    """A class of boxes."""
    id: int
    name: str


class Annotation(Record):
    """A box: x, y of its top left corner, width and height in pixels."""
    image_id: int | str
    category_id: int
    bbox: Annotated[list[float], msgspec.Meta(min_length=4, max_length=4)]
    area: float | None = None
    iscrowd: int | bool = 0
    ignore: int | bool = 0
    id: Any = None


class MaskAnnotation(Annotation):
    """A box with polygons, or with a run-length encoded mask."""
    segmentation: list[list[float]] | dict[str, Any] | None = None


class CocoFile(msgspec.Struct, kw_only=True):
    """The content of an annotation file."""
    images: Annotated[list[ImageRecord], _NotEmpty]
    categories: Annotated[list[Category], _NotEmpty]
    # COCO's own test files have none.
    annotations: list[Annotation] = []


class CocoMaskFile(CocoFile, kw_only=True):
    """The content of an annotation file with masks."""
    annotations: list[MaskAnnotation] = []

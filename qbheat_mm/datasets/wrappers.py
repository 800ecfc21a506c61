# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Look into wrappers of data sets."""
from torch.utils.data import Dataset


def parts_of(dataset: Dataset) -> list[Dataset]:
    """Return the data sets within wrappers, or the data set itself."""
    inner = list(getattr(dataset, 'datasets', ()))
    if hasattr(dataset, 'dataset'):
        inner.append(dataset.dataset)
    parts = []
    for part in inner:
        parts += parts_of(part)
    return parts or [dataset]

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Settings of torch's data loaders."""
from collections.abc import Mapping


def loader_settings(settings: Mapping) -> Mapping:
    """Settings of a loader, in which ``num_workers=0`` is enough to have none.

    torch refuses to keep workers that there are not, or to let them fetch.
    """
    if settings.get('num_workers') != 0:
        return settings
    kept = {name: value for name, value in settings.items()
            if name != 'prefetch_factor'}
    return type(settings)(kept, persistent_workers=False)

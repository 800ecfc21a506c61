# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What all settings of mmengine have in common."""
from collections.abc import Mapping


def type_name(settings: Mapping) -> str:
    """The name of the class or function that settings ask for.

    Args:
        settings (Mapping): Settings of a part. Their ``type`` is a name,
            alone or after its scope or module, or the class itself, as in
            configurations of the new style.

    Returns:
        str: Without scope or module; ``''`` where there is no ``type``.
    """
    kind = settings.get('type') or ''
    return getattr(kind, '__name__', str(kind)).split('.')[-1]

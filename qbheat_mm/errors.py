# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Errors that users can fix."""


class UserError(ValueError):
    """A wrong setting, file or input.

    The message is one sentence that names the value, its origin and the fix.
    Command-line tools print it without a traceback.
    """

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The error that the user can mend."""


class UserError(ValueError):
    """A wrong setting, file or input.

    The message is one sentence that names the value, where it came from and
    the way out. The command-line tools print it without a traceback.
    """

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Errors that users can fix."""


class UserError(ValueError):
    """A wrong setting, file or input.

    The message is one sentence that names the value, its origin and the fix.
    Command-line tools print it without a traceback.
    """


class ImageError(UserError):
    """An image file cannot be used; the message names it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f'image {str(path)!r} {" ".join(problem.split())}')

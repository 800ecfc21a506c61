# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Is an image file whole? Told from its structure, before it is decoded.

Decoders fill in what is missing: OpenCV up to 4.10 makes a grey area of what
has been cut off a JPEG file. The formats that say where they end, and carry
check sums, are read as far as that takes.
"""
import re
import zlib

JPEG, PNG = b'\xff\xd8\xff', b'\x89PNG\r\n\x1a\n'
# Before a marker any number of 0xff may stand.
_JPEG_MARKER = re.compile(rb'\xff([^\x00\xff])')
_JPEG_END = b'\xff\xd9'
_START_OF_SCAN, _END = 0xda, 0xd9
_WITHOUT_LENGTH = frozenset([0x01, *range(0xd0, 0xd8)])
_START_OF_FRAME = frozenset(range(0xc0, 0xd0)) - {0xc4, 0xc8, 0xcc}


def examine(content: bytes) -> tuple[str | None, tuple[int, int] | None]:
    """Look for damage that the structure of a JPEG or PNG file shows.

    Args:
        content (bytes): The whole file. Whatever follows the end of the
            picture, as the video of a motion photo, does no harm.

    Returns:
        tuple[str | None, tuple[int, int] | None]: What is wrong, ``'cut'``
        or ``'damaged'``, or None; width and height, or None where the file
        does not come to say. Of other formats both are None.
    """
    if content.startswith(JPEG):
        return _examine_jpeg(content)
    if content.startswith(PNG):
        return _examine_png(content)
    return None, None


def _examine_jpeg(content: bytes) -> tuple[str | None, tuple | None]:
    """Go from marker to marker up to the scans, then look for their end.

    A thumbnail, itself a JPEG file, lies inside of a segment, which is jumped
    over. The data of a scan hold no 0xff that is followed by another byte
    than 0 or a restart marker: the first end mark in them is the end.
    """
    position, size = 2, None
    while match := _JPEG_MARKER.search(content, position):
        marker, position = match[1][0], match.end()
        if marker == _START_OF_SCAN:
            # Most files end with the mark, which needs no search.
            is_whole = (content.endswith(_JPEG_END, position)
                        or content.find(_JPEG_END, position) >= 0)
            return (None if is_whole else 'cut'), size
        if marker == _END:
            return 'damaged', size
        if marker in _WITHOUT_LENGTH:
            continue
        segment = content[position:position + 7]
        if marker in _START_OF_FRAME and size is None:
            size = (int.from_bytes(segment[5:7], 'big'),
                    int.from_bytes(segment[3:5], 'big'))
        position += max(int.from_bytes(segment[:2], 'big'), 2)
    return 'cut', size


def _examine_png(content: bytes) -> tuple[str | None, tuple | None]:
    """Compare the check sums of all chunks that hold the picture."""
    size = (int.from_bytes(content[16:20], 'big'),
            int.from_bytes(content[20:24], 'big'))
    view, position = memoryview(content), len(PNG)
    while position + 12 <= len(content):
        length = int.from_bytes(content[position:position + 4], 'big')
        kind, end = content[position + 4:position + 8], position + 8 + length
        if end + 4 > len(content):
            break
        is_needed = kind[:1].isupper() or kind == b'tRNS'
        if is_needed and zlib.crc32(view[position + 4:end]) != int.from_bytes(
                content[end:end + 4], 'big'):
            return 'damaged', size
        if kind == b'IEND':
            return None, size
        position = end + 4
    return 'cut', size

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Where the tests of this folder run."""
import os

DEVICE = os.environ.get('QBHEAT_TEST_DEVICE', 'cuda')

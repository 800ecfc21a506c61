# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The study on real images, and on yours."""

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What happens to a config before it is run: read, check and complete it.

Modules are imported on use, except for the index of our configs.
"""

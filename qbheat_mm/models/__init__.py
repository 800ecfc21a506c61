"""The parts that the registries know, detection excepted."""
from .backbones import *  # noqa: F401, F403

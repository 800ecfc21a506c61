# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The trained networks that are exported, and where they come from."""
import copy
import hashlib
import json
import os.path as osp
from dataclasses import dataclass

from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..engine.checkpoint import classes_in, load_strict, read
from ..engine.head_classes import set_classes
from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..models.layers.normalize import Normalization
from ..utils.settings import toolbox
from ..version import __version__


@dataclass(frozen=True)
class Source:
    """A network with the weights of a checkpoint.

    Attributes:
        model (nn.Module): An encoder, a classifier or a detector, in
            evaluation mode.
        normalization (Normalization, optional): Of its input; None if
            unknown.
        checkpoint (str): File or URL of the weights; '' for random ones.
        classes (tuple[str, ...]): Their names, if known. Defaults to ().
    """
    model: nn.Module
    normalization: Normalization | None
    checkpoint: str
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, network: 'Encoder | Source') -> 'Source':
        """The backbone of an encoder; a source itself."""
        if isinstance(network, Source):
            return network
        return cls(network.backbone, network.normalization, network.weights)

    def require_other(self, out: str) -> None:
        """Raise UserError if ``out`` is the checkpoint itself."""
        if osp.exists(out) and osp.exists(self.checkpoint) and osp.samefile(
                out, self.checkpoint):
            raise UserError(f"'{out}' is the checkpoint itself and would be "
                            'lost: give another file to write')

    def facts(self) -> dict[str, str]:
        """What every exported file says about itself, in texts."""
        facts = dict(
            qbheat_mm=__version__, source=osp.basename(self.checkpoint),
            source_sha256=_sha256(osp.expanduser(self.checkpoint)))
        if self.normalization is not None:
            facts.update(
                mean=json.dumps(self.normalization.mean),
                std=json.dumps(self.normalization.std),
                channel_order='RGB' if self.normalization.rgb else 'BGR')
        return facts


def load_model(cfg: Config, checkpoint: str) -> Source:
    """Build a classifier or detector and load its checkpoint strictly.

    Args:
        cfg (Config): Of the run.
        checkpoint (str): Of that run, file or URL.

    Raises:
        UserError: If the checkpoint is missing, damaged or does not fit.
    """
    content = read(checkpoint)
    classes = classes_in(content)
    cfg = copy.deepcopy(cfg)
    if cfg.get('count_classes') and classes:  # the run counted its folders
        set_classes(cfg, len(classes))
    settings = cfg.model.to_dict()
    if cfg.get('data_preprocessor'):  # as mmengine's runner does
        settings.setdefault('data_preprocessor', cfg.data_preprocessor)
    settings.pop('train_cfg', None)
    with DefaultScope.overwrite_default_scope(toolbox(cfg) or 'mmpretrain'):
        model = MODELS.build(ConfigDict(settings))
    load_strict(model, content, checkpoint)
    model.eval()
    return Source(
        model, Normalization.of(getattr(model, 'data_preprocessor', None)),
        checkpoint, classes)


def _sha256(path: str) -> str:
    """Of a file; '' for a URL."""
    if not osp.isfile(path):
        return ''
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

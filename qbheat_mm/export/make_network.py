# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Turn any trained model into a network that can be exported."""
from mmpretrain.models import ImageClassifier

from ..errors import UserError
from ..trained.encoder import Encoder
from ..trained.heads import Heads
from ..trained.model import TrainedModel
from ..trained.normalization import Normalize
from .heads_network import HeadsNetwork
from .network import IMAGES, ClassifierNetwork, EncoderNetwork, Network


def make_network(model: Encoder | Heads | TrainedModel,
                 preprocessing: bool = False,
                 embedding: bool = False, padded: bool = True) -> Network:
    """Turn a trained model into a function of tensors.

    Args:
        model (Encoder | Heads | TrainedModel): The model.
        preprocessing (bool): Whether it normalizes its images itself.
            Defaults to False.
        embedding (bool): Whether :class:`Heads` return the encoder's
            embedding as well. Defaults to False.
        padded (bool): Whether detectors take the sizes of images within a
            padded batch. Defaults to True.

    Raises:
        UserError: If this kind of model cannot be exported, or its
            normalization is unknown.
    """
    if embedding and not isinstance(model, Heads):
        raise UserError('embedding=True requires Heads, not '
                        f'{type(model).__name__}')
    if isinstance(model, Encoder):
        network = EncoderNetwork(model)
    elif isinstance(model, Heads):
        heads = {}
        for name, head in model.trained.items():
            heads[name] = _network_of_head(name, head)
        network = HeadsNetwork(model, heads, embedding)
        model = model.encoder
    elif isinstance(model.model, ImageClassifier):
        network = ClassifierNetwork(model.model)
    else:
        from .detectors import detector_network  # needs mmdet
        network = detector_network(model.model)
    if not padded:
        network.inputs = (IMAGES, )
    if preprocessing:
        if model.normalization is None:
            raise UserError(
                f"'{model.checkpoint}' and its config do not say how images "
                'are normalized: set model.data_preprocessor, or omit '
                '--with-preprocessing')
        network.normalize = Normalize(model.normalization)
    return network


def _network_of_head(name: str, head: TrainedModel) -> Network:
    try:
        return make_network(head)
    except UserError as error:
        raise UserError(f"head '{name}': {error}") from error

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The encoder alone, in a file of safetensors that says what it is."""
import json
import os

from mmengine.config import Config

from ..errors import UserError
from ..safetensors_file import BACKBONE, SIZE, write_safetensors
from ..utils.atomic_write import atomic_write, require_other
from .source import Source, read_encoder


def export_encoder(checkpoint: str,
                   out: str,
                   cfg: Config | None = None) -> str:
    """Write the encoder of a checkpoint as safetensors.

    The names are those of the bare encoder, as ``stem.0.0.weight``. Texts
    beside them: ``backbone`` (JSON, what it is built from), ``mean`` and
    ``std`` (JSON, of pixels from 0 to 255), ``channel_order`` (``'RGB'`` or
    ``'BGR'``), ``training_size`` (JSON, height and width of the images, if
    known), ``qbheat_mm`` (the version), ``source`` and ``source_sha256`` (of
    the checkpoint).

    Args:
        checkpoint (str): Any checkpoint that holds an encoder, file or URL.
        out (str): The file to write, ``.safetensors``; folders are made.
        cfg (Config, optional): The configuration of the checkpoint.
            Defaults to None: the one inside it.

    Returns:
        str: ``out``.

    Raises:
        FileNotFoundError: If there is no such checkpoint.
        UserError: If the checkpoint does not say what it holds, does not
            fit, is refused or damaged; if the file cannot be written.
    """
    checkpoint, out = os.fspath(checkpoint), os.fspath(out)
    if not out.endswith('.safetensors') and not os.path.isdir(out):
        raise UserError(f"'{out}' must end in .safetensors, the format of "
                        'encoders')
    require_other(out, checkpoint)
    source = read_encoder(checkpoint, cfg)
    facts = encoder_facts(source)
    with atomic_write(out) as part:
        write_safetensors(part, source.model.state_dict(), facts)
    return out


def encoder_facts(source: Source) -> dict[str, str]:
    """The texts beside the weights of an encoder.

    Raises:
        UserError: If its settings are no plain values.
    """
    try:
        backbone = json.dumps(source.settings)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the encoder of checkpoint '{source.checkpoint}' cannot be "
            f'written down: model.backbone holds more than plain values '
            f'({error})') from error
    size = {SIZE: json.dumps(source.size)} if source.size else {}
    return {'format': 'pt', BACKBONE: backbone, **size, **source.facts()}

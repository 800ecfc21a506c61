# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Measure a frozen encoder's features: k-NN, tokens, correlation, matrices.

CONFIG is a configuration of `lin`, which names the labelled images, those to
be measured on, and both outputs of the encoder.
"""
import torch
from measuring import measuring_parser, write_metrics
from mmengine.runner import Runner
from torch import Tensor
from torch.utils.data import DataLoader

from qbheat_mm.compat import load_checkpoint
from qbheat_mm.engine.weights import named_weights
from qbheat_mm.evaluation import knn_accuracy
from qbheat_mm.launching import read_config, report_user_errors
from qbheat_mm.launching.trained_model import TrainedEncoder, load_encoder
from qbheat_mm.study.features import describe_maps, describe_matrices


@torch.no_grad()
def extract(encoder: TrainedEncoder,
            loader: DataLoader) -> tuple[Tensor, Tensor, Tensor]:
    """Maps (N, C, H, W), tokens (N, T, d), labels (N, ) of a data loader."""
    maps, tokens, labels = [], [], []
    for batch in loader:
        images = encoder.pixels.normalize(torch.stack(tuple(batch['inputs'])))
        found, global_tokens = encoder.backbone(images)
        maps.append(found)
        tokens.append(global_tokens)
        labels += [int(sample.gt_label) for sample in batch['data_samples']]
    return torch.cat(maps), torch.cat(tokens), torch.tensor(labels)


def main() -> None:
    """Measure."""
    args = measuring_parser(__doc__).parse_args()
    cfg = read_config(args.config, args.cfg_options)
    encoder = load_encoder(cfg, args.config, args.checkpoint)
    labelled = cfg.val_dataloader.copy()
    labelled['dataset'] = dict(cfg.train_dataloader.dataset,
                               pipeline=labelled['dataset']['pipeline'])
    known, asked = (extract(encoder, Runner.build_dataloader(loader))
                    for loader in (labelled, cfg.val_dataloader))
    metrics = {'k-NN': knn_accuracy(
        known[0].mean(dim=(2, 3)), known[2], asked[0].mean(dim=(2, 3)),
        asked[2])}
    metrics.update(describe_maps(*asked[:2]))
    metrics.update(describe_matrices(
        named_weights(load_checkpoint(args.checkpoint, map_location='cpu'))))
    write_metrics(args.out, metrics)


if __name__ == '__main__':
    report_user_errors(main)

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""DETR with Mobile-Former's decoder."""
import copy
from collections.abc import Sequence

import torch
from mmdet.models.detectors import DetectionTransformer
from mmdet.registry import MODELS
from mmdet.structures import OptSampleList, SampleList
from mmdet.utils import ConfigType, OptConfigType, OptMultiConfig
from torch import Tensor, nn

from ..errors import UserError
from .layers import MFDecoder
from .layers.mf_decoder import STRIDES


@MODELS.register_module()
class MobileFormerDETR(DetectionTransformer):
    """Mobile-Former in the DETR framework (the paper's appendix on COCO).

    Unlike mmdet's DETR it has no encoder, queries and pixels update each
    other over three scales (MF-Dec), and the queries' position embeddings
    are refined after each block. The rest is mmdet's. Given the same maps,
    results don't depend on the batch's padding; in training BN computes
    statistics over the content only.

    Args:
        backbone (ConfigType): Gives maps at 1/8 and 1/16 of the image, e.g.
            ``MobileFormer(out_indices=(2, 4))``.
        bbox_head (ConfigType): mmdet's ``DETRHead``; set ``loss_cls``
            explicitly.
        in_channels (Sequence[int]): Channels of the two maps.
        depths (Sequence[int]): Blocks at 1/32, 1/16 and 1/8. (5, 2, 2) is
            MF-Dec-522 and (2, 1, 1) MF-Dec-211.
        expansions (Sequence[int], optional): Channel multipliers in the
            blocks at 1/16 and 1/8. Defaults to None: the paper's for its two
            decoders, otherwise 2.
        num_queries (int): Object queries. Defaults to 100.
        embed_dims (int): Width of the queries. Defaults to 256.
        num_heads (int): Attention heads. Defaults to 8.
        mobile_mlp_dims (int): Hidden width of the MLP on the 1/32 positions.
            Defaults to 2048.
        former_mlp_dims (int): Hidden width of the queries' MLP. Defaults to
            1024.
        dropout (float): Defaults to 0.1.
        neck, train_cfg, test_cfg, data_preprocessor, init_cfg: See
            ``DetectionTransformer``.
    """

    def __init__(self,
                 backbone: ConfigType,
                 bbox_head: ConfigType,
                 in_channels: Sequence[int],
                 depths: Sequence[int] = (5, 2, 2),
                 expansions: Sequence[int] | None = None,
                 num_queries: int = 100,
                 embed_dims: int = 256,
                 num_heads: int = 8,
                 mobile_mlp_dims: int = 2048,
                 former_mlp_dims: int = 1024,
                 dropout: float = 0.1,
                 neck: OptConfigType = None,
                 train_cfg: OptConfigType = None,
                 test_cfg: OptConfigType = None,
                 data_preprocessor: OptConfigType = None,
                 init_cfg: OptMultiConfig = None) -> None:
        super().__init__(
            backbone=backbone,
            neck=neck,
            decoder=dict(
                in_channels=in_channels,
                depths=depths,
                expansions=expansions,
                embed_dims=embed_dims,
                num_heads=num_heads,
                mobile_mlp_dims=mobile_mlp_dims,
                former_mlp_dims=former_mlp_dims,
                dropout=dropout),
            # DETRHead modifies loss_cls in place.
            bbox_head=copy.deepcopy(bbox_head),
            num_queries=num_queries,
            train_cfg=train_cfg,
            test_cfg=test_cfg,
            data_preprocessor=data_preprocessor,
            init_cfg=init_cfg)
        self._limit_detections()

    def _limit_detections(self) -> None:
        """Limit ``max_per_img`` to the number of predictions.

        A softmax head predicts once per query, a sigmoid head once per query
        and class.
        """
        test_cfg = dict(self.bbox_head.test_cfg or {})
        most = self.num_queries
        if self.bbox_head.loss_cls.use_sigmoid:
            most *= self.bbox_head.num_classes
        test_cfg['max_per_img'] = min(
            test_cfg.get('max_per_img', self.num_queries), most)
        self.bbox_head.test_cfg = test_cfg

    def _init_layers(self) -> None:
        embed_dims = self.decoder['embed_dims']
        self.decoder = MFDecoder(**self.decoder)
        self.query_embedding = nn.Embedding(self.num_queries, embed_dims)

    def loss(self, batch_inputs: Tensor,
             batch_data_samples: SampleList) -> dict:
        """Compute losses, the head's in float32.

        Hungarian matching and COCO evaluation use NumPy, which has no
        bfloat16.
        """
        hidden_states = self._hidden_states(batch_inputs, batch_data_samples)
        with torch.autocast(hidden_states.device.type, enabled=False):
            return self.bbox_head.loss(hidden_states, batch_data_samples)

    def predict(self,
                batch_inputs: Tensor,
                batch_data_samples: SampleList,
                rescale: bool = True) -> SampleList:
        """Predict, with the head in float32."""
        hidden_states = self._hidden_states(batch_inputs, batch_data_samples)
        with torch.autocast(hidden_states.device.type, enabled=False):
            results = self.bbox_head.predict(
                hidden_states, batch_data_samples, rescale=rescale)
        return self.add_pred_to_datasample(batch_data_samples, results)

    def _hidden_states(self, batch_inputs: Tensor,
                       batch_data_samples: SampleList) -> Tensor:
        """Queries of all blocks, (num_blocks, B, num_queries, C)."""
        feats = self.extract_feat(batch_inputs)
        states = self.forward_transformer(feats, batch_data_samples)
        dtype = self.bbox_head.fc_cls.weight.dtype
        return states['hidden_states'].to(dtype)

    def pre_transformer(
            self,
            img_feats: Sequence[Tensor],
            batch_data_samples: OptSampleList = None) -> tuple[dict, dict]:
        """Check the maps and collect the image sizes."""
        image_sizes = batch_shape = None
        if batch_data_samples:
            image_sizes = [s.img_shape[:2] for s in batch_data_samples]
            batch_shape = batch_data_samples[0].batch_input_shape
        self._check_feats(img_feats, batch_shape)
        return dict(feats=img_feats, image_sizes=image_sizes), {}

    def _check_feats(self, feats: Sequence[Tensor],
                     batch_shape: tuple[int, int] | None) -> None:
        """Compare channels and strides; other strides would go unnoticed."""
        channels = tuple(feat.shape[1] for feat in feats)
        sizes = [tuple(feat.shape[-2:]) for feat in feats]
        if batch_shape is None:
            height, width = sizes[0]
            batch_shape = (STRIDES[0] * height, STRIDES[0] * width)
        strides_differ = False
        for stride, (height, width) in zip(STRIDES, sizes):
            off = max(abs(stride * height - batch_shape[0]),
                      abs(stride * width - batch_shape[1]))
            if off > 2 * stride:
                strides_differ = True
        if channels != self.decoder.in_channels or strides_differ:
            raise UserError(
                f'the backbone gives maps of {channels} channels and sizes '
                f'{sizes} for images of {tuple(batch_shape)}, not '
                f'model.in_channels={self.decoder.in_channels} at 1/8 and '
                '1/16: set in_channels and backbone.out_indices')

    def forward_encoder(self, feats: Sequence[Tensor],
                        image_sizes: list | None) -> dict:
        """Pass the maps on: there is no encoder."""
        return dict(memory=feats, image_sizes=image_sizes)

    def pre_decoder(self, memory: Sequence[Tensor],
                    image_sizes: list | None) -> tuple[dict, dict]:
        """Make queries of zero content and learned position embeddings."""
        query_pos = self.query_embedding.weight.expand(
            memory[0].shape[0], -1, -1)
        decoder_inputs = dict(
            query=torch.zeros_like(query_pos),
            query_pos=query_pos,
            memory=memory,
            image_sizes=image_sizes)
        return decoder_inputs, {}

    def forward_decoder(self, query: Tensor, query_pos: Tensor,
                        memory: Sequence[Tensor],
                        image_sizes: list | None) -> dict:
        """Run the blocks; the head gets the queries after each of them."""
        return dict(
            hidden_states=self.decoder(query, query_pos, memory, image_sizes))

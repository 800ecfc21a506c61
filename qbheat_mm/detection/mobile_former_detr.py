"""DETR with Mobile-Former's decoder.

Differences from mmdet's DETR: no encoder; queries and pixels update each other
in turn over three scales (MF-Dec); the position embeddings of the queries
are refined on the way. Matching, losses and box decoding are mmdet's own.
"""
import copy
from collections.abc import Sequence

import torch
from mmdet.models.detectors import DetectionTransformer
from mmdet.registry import MODELS
from mmdet.structures import OptSampleList, SampleList
from mmdet.utils import ConfigType, OptConfigType, OptMultiConfig
from torch import Tensor, nn

from qbheat_mm.arguments import POSITIVE_INT, checked
from qbheat_mm.errors import UserError

from .layers import MFDecoder
from .layers.mf_decoder import STRIDES


@MODELS.register_module()
class MobileFormerDETR(DetectionTransformer):
    """Mobile-Former in the DETR framework (the paper's appendix on COCO).

    The backbone gives two maps, at 1/8 and 1/16 of the image's size, e.g.
    ``MobileFormer(out_indices=(2, 4))``. Given the same maps, the detections
    of an image do not depend on what stands in its padding, nor on how much
    padding there is; in training, too, where BN takes its statistics over
    the content.

    Args:
        backbone (ConfigType): Its two outputs are at 1/8 and 1/16.
        bbox_head (ConfigType): mmdet's ``DETRHead``; say ``loss_cls``
            explicitly.
        in_channels (Sequence[int]): Channels of the two maps.
        depths (Sequence[int]): Blocks at 1/32, 1/16 and 1/8. (5, 2, 2) is
            MF-Dec-522 and (2, 1, 1) MF-Dec-211.
        expansions (Sequence[int], optional): Channel multipliers in the
            blocks at 1/16 and 1/8. None: the paper's for its two decoders,
            2 otherwise. Defaults to None.
        num_queries (int): Object queries. Defaults to 100.
        embed_dims (int): Width of the queries. Defaults to 256.
        num_heads (int): Attention heads. Defaults to 8.
        mobile_mlp_dims (int): Hidden width of the MLP on the 1/32 positions.
            Defaults to 2048.
        former_mlp_dims (int): Hidden width of the queries' MLP. Defaults to
            1024.
        dropout (float): Defaults to 0.1.
        neck (OptConfigType): Between backbone and decoder. Defaults to None.
        train_cfg (OptConfigType): Of the bounding box head.
        test_cfg (OptConfigType): Of the bounding box head.
        data_preprocessor (OptConfigType): As in every detector.
        init_cfg (OptMultiConfig): As in every detector.
    """

    @checked(num_queries=POSITIVE_INT)
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
            # DETRHead changes the loss_cls that it is given: without a copy
            # no second model could be built from the same config.
            bbox_head=copy.deepcopy(bbox_head),
            num_queries=num_queries,
            train_cfg=train_cfg,
            test_cfg=test_cfg,
            data_preprocessor=data_preprocessor,
            init_cfg=init_cfg)
        self._check_head(embed_dims)
        self._limit_detections()

    def _check_head(self, embed_dims: int) -> None:
        """Compare the widths of queries and head."""
        width = getattr(self.bbox_head, 'embed_dims', embed_dims)
        if width != embed_dims:
            raise UserError(
                f'model.embed_dims={embed_dims}, the width of the queries, '
                f'and model.bbox_head.embed_dims={width} must be the same')

    def _limit_detections(self) -> None:
        """Ask for no more detections than there are.

        A softmax head gives one for each query, a sigmoid head one for each
        query and class.
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
        """See the parent's; the head works in full precision.

        Hungarian matching and COCO evaluation go through NumPy, which has no
        bfloat16.
        """
        hidden_states = self._hidden_states(batch_inputs, batch_data_samples)
        with torch.autocast(batch_inputs.device.type, enabled=False):
            return self.bbox_head.loss(hidden_states, batch_data_samples)

    def predict(self,
                batch_inputs: Tensor,
                batch_data_samples: SampleList,
                rescale: bool = True) -> SampleList:
        """See the parent's; the head works in full precision."""
        hidden_states = self._hidden_states(batch_inputs, batch_data_samples)
        with torch.autocast(batch_inputs.device.type, enabled=False):
            results = self.bbox_head.predict(
                hidden_states, batch_data_samples, rescale=rescale)
        return self.add_pred_to_datasample(batch_data_samples, results)

    def _hidden_states(self, batch_inputs: Tensor,
                       batch_data_samples: SampleList) -> Tensor:
        """(num_blocks, B, num_queries, C) in the head's precision."""
        feats = self.extract_feat(batch_inputs)
        states = self.forward_transformer(feats, batch_data_samples)
        dtype = self.bbox_head.fc_cls.weight.dtype
        return states['hidden_states'].to(dtype)

    def pre_transformer(
            self,
            img_feats: Sequence[Tensor],
            batch_data_samples: OptSampleList = None) -> tuple[dict, dict]:
        """Check the maps and find where in them the images end.

        Raises:
            UserError: If the maps are not the two that the decoder is built
                for.
        """
        image_sizes = batch_shape = None
        if batch_data_samples:
            image_sizes = [s.img_shape[:2] for s in batch_data_samples]
            batch_shape = batch_data_samples[0].batch_input_shape
        self._check_feats(img_feats, batch_shape)
        return dict(feats=img_feats, image_sizes=image_sizes), {}

    def _check_feats(self, feats: Sequence[Tensor],
                     batch_shape: tuple[int, int] | None) -> None:
        channels = tuple(feat.shape[1] for feat in feats)
        if channels != self.decoder.in_channels:
            raise UserError(
                f'the backbone gives maps of {channels} channels, and '
                f'model.in_channels={self.decoder.in_channels}: set '
                'in_channels to the channels of the maps at 1/8 and 1/16, and '
                'backbone.out_indices so that it gives these two.')
        sizes = [tuple(feat.shape[-2:]) for feat in feats]
        if batch_shape is None:
            batch_shape = [STRIDES[0] * side for side in sizes[0]]
        for stride, size in zip(STRIDES, sizes):
            if any(
                    abs(stride * side - pixels) > 2 * stride
                    for side, pixels in zip(size, batch_shape)):
                raise UserError(
                    f'the backbone gives maps of sizes {sizes} for images of '
                    f'{tuple(batch_shape)}, not at 1/8 and 1/16: set '
                    'backbone.out_indices so that it gives these two.')

    def forward_encoder(self, feats: Sequence[Tensor],
                        image_sizes: list | None) -> dict:
        """Nothing to do: MF-Dec has no encoder before its decoder."""
        return dict(memory=feats, image_sizes=image_sizes)

    def pre_decoder(self, memory: Sequence[Tensor],
                    image_sizes: list | None) -> tuple[dict, dict]:
        """Make the queries: zero content, learned position embedding."""
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
        """Run the blocks; all queries' states go to the head."""
        return dict(
            hidden_states=self.decoder(query, query_pos, memory, image_sizes))

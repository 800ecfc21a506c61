"""Building blocks of Mobile-Former; they know no configs and no registries."""
from .bridge import FormerToMobile, MobileToFormer
from .dynamic_relu import DynamicReLU, DynamicReLUCoefficients
from .mobile import DownsampleMobile, LiteBottleneck, Mobile
from .mobile_former_block import Former, MobileFormerBlock

__all__ = [
    'DownsampleMobile', 'DynamicReLU', 'DynamicReLUCoefficients', 'Former',
    'FormerToMobile', 'LiteBottleneck', 'Mobile', 'MobileFormerBlock',
    'MobileToFormer'
]

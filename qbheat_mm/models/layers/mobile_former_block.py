"""The Mobile-Former block: Mobile->Former, Former, Mobile, Former->Mobile."""
from torch import Tensor, nn

from .bridge import FormerToMobile, MobileToFormer
from .dynamic_relu import DynamicReLUCoefficients
from .former import Former
from .mobile import DownsampleMobile, Mobile


class MobileFormerBlock(nn.Module):
    """One block of Mobile-Former V1 (M-F), or its stride-2 form.

    Args:
        in_channels (int): Channels of the incoming features.
        mid_channels (int): Expanded channels.
        out_channels (int): Channels of the outgoing features.
        token_dims (int): Width of the tokens.
        downsample (bool): The stride-2 form. Defaults to False.
        groups (int): Of the 1x1 convolutions. Defaults to 1.
        drop_path_rate (float): Stochastic depth of the token updates and of
            the Mobile branch. Defaults to 0.
    """

    def __init__(self,
                 in_channels: int,
                 mid_channels: int,
                 out_channels: int,
                 token_dims: int,
                 downsample: bool = False,
                 groups: int = 1,
                 drop_path_rate: float = 0.) -> None:
        super().__init__()
        self.mobile_to_former = MobileToFormer(
            in_channels, token_dims, drop_path_rate=drop_path_rate)
        self.former = Former(token_dims, drop_path_rate=drop_path_rate)
        mobile = DownsampleMobile if downsample else Mobile
        self.mobile = mobile(in_channels, mid_channels, out_channels, groups,
                             drop_path_rate)
        second = (
            DownsampleMobile.second_ratio * out_channels
            if downsample else mid_channels)
        self.slopes = DynamicReLUCoefficients(token_dims,
                                              (mid_channels, second))
        self.former_to_mobile = FormerToMobile(out_channels, token_dims)

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Update features and tokens.

        Args:
            x (Tensor): (B, C_in, H, W).
            tokens (Tensor): (B, T, d).

        Returns:
            tuple[Tensor, Tensor]: (B, C_out, H', W') and (B, T, d).
        """
        tokens = self.former(self.mobile_to_former(x, tokens))
        x = self.mobile(x, self.slopes(tokens))
        return self.former_to_mobile(x, tokens), tokens

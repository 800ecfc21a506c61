"""Mobile-Former V1 once more, slowly, on tensors with the published names.

Written from the description of the network, one sentence a line, so that the
backbone is compared with something that shares no code with it. Tokens are
(B, T, d).
"""
import torch
import torch.nn.functional as F


def shuffle(x, groups):
    """Read the channels group by group instead of one after the other."""
    batch, channels, height, width = x.shape
    index = torch.arange(channels).view(groups, -1).t().flatten()
    return x[:, index]


def heads(x, num_heads):
    """(B, L, C) to (B, heads, L, C / heads)."""
    batch, length, channels = x.shape
    return x.view(batch, length, num_heads, -1).permute(0, 2, 1, 3)


def attend(query, key, value, num_heads):
    """Attention of each of the heads; (B, L, C)."""
    query, key, value = (heads(x, num_heads) for x in (query, key, value))
    scores = query @ key.transpose(2, 3) * query.shape[-1]**-0.5
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


class Reference:
    """Logits of one variant.

    Args:
        weights (dict[str, Tensor]): By published names.
        stages (list): Rows of the architecture.
        groups (int): Of the 1x1 convolutions.
    """

    def __init__(self, weights, stages, groups):
        self.w, self.groups = weights, groups
        self.rows = [row for rows in stages for row in rows]

    def __call__(self, image):
        x = F.relu6(self.conv_bn('stem.0', 'stem.1', image, stride=2))
        tokens = self.w['tokens.weight'].expand(len(x), -1, -1)
        for i, (kind, _, _) in enumerate(self.rows):
            name, stride = f'features.{i}.', 2 if 'down' in kind else 1
            if kind.startswith('lite'):
                x = self.lite(name, x, stride)
            else:
                tokens = self.mobile_to_former(name, x, tokens)
                tokens = self.former(name + 'global_block.', tokens)
                mobile = self.downsample if stride == 2 else self.mobile
                x = mobile(name, x, tokens)
                x = self.former_to_mobile(name + 'global_local.', x, tokens)
        tokens = self.mobile_to_former('', x, tokens)
        if self.groups > 1:
            x = shuffle(x, self.groups)
        x = F.relu6(
            self.conv_bn('classifier.conv.1', 'classifier.conv.2', x,
                         groups=self.groups))
        pooled = F.hardswish(x.mean((2, 3)))
        x = self.linear('classifier.fc.0',
                        torch.cat([pooled, tokens[:, 0]], 1))
        x = F.hardswish(self.bn('classifier.fc.1', x))
        return self.linear('classifier.classifier.1', x)

    def linear(self, name, x):
        return F.linear(x, self.w[f'{name}.weight'], self.w[f'{name}.bias'])

    def layer_norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.w[f'{name}.weight'],
                            self.w[f'{name}.bias'])

    def bn(self, name, x):
        return F.batch_norm(x, *(self.w[f'{name}.{part}'] for part in
                                 ('running_mean', 'running_var', 'weight',
                                  'bias')))

    def conv_bn(self, conv, bn, x, stride=1, groups=1):
        weight = self.w[f'{conv}.weight']
        return self.bn(bn, F.conv2d(x, weight, None, stride,
                                    weight.shape[-1] // 2, groups=groups))

    def depthwise(self, name, x, stride=1):
        """With a shuffle where it multiplies the channels of 26M."""
        groups = x.shape[1]
        out = self.conv_bn(f'{name}.0', f'{name}.1', x, stride, groups)
        if self.groups > 1 and out.shape[1] > groups:
            out = shuffle(out, groups)
        return out

    def pointwise(self, name, x, shuffled=False):
        out = self.conv_bn(f'{name}.0', f'{name}.1', x, groups=self.groups)
        return shuffle(out, self.groups) if shuffled and self.groups > 1 \
            else out

    def lite(self, name, x, stride):
        out = F.relu6(
            self.conv_bn(f'{name}conv.0', f'{name}conv.1', x, stride,
                         x.shape[1]))
        if self.groups > 1:
            out = shuffle(out, x.shape[1])
        out = self.conv_bn(f'{name}conv.4', f'{name}conv.5', out,
                           groups=self.groups)
        return out + x if out.shape == x.shape else out

    def dynamic_relu(self, name, x, tokens):
        theta = F.relu(self.linear(f'{name}.hyper.0', tokens[:, 0]))
        theta = F.relu6(self.linear(f'{name}.hyper.2', theta) + 3) / 6
        first, second = theta[..., None, None].chunk(2, dim=1)
        return torch.maximum((2 * (first - .5) + 1) * x,
                             2 * (second - .5) * x)

    def mobile(self, name, x, tokens):
        out = self.pointwise(f'{name}conv1', x, shuffled=True)
        out = self.dynamic_relu(f'{name}hyper1', out, tokens)
        out = self.depthwise(f'{name}conv2', out)
        out = self.dynamic_relu(f'{name}hyper2', out, tokens)
        out = self.pointwise(f'{name}conv3', out, shuffled=True)
        return out + x if out.shape == x.shape else out

    def downsample(self, name, x, tokens):
        out = self.depthwise(f'{name}conv1', x, stride=2)
        out = self.dynamic_relu(f'{name}hyper1', out, tokens)
        x = self.pointwise(f'{name}conv2', out)
        out = self.depthwise(f'{name}conv3', x)
        out = self.dynamic_relu(f'{name}hyper3', out, tokens)
        return x + self.pointwise(f'{name}conv4', out)

    def mobile_to_former(self, name, x, tokens):
        name, pixels = f'{name}local_global.', x.flatten(2).transpose(1, 2)
        out = attend(self.linear(f'{name}q', tokens), pixels, pixels, 2)
        gate = F.relu6(self.linear(f'{name}alpha.0', tokens) + 3) / 6
        tokens = tokens + self.linear(f'{name}proj', 2 * gate * out)
        return self.layer_norm(f'{name}layer_norm', tokens)

    def former(self, name, tokens):
        out = attend(self.linear(f'{name}q', tokens), tokens, tokens, 4)
        tokens = self.layer_norm(
            f'{name}layer_norm', tokens + self.linear(f'{name}channel_mlp',
                                                      out))
        out = F.gelu(self.linear(f'{name}ffn.0', tokens))
        return self.layer_norm(f'{name}ffn_norm',
                               tokens + self.linear(f'{name}ffn.2', out))

    def former_to_mobile(self, name, x, tokens):
        pixels = x.flatten(2).transpose(1, 2)
        out = attend(pixels, self.linear(f'{name}k', tokens),
                     self.linear(f'{name}proj', tokens), 2)
        return x + out.transpose(1, 2).reshape(x.shape)

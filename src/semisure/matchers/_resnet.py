"""Residual blocks that the backbones share, by the names their checkpoints use."""

from __future__ import annotations

from torch import Tensor, nn


def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size up to its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


def merging(inputs: int, outputs: int) -> nn.Sequential:
    """What follows each sum in a feature pyramid."""
    return nn.Sequential(
        conv(inputs, inputs, 3),
        nn.BatchNorm2d(inputs),
        nn.LeakyReLU(),
        conv(inputs, outputs, 3),
    )


def doubled(x: Tensor, *, align_corners: bool = False) -> Tensor:
    """The map (1, c, h, w) at twice its size, by bilinear interpolation."""
    return nn.functional.interpolate(
        x, scale_factor=2.0, mode="bilinear", align_corners=align_corners
    )


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions beside the identity."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = shortcut(inputs, outputs, stride) if stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return y.relu_()


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3 and 1 × 1 convolutions beside the identity; the stride is inside."""

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = conv(inputs, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, outputs)
        self.bn3 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.downsample = None if same else shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y)).relu_()
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return y.relu_()


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """The identity where the shape changes."""
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def basic_stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Two basic blocks, the first with the stride."""
    return nn.Sequential(
        BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs)
    )


class Stem(nn.Module):
    """A 7 × 7 convolution, then basic stages; all but the first halve the size."""

    def __init__(self, channels: int, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, dims[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(dims[0])
        self.depth = len(dims)
        for k, outputs in enumerate(dims):
            inputs = dims[max(k - 1, 0)]
            stage = basic_stage(inputs, outputs, 1 if k == 0 else 2)
            self.add_module(f"layer{k + 1}", stage)

    def pyramid(self, image: Tensor) -> list[Tensor]:
        """Features at 1/2, 1/4, … of the image."""
        x = self.bn1(self.conv1(image)).relu_()
        maps = []
        for k in range(self.depth):
            x = self.get_submodule(f"layer{k + 1}")(x)
            maps.append(x)
        return maps

"""A map of one's own: two heads of attention, as a plain function of X. The search needs nothing but its gradient.

python examples/own_map.py
"""

import math

import torch
from torch import Tensor

import oneword as ow


class TwoHeads(torch.nn.Module):
    """softmax(X W_h Xᵀ/√d) X for two matrices W_h, side by side."""

    def __init__(self, d: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.W = torch.nn.Parameter(torch.randn(2, d, d, generator=generator, dtype=torch.float64) / math.sqrt(d))

    def forward(self, X: Tensor) -> Tensor:
        scores = X @ self.W @ X.mT / math.sqrt(X.shape[-1])
        return torch.cat(list(torch.softmax(scores, -1) @ X), -1)


def main() -> None:
    text = ow.gaussian(12, 32, seed=0)
    s = ow.sensitivity(TwoHeads(text.d), text, search=ow.Ascent(random=8, polish=60), baseline=16)
    print(s)
    print(s.to_pandas().sort_values("value", ascending=False).head(3).to_string(index=False))


if __name__ == "__main__":
    main()

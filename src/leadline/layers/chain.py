"""What a plain chain of layers is made of, for those who compute it by other means than by calling its modules.

h_0 = x,   h_k = drop_k(a_k(W_k h_{k-1} + b_k))        k = 1 … K
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """One layer.

    Args:
        map: name of its `nn.Linear` in the model.
        dim_input, dim_output: its widths.
        activation: by name, see `leadline.layers.activation`.
        p_drop, site: of its `Dropout`; 0 where there is none.
    """

    map: str
    dim_input: int
    dim_output: int
    activation: str = "identity"
    p_drop: float = 0.0
    site: int = 0

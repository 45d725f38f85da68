"""Other people's formats: Hugging Face folders, in and out; and what a model may begin from."""

from __future__ import annotations

from leadline.interop import hugging_face
from leadline.interop.beginning import Beginning, beginning
from leadline.interop.filling import Filled, fill

__all__ = ["Beginning", "Filled", "beginning", "fill", "hugging_face"]

"""Text as numbers, and numbers as text: tokenizers; decoding, which takes any callable that scores the next token."""

from leadline.text.stream import Stream
from leadline.text.tokenizer import Tokenizer

__all__ = ["Stream", "Tokenizer"]

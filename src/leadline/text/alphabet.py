"""Bytes as characters that can be seen: the alphabet of byte-level tokenizers (Radford et al., 2019).

A printable byte of Latin-1 is its own character; the other 68 (controls, the space, …) are the characters from U+0100
on. A token is then a word of 256 letters, whatever language or picture its bytes are part of.
"""

from __future__ import annotations

from functools import cache


@cache
def letters() -> tuple[str, ...]:
    """The letter of each byte.

    >>> letters()[ord("a")], letters()[ord(" ")], len(set(letters()))
    ('a', 'Ġ', 256)
    """
    shown = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
    hidden = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in shown else next(hidden)) for byte in range(256))


@cache
def byte_of_letter() -> dict[str, int]:
    """The other way round.

    >>> byte_of_letter()["Ġ"]
    32
    """
    return {letter: byte for byte, letter in enumerate(letters())}


def bytes_of(word: str) -> bytes | None:
    """The bytes that letters stand for; None where a character is no letter of this alphabet.

    >>> bytes_of("Ġsea"), bytes_of("▁sea")
    (b' sea', None)
    """
    table = byte_of_letter()
    return bytes(table[letter] for letter in word) if all(letter in table for letter in word) else None


def fallback(byte: int) -> str:
    """How a vocabulary of characters names a byte.

    >>> fallback(10)
    '<0x0A>'
    """
    return f"<0x{byte:02X}>"

"""The vocabulary of programs; importing it fills :data:`PIECES`."""

from campaigns.pieces import chance, control, custom, functions, kinds, networks, norms, plain, state, writes
from campaigns.pieces.registry import PIECES, Piece

__all__ = ["PIECES", "Piece"]
_ = chance, control, custom, functions, kinds, networks, norms, plain, state, writes

"""The one orchestrator: from a missed site to a cache entry; must not know the frame hook.

decode and translate (``symbolic_convert``) → epilogue (``codegen``) → graph (``graph``, backend) →
guards → entry. ``converter`` decides whether and how often, ``piece`` makes one entry, ``targets``
has the places where a frame goes on, ``alias_guards`` keeps two names two things.
"""

from capture.convert_frame.converter import Converter
from capture.convert_frame.options import Options

__all__ = ["Converter", "Options"]

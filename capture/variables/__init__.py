"""Holds symbolic values: what Python values are while a frame is executed symbolically."""

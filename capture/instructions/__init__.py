"""Holds the bytecode layer: canonical instructions, decoded from code objects and assembled.

Must not know torch, variables or graphs.
"""

"""Holds the symbolic interpreter: bytecode in, guards, graph and epilogue out."""

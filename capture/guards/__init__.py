"""Guards: what must hold for captured code to be used again. Must not know variables."""

from capture.guards.guard import Guard
from capture.guards.guard_set import GuardSet
from capture.guards.kinds import (
    AllDistinct,
    BoundCell,
    DictHas,
    DictKeysAre,
    DictLacks,
    Equals,
    ExprHolds,
    IdIs,
    IsEmpty,
    IsNotSame,
    IsSame,
    LenIs,
    StateIs,
    StoragesAre,
    TensorFacts,
    TensorMatch,
    TypeAttrAbsent,
    TypeIs,
    UnboundCell,
)
from capture.guards.torch_kinds import read_state

__all__ = [
    "AllDistinct",
    "BoundCell",
    "DictHas",
    "DictKeysAre",
    "DictLacks",
    "Equals",
    "ExprHolds",
    "Guard",
    "GuardSet",
    "IdIs",
    "IsEmpty",
    "IsNotSame",
    "IsSame",
    "LenIs",
    "StateIs",
    "StoragesAre",
    "TensorFacts",
    "TensorMatch",
    "TypeAttrAbsent",
    "TypeIs",
    "UnboundCell",
    "read_state",
]

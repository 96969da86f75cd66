"""Holds the graph being captured: tensor metadata, its propagation, and the FX graph.

Must not know bytecode, variables or the interpreter.
"""

from capture.graph.op_rules import Rule, RuleKind, classify, classify_attribute, classify_method
from capture.graph.output_graph import CompiledGraph, OutputGraph
from capture.graph.propagate import OperatorError, clear_memo
from capture.graph.state import TorchState, snapshot
from capture.graph.tensor_meta import CannotPropagate, TensorMeta, meta_of
from capture.graph.values import ScalarValue, StateToken, TensorValue

__all__ = [
    "CannotPropagate",
    "CompiledGraph",
    "OperatorError",
    "OutputGraph",
    "Rule",
    "RuleKind",
    "ScalarValue",
    "StateToken",
    "TensorMeta",
    "TensorValue",
    "TorchState",
    "classify",
    "classify_attribute",
    "classify_method",
    "clear_memo",
    "meta_of",
    "snapshot",
]

"""Holds the catalogue of graph-break reasons; must not know any other part but ``errors``.

Every reason has an id that is never reused, a title, an explanation with fields filled in where
the break happens, and hints that name a way out.
"""

from __future__ import annotations

from capture.errors import BreakReason

_MOVE_OUT = "Move this call out of the compiled region, or accept the break: results stay right."
_WHERE = "Use torch.where, or keep the decision in Python values."
_FUNDAMENTAL = "This needs the interpreter itself; the code around it is still captured."

USER_BREAK = BreakReason(
    "CAP0001", "graph break asked for", "`{what}` was called.", ["Remove the call to capture on."]
)
DATA_DEPENDENT = BreakReason(
    "CAP0002",
    "a Python value was taken from tensor data",
    "{what} needs the numbers inside a tensor, which are known only when the graph runs.",
    [_WHERE],
)
UNKNOWN_CALLABLE = BreakReason(
    "CAP0003",
    "call of a function that cannot be captured",
    "`{what}` has no capture rule, so Python runs it.",
    [_MOVE_OUT, "Wrap it with capture.allow_in_graph if it only works on tensors."],
)
DISABLED = BreakReason(
    "CAP0004", "call of a disabled function", "`{what}` is marked as not to be captured.", []
)
OPERATOR_METADATA = BreakReason(
    "CAP0005",
    "the result of an operator cannot be described before it runs",
    "{what}",
    ["Shapes that depend on data end the graph here; the rest is captured behind it."],
)
UNKNOWN_ATTRIBUTE = BreakReason(
    "CAP0006",
    "attribute computed by native code",
    "`{what}` is computed by native code that has no capture rule.",
    [_MOVE_OUT],
)
UNKNOWN_OPERATION = BreakReason(
    "CAP0007", "operation without a capture rule", "{what}", [_MOVE_OUT]
)
UNSUPPORTED_INSTRUCTION = BreakReason(
    "CAP0008",
    "bytecode instruction that cannot be captured",
    "The instruction {what} is run by Python itself.",
    [_FUNDAMENTAL],
)
UNCAUGHT_EXCEPTION = BreakReason(
    "CAP0009",
    "an exception leaves the frame",
    "{what} is raised here and not handled in the captured code; Python raises it itself.",
    [],
)
LOOP_NOT_UNROLLED = BreakReason(
    "CAP0010",
    "loop is run as a body",
    "The loop has more iterations than are unrolled ({what}); its body is compiled once.",
    ["Raise capture.config.unroll_limit to unroll it."],
)
OPAQUE_ITERATOR = BreakReason(
    "CAP0011",
    "iteration over an iterator that only Python can advance",
    "`{what}` is advanced by Python; the loop's body is captured.",
    [],
)
GENERATOR_ESCAPES = BreakReason(
    "CAP0012",
    "a generator is used outside the captured code",
    "The generator {what} is suspended while the captured code ends.",
    ["Consume the generator where it is made to keep it captured."],
)
CANNOT_REBUILD = BreakReason(
    "CAP0013",
    "a value made during capture cannot be rebuilt",
    "{what} is needed after the graph and has no rule to rebuild it.",
    [_MOVE_OUT],
)
SIDE_EFFECT = BreakReason("CAP0014", "side effect that is left to Python", "{what}", [_MOVE_OUT])
CLASS_DEFINITION = BreakReason(
    "CAP0015",
    "class statement",
    "The class body of `{what}` is run by Python.",
    ["Define the class outside the compiled function."],
)
COROUTINE = BreakReason(
    "CAP0016", "coroutine or asynchronous generator", "`{what}` is run by Python.", []
)
IMPORT = BreakReason("CAP0017", "import statement", "`{what}` is imported by Python.", [])
BACKWARD = BreakReason(
    "CAP0018", "autograd call", "{what} runs autograd, outside of this graph.", []
)
FRAME_INSPECTION = BreakReason(
    "CAP0019", "frame inspection", "`{what}` looks at the running frames.", [_FUNDAMENTAL]
)
RECURSION_TOO_DEEP = BreakReason(
    "CAP0020", "recursion too deep to inline", "Inlining stopped at depth {what}.", []
)
TENSOR_SUBCLASS = BreakReason(
    "CAP0021", "tensor subclass or special layout", "`{what}` is left to Python.", []
)
INSTRUCTION_BUDGET = BreakReason(
    "CAP0022", "instruction budget used up", "More than {what} instructions were executed.", []
)
WITHIN_GRAPH_ERROR = BreakReason(
    "CAP0023",
    "operator that may raise inside a try block",
    "{what} may raise depending on data, under an exception handler of the program.",
    ["Move the try statement outwards or the operator out of it to keep one graph."],
)

SIZE_DEPENDS_ON_DATA = BreakReason(
    "CAP0024",
    "a size that depends on data has to be known",
    "{what}.",
    [
        "Say what is known of the size in front of this line: torch._check(n <= limit), "
        "torch._check(n != 0) or torch._check(a.shape[0] == b.shape[0]).",
        "Keep sizes static: torch.where(mask, x, other) in the place of x[mask].",
    ],
)

CATALOGUE: tuple[BreakReason, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, BreakReason)
)

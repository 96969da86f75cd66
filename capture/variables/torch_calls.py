"""Holds what becomes of calls of torch functions and tensor methods.

``graph.op_rules`` classifies a callable; this module carries the rule out on variables.
"""

from __future__ import annotations

import functools
import operator
import os
import types
from collections.abc import Callable
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.graph.data_sizes import depends_on_data
from capture.graph.declared import SPARSE_ADAM
from capture.graph.op_rules import RuleKind, classify, classify_method, name_of
from capture.guards.kinds import IdIs
from capture.variables import backward, operators, process_groups, tensor_groups
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.constant import FALSE, NONE, TRUE, ConstantVariable, ScalarVariable, boolean
from capture.variables.containers import TupleVariable
from capture.variables.objects import ObjectVariable
from capture.variables.read_numbers import captures_numbers, read_number, takes_numbers
from capture.variables.sizes import decide, size_of, size_tuple
from capture.variables.tensor import TensorVariable

_AUTOGRAD = frozenset({"backward", "grad"})
_STORAGES = (torch.TypedStorage, torch.UntypedStorage)
_Special = Callable[[Tracer, list[Variable], dict[str, Variable]], Variable]
_HASHABLE = (types.FunctionType, types.BuiltinFunctionType, type)
_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.FunctionType)


def call_rule(
    tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """Call a torch function by its rule, or return None: it has none (or is to be inlined)."""
    if isinstance(value, _HASHABLE):
        special = _SPECIAL.get(value)
        if special is not None:
            return special(tracer, args, kwargs)
    rule = classify(value)
    if rule is None:
        return None
    kind = rule.kind
    if kind is RuleKind.INLINE:
        return None
    if kind is RuleKind.NODE or kind is RuleKind.STATE:
        if isinstance(value, (types.BuiltinFunctionType,)) and value.__module__ == "_operator":
            if not any(_touches_tensor(tracer, a) for a in args):
                return _operator_call(tracer, value, args, kwargs)
        if isinstance(value, _METHODS):
            owner = getattr(value, "__objclass__", None)
            if owner is not None and issubclass(torch.Tensor, owner) and owner is not object:
                if not isinstance(args[0], TensorVariable):
                    unsupported(reasons.TENSOR_SUBCLASS, args[0].describe())
                return graph_method(tracer, rule.name, args, kwargs)
            if value.__module__ == "torch._tensor":
                return graph_method(tracer, rule.name, args, kwargs)
        return graph_node(tracer, value, args, kwargs)
    if kind is RuleKind.CONSTANT:
        return constant_call(tracer, value, rule.name, args, kwargs)
    found = read_number(tracer, rule.name, args, kwargs)
    if found is not None:
        return found
    reason = reasons.BACKWARD if rule.name in _AUTOGRAD else reasons.UNKNOWN_CALLABLE
    if "depends on data" in rule.reason:
        unsupported(reasons.DATA_DEPENDENT, f"`{rule.name}`")
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", rule.name)
    called = f"{module}.{name}" if module else name
    unsupported(reason, f"`{called}`" if reason is reasons.BACKWARD else called)


def _touches_tensor(tracer: Tracer, v: Variable) -> bool:
    v = v.realize(tracer)
    if isinstance(v, TensorVariable):
        return True
    return isinstance(v, TupleVariable) and any(_touches_tensor(tracer, i) for i in v.items(tracer))


def _operator_call(
    tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """A function of ``operator`` on values that are no tensors: the object protocol decides."""
    name = value.__name__.rstrip("_")
    for table in (operators.BINARY, operators.INPLACE, operators.COMPARE):
        for symbol, entry in table.items():
            if entry[0] is value and len(args) == 2:
                if table is operators.COMPARE:
                    return operators.compare(tracer, symbol, args[0], args[1])
                return operators.binary_op(tracer, symbol, args[0], args[1])
    for symbol, entry in operators.UNARY.items():
        if entry[0] is value:
            return operators.unary_op(tracer, symbol, args[0])
    if name == "getitem":
        return operators.getitem(tracer, args[0], args[1])
    if name == "setitem":
        operators.setitem(tracer, args[0], args[1], args[2])
        return NONE
    if name == "delitem":
        operators.delitem(tracer, args[0], args[1])
        return NONE
    if name == "contains":
        return operators.contains(tracer, args[0], args[1])
    if name == "truth":
        return boolean(operators.truth(tracer, args[0]))
    if name == "not":
        return boolean(not operators.truth(tracer, args[0]))
    return None


def graph_node(
    tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """Put a call of a function into the graph."""
    name = name_of(value)
    kwargs = numbers_for_factors(tracer, name, kwargs) if kwargs else kwargs
    args = numbers_for_sizes(tracer, name, args)
    return tracer.graph_call("call_function", value, args, kwargs)


def graph_method(
    tracer: Tracer, name: str, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """Put a call of a tensor method into the graph."""
    rule = classify_method(name)
    if rule.kind is RuleKind.BREAK:
        number = read_number(tracer, name, args, kwargs)
        if number is not None:
            return number
        if name in _AUTOGRAD:
            unsupported(reasons.BACKWARD, f"`Tensor.{name}()`")
        if "depends on data" in rule.reason:
            unsupported(reasons.DATA_DEPENDENT, f"Tensor.{name}()")
        unsupported(reasons.UNKNOWN_CALLABLE, f"Tensor.{name}")
    if rule.kind is RuleKind.CONSTANT:
        return constant_method(tracer, name, args, kwargs)
    kwargs = numbers_for_factors(tracer, name, kwargs) if kwargs else kwargs
    if name == "new" and len(args) == 2 and args[1].realize(tracer).python_type() is torch.Size:
        name = "new_empty"  # a graph tells no Size from a tuple, but ``new`` does
    return tracer.graph_call("call_method", name, args, kwargs)


def numbers_for_factors(
    tracer: Tracer, name: str, kwargs: dict[str, Variable]
) -> dict[str, Variable]:
    """Take the number out of a tensor that is given as a factor, as torch's argument parser does.

    A learning rate may be a tensor.
    """
    factor = _FACTORS.get(name.rstrip("_"))
    given = kwargs.get(factor) if factor is not None else None
    if factor is None or given is None or not captures_numbers(tracer):
        return kwargs
    given = given.realize(tracer)
    if not isinstance(given, TensorVariable):
        return kwargs
    return {**kwargs, factor: tracer.scalar_item(given)}


def numbers_for_sizes(tracer: Tracer, name: str, args: list[Variable]) -> list[Variable]:
    """Take the numbers out of tensors that are given as sizes of a new tensor."""
    if name not in _SIZED or not takes_numbers(tracer):
        return args
    return [
        tracer.scalar_item(arg)
        if isinstance(arg, TensorVariable) and arg.meta.ndim == 0 and arg.meta.dtype is torch.int64
        else arg
        for arg in (arg.realize(tracer) for arg in args)
    ]


_SIZED = frozenset({"zeros", "ones", "empty", "rand", "randn"})

_FACTORS = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}


# --- constants -----------------------------------------------------------------------------------


def constant_call(
    tracer: Tracer, value: Any, name: str, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """A function whose result metadata and state decide."""
    if args and isinstance(args[0], TensorVariable) and name in _METHODS_BY_NAME:
        return constant_method(tracer, name, args, kwargs)
    if name.startswith(("has_torch_function", "_has_torch_function")):
        return FALSE
    if name in ("is_tensor", "is_storage") and (len(args) != 1 or kwargs):
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"The arguments of {name}()")
    if name == "is_tensor":
        return boolean(issubclass(args[0].realize(tracer).python_type(), torch.Tensor))
    if name == "is_storage":
        return boolean(args[0].realize(tracer).python_type() in _STORAGES)
    if name == "_are_we_tracing":
        return TRUE  # collectives are waited for in the graph: their results are plain tensors
    if name == "is_grad_enabled":
        return boolean(tracer.graph.state.grad_enabled)
    if name == "is_inference_mode_enabled":
        return boolean(tracer.graph.state.inference_mode)
    if name == "result_type" or any(isinstance(a.realize(tracer), TensorVariable) for a in args):
        return tracer.graph_call("call_function", value, args, kwargs)
    known = [tracer.as_python(a) for a in args]
    named = {k: tracer.as_python(v) for k, v in kwargs.items()}
    if any(v is MISSING for v in [*known, *named.values()]):
        unsupported(reasons.UNKNOWN_CALLABLE, name)
    try:
        result = tracer.graph.state_value(value, known, named)
    except Exception as error:
        tracer.raise_real(error)
    return tracer.wrap_result(result)


def _dim(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> int | None:
    given = args[1] if len(args) > 1 else kwargs.get("dim")
    if given is None:
        return None
    number = tracer.as_python(given)
    return number if type(number) is int else None


def constant_method(
    tracer: Tracer, name: str, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """A tensor method whose result metadata decides."""
    tensor = args[0]
    assert isinstance(tensor, TensorVariable)
    meta = tensor.meta
    if name in _OF_STRIDES and not (tracer.graph.layout_known and meta.is_plain):
        unsupported(reasons.UNKNOWN_CALLABLE, f"Tensor.{name}")
    if name in ("stride", "is_contiguous") and depends_on_data(meta):
        # a size of zero or one has strides of its own
        unsupported(reasons.SIZE_DEPENDS_ON_DATA, f"Tensor.{name}() hangs on it")
    if name in ("size", "stride"):
        values = meta.shape if name == "size" else meta.stride
        if values is None:
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"Tensor.{name}")
        if len(args) == 1 and not kwargs:
            cls = torch.Size if name == "size" else tuple
            return size_tuple(tracer, values, cls)
        dim = _dim(tracer, args, kwargs)
        if dim is None:
            unsupported(reasons.UNKNOWN_CALLABLE, f"Tensor.{name}")
        if not -len(values) <= dim < len(values):
            low, high = -max(len(values), 1), max(len(values), 1) - 1
            text = f"expected to be in range of [{low}, {high}], but got {dim}"
            tracer.raise_error(IndexError, f"Dimension out of range ({text})")
        return size_of(tracer, values[dim])
    if name in ("dim", "ndimension"):
        return ConstantVariable(len(meta.shape))
    if name in ("numel", "nelement"):
        return size_of(tracer, tracer.graph.product(meta.shape))
    if name == "__len__":
        if not meta.shape:
            tracer.raise_error(TypeError, "len() of a 0-d tensor")
        return size_of(tracer, meta.shape[0])
    if name == "element_size":
        return ConstantVariable(meta.dtype.itemsize)
    if name == "is_contiguous":
        given = args[1] if len(args) > 1 else kwargs.get("memory_format")
        fmt = torch.contiguous_format if given is None else tracer.as_python(given)
        return boolean(tracer.graph.is_contiguous(meta, fmt))
    if name == "is_floating_point":
        return boolean(meta.dtype.is_floating_point)
    if name == "is_complex":
        return boolean(meta.dtype.is_complex)
    if name == "is_signed":
        return boolean(meta.dtype.is_signed)
    if name in ("is_conj", "is_neg", "is_inference"):
        return boolean(getattr(meta, name))
    if name == "get_device":
        return ConstantVariable(-1 if meta.device.type == "cpu" else meta.device.index or 0)
    if name == "is_same_size":
        other = args[1].realize(tracer)
        assert isinstance(other, TensorVariable)
        return boolean(
            len(meta.shape) == len(other.meta.shape)
            and all(
                map(functools.partial(decide, tracer, operator.eq), meta.shape, other.meta.shape)
            )
        )
    unsupported(reasons.UNKNOWN_CALLABLE, f"Tensor.{name}")


_OF_STRIDES = frozenset({"stride", "is_contiguous"})

# functions of torch that do what the tensor method of the same name does
_METHODS_BY_NAME = frozenset(
    {
        "size", "stride", "dim", "ndimension", "numel", "nelement", "is_floating_point",
        "is_complex", "is_signed", "is_conj", "is_neg", "is_inference", "is_same_size",
    }
)  # fmt: skip


# --- special functions ---------------------------------------------------------------------------


def object_rule(
    tracer: Tracer, fn: ObjectVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """Rules for calling objects of C types that torch knows (operator overloads)."""
    value = fn.value
    if value is MISSING:
        return None
    if isinstance(value, torch._ops.HigherOrderOperator):
        if fn.source is not None:
            tracer.guard(IdIs(fn.source, value))
        special = _SPECIAL.get(value)
        return special(tracer, args, kwargs) if special is not None else None
    if isinstance(value, (torch._ops.OpOverloadPacket, torch._ops.OpOverload)):
        if fn.source is not None:
            tracer.guard(IdIs(fn.source, value))
        return call_rule(tracer, value, [a.realize(tracer) for a in args], kwargs)
    return None


def _true(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return TRUE


def _false(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return FALSE


def _is_compiling(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """True for the program; torch's own code would choose another computation than in eager.

    But what its optimizers skip is a look at accelerators, which is nothing where there is none,
    and the wrappers of its control flow call their operator directly rather than compile it first.
    """
    code = tracer.calling_code()
    if not code.co_filename.startswith(_TORCH) or code.co_filename.startswith(_CONTROL_FLOW):
        return TRUE
    return boolean(code.co_name.endswith("_graph_capture_health_check"))


_TORCH = os.path.dirname(torch.__file__) + os.sep
_CONTROL_FLOW = os.path.join(_TORCH, "_higher_order_ops") + os.sep


def _first(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return args[0]


def _annotated(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """``torch.jit.annotate(type, value)``: the value."""
    return kwargs["the_value"] if "the_value" in kwargs else args[1]


def _none(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return NONE


def _graph_break(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    unsupported(reasons.USER_BREAK, "graph_break()")


def _function_mode_enabled(
    tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    return boolean(torch._C._is_torch_function_mode_enabled())  # the state guard holds it


def _privateuse1_name(
    tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    return ConstantVariable(torch._C._get_privateuse1_backend_name())


def _check(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """``torch._check(condition, message)``: a decision that later calls have to agree with."""
    condition = args[0] if args else kwargs["cond"]
    condition = condition.realize(tracer)
    if isinstance(condition, TensorVariable):
        unsupported(reasons.DATA_DEPENDENT, "torch._check() of a tensor")
    if isinstance(condition, ScalarVariable) and not condition.known:
        if condition.python_type() is bool:
            tracer.assume(condition)
            return NONE
    if operators.truth(tracer, condition):
        return NONE
    unsupported(reasons.UNCAUGHT_EXCEPTION, "A RuntimeError of torch._check()")


def _check_is_size(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """``torch._check_is_size(n)``: likewise that ``n`` is not negative."""
    n = args[0] if args else kwargs["i"]
    within = operators.compare(tracer, ">=", n, ConstantVariable(0))
    return _check(tracer, [within], {})


def _sparse_adam(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return graph_node(tracer, SPARSE_ADAM, args, kwargs)


def _one_hot(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """``one_hot(t)``: where the number of classes is not given, one more than the largest."""
    one_hot: Any = torch.nn.functional.one_hot
    given = args[1] if len(args) > 1 else kwargs.get("num_classes", ConstantVariable(-1))
    tensor = args[0].realize(tracer) if args else None
    if isinstance(tensor, TensorVariable) and tracer.as_python(given) == -1:
        if takes_numbers(tracer) and tensor.meta.dtype is torch.int64:
            return _one_hot_of_all(tracer, tensor)
    return graph_node(tracer, one_hot, args, kwargs)


def _one_hot_of_all(tracer: Tracer, tensor: TensorVariable) -> Variable:
    """What ATen does where the number of classes is not given; a negative one is an error."""
    ends = []
    for name in ("min", "max"):
        end = tracer.graph_call("call_method", name, [tensor], {})
        assert isinstance(end, TensorVariable)
        ends.append(tracer.scalar_item(end))
    tracer.assume(operators.compare(tracer, ">=", ends[0], ConstantVariable(0)))
    count = operators.binary_op(tracer, "+", ends[1], ConstantVariable(1))
    device: dict[str, Variable] = {"device": ConstantVariable(tensor.meta.device)}
    classes = tracer.graph_call("call_function", torch.arange, [count], device)
    column = tracer.graph_call("call_method", "unsqueeze", [tensor, ConstantVariable(-1)], {})
    hits = tracer.graph_call("call_function", operator.eq, [column, classes], {})
    return tracer.graph_call("call_method", "long", [hits], {})


_SPECIAL: dict[Any, _Special] = {
    SPARSE_ADAM.call: _sparse_adam,
    torch.nn.functional.one_hot: _one_hot,
    torch._check: _check,
    torch._check_is_size: _check_is_size,
    torch.Tensor.backward: backward.tensor_backward,
    torch.autograd.backward: backward.function_backward,
    torch.autograd.grad: backward.function_grad,
    tensor_groups.group: tensor_groups.group_tensors,
    torch._C._get_privateuse1_backend_name: _privateuse1_name,
    torch.compiler.is_compiling: _is_compiling,
    torch.compiler.is_dynamo_compiling: _is_compiling,
    torch.compiler.is_exporting: _false,
    torch.jit.is_scripting: _false,  # type: ignore[attr-defined]
    torch.jit.is_tracing: _false,  # type: ignore[attr-defined]
    process_groups.RESOLVE: process_groups.resolve_name,
    torch.jit.annotate: _annotated,
    torch._C._get_tracing_state: _none,
    torch._C._is_tracing: _false,
    torch._C._is_torch_function_mode_enabled: _function_mode_enabled,
    torch._C._log_api_usage_once: _none,
    getattr(torch._C, "_cuda_isCurrentStreamCapturing", None): _false,  # not in builds for the CPU
}


def is_special(function: Any) -> bool:
    """True for functions with a rule of their own."""
    return function in _SPECIAL


def register_special(function: Any, handler: _Special) -> None:
    """Give a function a rule of its own (used for the package's public functions)."""
    _SPECIAL[function] = handler


SPECIAL_HANDLERS = {"none": _none, "true": _true, "break": _graph_break, "first": _first}

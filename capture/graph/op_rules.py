"""Holds the rules that say what becomes of a torch or ``operator`` function; must not know graphs.

A function is classified by the module it lives in and by its kind; the tables below hold only the
exceptions. Functions that are neither torch's nor ``operator``'s have no rule (None).
"""

from __future__ import annotations

import enum
import operator
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

__all__ = [
    "Rule",
    "RuleKind",
    "classify",
    "classify_attribute",
    "classify_method",
    "may_raise",
    "may_write",
    "scalar_decides_metadata",
]


class RuleKind(enum.Enum):
    """What capture does with a call."""

    NODE = "node"  # goes to the graph
    CONSTANT = "constant"  # a Python constant decided by metadata and state
    STATE = "state"  # changes torch's state; a node, and the graph tracks the state
    BREAK = "break"  # has to run natively
    INLINE = "inline"  # plain Python: execute its bytecode


class Rule(NamedTuple):
    """The rule for one callable."""

    kind: RuleKind
    name: str
    reason: str = ""  # for BREAK: why


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- tables ------------------------------------------------------------------------------------

# Tensor methods and torch functions by name: the value leaves the tensor world.
_LEAVES_GRAPH = _words("""
    item tolist numpy data_ptr storage untyped_storage __bool__ __int__ __float__ __complex__
    __index__ __array__ __array_wrap__ __contains__ __dlpack__ __dlpack_device__
    is_nonzero equal allclose is_set_to __repr__ __str__ __format__ _local_scalar_dense
    __cuda_array_interface__
""")
# ... or data decides the size of the result
SHAPED_BY_DATA = _words("""
    nonzero argwhere masked_select unique unique_consecutive _unique _unique2
    unique_dim bincount combinations repeat_interleave
""")
_UNTRACEABLE = _words("""
    backward register_hook register_post_accumulate_grad_hook retain_grad share_memory_ is_shared
    is_pinned pin_memory map_ map2_ apply_ set_ module_load record_stream resize_as_sparse_
    refine_names align_to align_as rename rename_ names has_names storage_offset _make_subclass
    _make_wrapper_subclass __deepcopy__ __reduce_ex__ __reduce__ __setstate__ __dir__ __hash__
    __torch_function__ __torch_dispatch__ as_subclass is_distributed is_coalesced indices values
    crow_indices col_indices ccol_indices row_indices sparse_dim dense_dim coalesce to_sparse
    to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_mkldnn sparse_mask sparse_resize_
    sparse_resize_and_clear_ dequantize q_scale q_zero_point qscheme int_repr q_per_channel_scales
    q_per_channel_zero_points q_per_channel_axis quantize_per_tensor quantize_per_channel
    quantize_per_tensor_dynamic sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor
    sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor _sparse_coo_tensor_unsafe
    from_numpy frombuffer from_file from_dlpack to_dlpack asarray
    nested_tensor _nested_tensor_from_mask
""")
_CONSTANT_METHODS = _words("""
    size stride dim ndimension numel nelement element_size is_contiguous is_floating_point
    is_complex is_signed is_conj is_neg is_inference get_device __len__ is_same_size dim_order
""")
_INLINE_METHODS = _words("__iter__ __torch_function__")

# functions of the ``torch`` namespace with no tensor kernel behind them
_CONSTANT_FUNCTIONS = _words("""
    is_tensor is_storage is_floating_point is_complex is_conj is_neg is_inference is_same_size
    numel get_default_dtype get_default_device is_grad_enabled is_inference_mode_enabled
    is_autocast_enabled is_autocast_cpu_enabled is_autocast_cache_enabled get_autocast_dtype
    get_autocast_gpu_dtype get_autocast_cpu_dtype promote_types result_type can_cast
    broadcast_shapes are_deterministic_algorithms_enabled
    is_deterministic_algorithms_warn_only_enabled
    _has_torch_function _has_torch_function_unary _has_torch_function_variadic
    has_torch_function has_torch_function_unary has_torch_function_variadic
    is_scripting is_tracing _is_tracing is_autocast_available
    _len_torch_function_stack _len_torch_dispatch_stack
""")
_STATE_FUNCTIONS = _words("""
    _set_grad_enabled set_autocast_enabled set_autocast_dtype set_autocast_cpu_enabled
    set_autocast_cpu_dtype set_autocast_gpu_dtype set_autocast_cache_enabled
    autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache
    _enter_autocast _exit_autocast _enter_inference_mode _exit_inference_mode
""")
# what a process has does not change
_AVAILABILITY = _words("is_available is_built device_count is_bf16_supported")
_DEVICE_MODULES = (
    "torch.cuda", "torch.xpu", "torch.mps", "torch.mtia", "torch.accelerator", "torch.backends",
)  # fmt: skip
_CONSTANT_TYPES: tuple[type, ...] = (torch.finfo, torch.iinfo, torch.device, torch.Size)

# Python functions become nodes as a whole where they live in one of these modules ...
_NODE_MODULES = _words("""
    torch.functional torch.nn.functional torch._tensor torch._lowrank
    torch.signal.windows.windows torch._linalg_utils torch.masked._ops
""")
# ... and have to run natively in these (or below).
_BREAK_MODULES = (
    "torch.serialization",
    "torch.random",
    "torch.cuda",
    "torch.xpu",
    "torch.mps",
    "torch.mtia",
    "torch.accelerator",
    "torch.distributed",
    "torch.nn.parallel.distributed",
    "torch.multiprocessing",
    "torch.autograd",
    "torch.utils.data",
    "torch.utils.cpp_extension",
    "torch.utils.tensorboard",
    "torch._functorch",
    "torch.jit",
    "torch.onnx",
    "torch.hub",
    "torch.export",
    "torch.fx",
    "torch._dynamo",
    "torch._inductor",
    "torch.profiler",
    "torch.package",
    "torch.sparse",
    "torch.nested",
    "torch.masked",
    "torch._higher_order_ops.flex_attention",
    "torch.library",
    "torch.storage",
    "torch._logging",
)
# inline all the same
_INLINE_MODULES = (
    "torch.autograd.grad_mode",
    "torch.autograd.function",
    "torch._functorch.functional_call",
    "torch.distributed.nn",
    "torch.distributed._functional_collectives",
    "torch.distributed.device_mesh",
    "torch.distributed._mesh_layout",
    "torch.distributed._pycute",
)
# ... and these functions of modules that have to run natively: they only read who takes part
_INLINE_FUNCTIONS = _words("""
    is_available is_initialized get_rank get_world_size get_backend get_group_rank get_global_rank
    get_process_group_ranks is_torchelastic_launched get_node_local_rank
    WORLD default_pg pg_map pg_names pg_group_ranks pg_backend_config
    _get_default_group _get_group_size _get_group_size_by_name _rank_not_in_group get_backend_config
""")
_INLINE_FUNCTION_MODULES = _words("torch.distributed torch.distributed.distributed_c10d")
_BREAK_PYTHON = _words("""
    compile vmap save load manual_seed seed initial_seed get_rng_state set_rng_state
    set_default_device set_default_dtype set_default_tensor_type set_printoptions
    use_deterministic_algorithms set_deterministic_debug_mode set_warn_always
    set_float32_matmul_precision lobpcg
""")
# how often it calls the closure, and what it keeps, depend on the numbers of every loss
_DECIDING_OPTIMIZERS = _words("torch.optim.lbfgs")
# full backward hooks of modules
_SETS_UP_HOOKS = _words("setup_input_hook setup_output_hook")
# call what they are given
_TAKES_CALLABLES = _words("triplet_margin_with_distance_loss")
# take callables, or look at data
_BREAK_FUNCTIONAL = _words("""
    assert_int_or_pair handle_torch_function
    boolean_dispatch triplet_margin_with_distance
""")
# not functions of tensors in ``operator``'s sense: the object protocol decides
_NOT_TENSOR_OPERATORS = _words("""
    is_ is_not truth not_ contains indexOf countOf index length_hint call concat iconcat delitem
    is_none is_not_none
""")

# ATen operators whose success depends on data (index out of range, singular matrix, ...).
# Everything else in ``aten`` depends on metadata only; other namespaces may always raise.
_RAISING_OPERATORS = _words("""
    index index_put index_put_ _index_put_impl_ _unsafe_index gather gather_backward
    scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_
    index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_reduce
    index_reduce_ take put put_ embedding embedding_bag _embedding_bag
    _embedding_bag_forward_only embedding_renorm_ nll_loss_forward nll_loss2d_forward nll_loss
    nll_loss2d nll_loss_nd multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward
    one_hot bincount multinomial bernoulli bernoulli_ binary_cross_entropy _ctc_loss ctc_loss
    masked_scatter masked_scatter_ repeat_interleave normal normal_ poisson binomial
    _sample_dirichlet _standard_gamma histc max_unpool2d max_unpool3d inverse cholesky
    cholesky_inverse cholesky_solve triangular_solve ormqr geqrf lu_unpack lu_solve _linalg_svd
    _linalg_det _linalg_slogdet _linalg_solve_ex _linalg_eigh _linalg_eigvals _linalg_check_errors
    take_along_dim _assert_async _assert_scalar segment_reduce searchsorted bucketize
    as_strided as_strided_ as_strided_copy as_strided_scatter _local_scalar_dense
    _pack_padded_sequence _pad_packed_sequence
    _unsafe_masked_index _unsafe_masked_index_put_accumulate
""")
# ... of which these succeed on zeros, with a result whose metadata does not depend on data
_FINE_WITH_ZEROS = _words("""
    index index_put index_put_ _index_put_impl_ _unsafe_index gather gather_backward
    scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_
    index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ take
    embedding nll_loss_forward nll_loss2d_forward bernoulli bernoulli_ binary_cross_entropy
    masked_scatter masked_scatter_ normal normal_ _embedding_bag _embedding_bag_forward_only
    searchsorted bucketize _unsafe_masked_index
""")
# functions that read a tensor's memory without an operator that would say so
READS_DATA_UNSEEN = _words("""
    tensor_split hsplit vsplit dsplit ctc_loss segment_reduce histogram histogramdd histc
    lstsq linalg_lstsq _pack_padded_sequence _pad_packed_sequence pad_sequence
    repeat_interleave nonzero_static is_nonzero asarray
""")
# functions that read numbers out of tensors in a list, likewise
READS_LISTED_TENSORS = _words("tensor as_tensor asarray new_tensor scalar_tensor")
# functions that see the storage around a tensor, which its metadata does not tell
NEEDS_WHOLE_STORAGE = _words("as_strided as_strided_ as_strided_copy as_strided_scatter")
ALWAYS_DATA_DEPENDENT = _words("""
    aten::nonzero aten::_local_scalar_dense aten::masked_select aten::index aten::_unique2
    aten::unique_dim aten::unique_consecutive aten::equal aten::bincount
""")
# ... and these on integers only, where zero is no divisor
RAISING_ON_INTEGERS = _words(
    "div div_ floor_divide floor_divide_ remainder remainder_ fmod fmod_ __rdiv__"
)
_RAISING_PREFIXES = ("linalg_", "_linalg_", "_assert")
_NEVER_RAISING = _words("linalg_vector_norm linalg_cross linalg_vecdot linalg_diagonal")

# Functions in which a Python number may take any value without changing shapes, types or success.
_SCALAR_SAFE = _words("""
    add sub subtract rsub mul multiply div divide true_divide pow float_power maximum minimum
    fmod remainder floor_divide where clamp clamp_min clamp_max clip lerp addcmul addcdiv
    masked_fill fill fill_ full_like eq ne lt le gt ge add_ sub_ mul_ div_ pow_ clamp_ lerp_
    addcmul_ addcdiv_ masked_fill_ copysign atan2 hypot xlogy threshold relu leaky_relu elu celu
    gelu hardtanh softplus softshrink hardshrink logit nan_to_num addmm addmv addbmm baddbmm addr
    iadd isub imul itruediv ipow truediv floordiv mod
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __rpow__
    __floordiv__ __rfloordiv__ __mod__ __rmod__ __iadd__ __isub__ __imul__ __itruediv__ __ipow__
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ isclose sign layer_norm group_norm batch_norm
    rms_norm normalize dropout scaled_dot_product_attention label_smoothing
    _foreach_add _foreach_add_ _foreach_sub _foreach_sub_ _foreach_mul _foreach_mul_ _foreach_div
    _foreach_div_ _foreach_addcdiv_ _foreach_addcmul_ _foreach_lerp_ _foreach_pow
    mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy tensor
""")
_SHAPED_BY_FLOAT = _words(
    "arange range interpolate upsample linspace logspace quantile unique to type"
)

_METHOD_TYPES = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
)
_IN_PLACE_OPERATORS = _words("""
    iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift setitem
    __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __imatmul__ __iand__
    __ior__ __ixor__ __ilshift__ __irshift__ __setitem__ __idiv__
""")

_ATTRIBUTES = {
    **dict.fromkeys(
        _words("""
            shape dtype device ndim layout requires_grad is_leaf is_cuda is_cpu is_meta is_sparse
            is_sparse_csr is_quantized is_mkldnn is_nested is_mps is_xpu is_mtia is_ipu is_maia
            is_vulkan is_xla itemsize nbytes
        """),
        RuleKind.CONSTANT,
    ),
    **dict.fromkeys(_words("T mT H mH real imag data"), RuleKind.NODE),
}


# --- classification ----------------------------------------------------------------------------

_cache: dict[Any, Rule] = {}


def classify(function: Callable[..., Any]) -> Rule | None:
    """Return the rule for ``function``, or None if it is none of torch's or ``operator``'s."""
    try:
        rule = _cache.get(function)
    except TypeError:  # unhashable callables are never torch's
        return None
    if rule is not None:
        return rule
    kind: Any = function
    rule = _classify(kind)
    # bound methods and user functions would be kept alive
    owner = getattr(function, "__self__", None)
    if rule is not None and (owner is None or isinstance(owner, types.ModuleType)):
        _cache[function] = rule
    return rule


def classify_method(name: str) -> Rule:
    """Return the rule for a method call on a plain tensor."""
    if name in _LEAVES_GRAPH:
        return Rule(RuleKind.BREAK, name, "its result is a Python value that depends on data")
    if name in _UNTRACEABLE:
        return Rule(RuleKind.BREAK, name, "it cannot be expressed in a graph")
    if name in _CONSTANT_METHODS:
        return Rule(RuleKind.CONSTANT, name)
    if name in _INLINE_METHODS:
        return Rule(RuleKind.INLINE, name)
    if not hasattr(torch.Tensor, name):
        return Rule(RuleKind.BREAK, name, "tensors have no such method")
    if name.startswith("_") and not name.startswith("__") and name not in _PRIVATE_OPERATORS:
        return Rule(RuleKind.BREAK, name, "a private method may look at more than metadata")
    return Rule(RuleKind.NODE, name)


_PRIVATE_OPERATORS = frozenset({"_conj", "_conj_physical", "_neg_view", "_addmm_activation"})


def classify_attribute(name: str) -> Rule:
    """Return the rule for reading an attribute of a plain tensor; a node is a ``getattr`` call."""
    kind = _ATTRIBUTES.get(name)
    if kind is None:
        return Rule(RuleKind.BREAK, name, "the attribute is not a function of metadata")
    return Rule(kind, name)


def _classify(function: Any) -> Rule | None:
    if isinstance(function, torch._ops.OpOverloadPacket | torch._ops.OpOverload):
        return _classify_operator(function)
    if isinstance(function, torch._ops.HigherOrderOperator):
        return Rule(RuleKind.BREAK, str(function), "higher-order operators are not captured")
    if isinstance(function, type):
        return _classify_type(function)
    if isinstance(function, _METHOD_TYPES):
        if issubclass(torch.Tensor, function.__objclass__) and function.__objclass__ is not object:
            if isinstance(function, types.GetSetDescriptorType):
                return classify_attribute(function.__name__)
            return classify_method(function.__name__)
        return None
    if isinstance(function, types.BuiltinFunctionType):
        return _classify_builtin(function)
    if isinstance(function, types.FunctionType):
        return _classify_python(function)
    if isinstance(function, types.MethodType):
        owner = function.__self__
        if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
            if function.__name__ == "apply":
                return Rule(RuleKind.BREAK, "apply", "custom autograd functions run natively")
            return None
        plain: Any = function.__func__
        if (plain.__module__ or "").startswith("torch."):
            return _classify_python(plain)
    return None


def _classify_operator(function: Any) -> Rule:
    name = str(function)
    overloads = (
        [function]
        if isinstance(function, torch._ops.OpOverload)
        else [getattr(function, overload) for overload in function.overloads()]
    )
    if any(torch.Tag.data_dependent_output in overload.tags for overload in overloads):
        return Rule(RuleKind.BREAK, name, "its result is a Python value that depends on data")
    return Rule(RuleKind.NODE, name)


def _classify_type(function: type) -> Rule | None:
    if function in _CONSTANT_TYPES:
        return Rule(RuleKind.CONSTANT, function.__name__)
    if issubclass(function, torch.Tensor):
        return Rule(RuleKind.BREAK, function.__name__, "tensor classes are not called in a graph")
    return None


def _classify_builtin(function: Any) -> Rule | None:
    name = function.__name__
    module = function.__module__ or ""
    owner = function.__self__
    if module == "_operator":
        if name in _NOT_TENSOR_OPERATORS:
            return None
        return Rule(RuleKind.NODE, name)
    if isinstance(owner, torch.Tensor):
        return classify_method(name)
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        return Rule(RuleKind.BREAK, name, "custom autograd functions run natively")
    if not module.startswith("torch"):
        return None
    if name in _STATE_FUNCTIONS:
        return Rule(RuleKind.STATE, name)
    if name in _CONSTANT_FUNCTIONS:
        return Rule(RuleKind.CONSTANT, name)
    # torch.add and its like belong to no module; what belongs to torch._C works on the process
    if owner is None or module in _KERNEL_MODULES:
        rule = _by_name(name)
        return rule or Rule(RuleKind.NODE, name)
    return Rule(RuleKind.BREAK, name, "it works on the process, not on tensors")


_KERNEL_MODULES = _words(
    "torch._C._nn torch._C._linalg torch._C._fft torch._C._special torch._C._VariableFunctions"
)


def _by_name(name: str) -> Rule | None:
    if name in _LEAVES_GRAPH or name in _UNTRACEABLE:
        return classify_method(name)
    if name in _BREAK_PYTHON or name in _BREAK_FUNCTIONAL:
        return Rule(RuleKind.BREAK, name, "it cannot be expressed in a graph")
    return None


def _classify_python(function: types.FunctionType) -> Rule | None:
    module = function.__module__ or ""
    name = function.__name__
    if module != "torch" and not module.startswith("torch."):
        return None
    if _within(module, ("torch.distributed",)):
        return _classify_distributed(module, name)
    if name in _STATE_FUNCTIONS:
        return Rule(RuleKind.STATE, name)
    if name in _CONSTANT_FUNCTIONS:
        return Rule(RuleKind.CONSTANT, name)
    if name in _AVAILABILITY and _within(module, _DEVICE_MODULES):
        return Rule(RuleKind.CONSTANT, name)
    if module in _NODE_MODULES:
        if name in _TAKES_CALLABLES:
            return Rule(RuleKind.INLINE, name)
        if module == "torch._tensor":
            return classify_method(name)
        return _by_name(name) or Rule(RuleKind.NODE, name)
    if module == "torch.utils.hooks" and name in _SETS_UP_HOOKS:
        return Rule(RuleKind.BREAK, name, "it looks for its own part of autograd's graph")
    if name == "step" and module in _DECIDING_OPTIMIZERS:
        return Rule(RuleKind.BREAK, "LBFGS.step", "what it does depends on data")
    if name in _BREAK_PYTHON and (module == "torch" or _within(module, _BREAK_MODULES)):
        return Rule(RuleKind.BREAK, name, "it cannot be expressed in a graph")
    if _within(module, _INLINE_MODULES):
        return Rule(RuleKind.INLINE, name)
    if _within(module, _BREAK_MODULES):
        return Rule(RuleKind.BREAK, name, f"functions of {module} run natively")
    return Rule(RuleKind.INLINE, name)


def _classify_distributed(module: str, name: str) -> Rule:
    if name == "_are_we_tracing":
        return Rule(RuleKind.CONSTANT, name)
    if module in _INLINE_FUNCTION_MODULES and name in _INLINE_FUNCTIONS:
        return Rule(RuleKind.INLINE, name)
    if _within(module, _INLINE_MODULES):
        return Rule(RuleKind.INLINE, name)
    return Rule(RuleKind.BREAK, name, f"functions of {module} run natively")


def _within(module: str, prefixes: Iterable[str]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


# --- questions about one call ------------------------------------------------------------------


def may_raise(operators: Iterable[str]) -> bool:
    """Tell whether a call that came down to these ATen operators can fail because of data."""
    for name in operators:
        namespace, _, base = name.partition("::")
        if namespace == "prim":
            continue
        if namespace != "aten":
            return True
        if _base_may_raise(base):
            return True
    return False


def _base_may_raise(base: str) -> bool:
    return (
        base in _RAISING_OPERATORS
        or base in RAISING_ON_INTEGERS
        or (base.startswith(_RAISING_PREFIXES) and base not in _NEVER_RAISING)
    )


def checks_numbers(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a call reads numbers out of tensors only to refuse some; it takes zeros."""
    if name == "one_hot":  # told the number of classes, it need not look for it
        classes = kwargs.get("num_classes", args[1] if len(args) > 1 else None)
        return type(classes) is int and classes > 0
    return False


def safe_on_samples(operators: Iterable[str]) -> bool:
    """Tell whether a call that came down to these operators may be judged by a run on zeros."""
    for name in operators:
        namespace, _, base = name.partition("::")
        if namespace != "aten" or (base not in _FINE_WITH_ZEROS and _base_may_raise(base)):
            return False
    return True


def may_write(name: str, kwargs: Iterable[str]) -> bool:
    """Tell by its name whether a call may change the metadata of an argument."""
    if name.endswith("_") and not name.endswith("__"):
        return True
    return name in _IN_PLACE_OPERATORS or "out" in kwargs


def scalar_decides_metadata(name: str, pytype: type) -> bool:
    """Tell whether a Python number computed in the graph may decide the result's metadata."""
    if name in _SCALAR_SAFE:
        return False
    if pytype is float:
        return name in _SHAPED_BY_FLOAT
    return True


def runs_on_samples(target: Any) -> bool:
    """Tell whether a target may be run on real tensors: torch's own functions, ATen operators."""
    if isinstance(target, torch._ops.OpOverload):
        return bool(target.namespace == "aten")
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target._qualified_op_name.startswith("aten::")
    return isinstance(target, str) or target is getattr or classify(target) is not None


def lives_on(target: Any) -> bool:
    """Tell whether a target may be kept for ever: a name, or a part of torch or Python."""
    return (
        isinstance(target, str | torch._ops.OpOverload | torch._ops.OpOverloadPacket)
        or target is getattr
        or classify(target) is not None
    )


def name_of(target: Any) -> str:
    """Return the plain name of a call target."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    name = getattr(target, "__name__", None)
    return name if isinstance(name, str) else type(target).__name__


SCALAR_MODULES = _words("_operator builtins math torch")

assert operator.add.__module__ == "_operator"  # what the classification rests on

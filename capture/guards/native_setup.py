"""Holds the self-tests after which the native readers of tensors and of torch's state are used.

The C code knows where torch keeps things only by trying: here it is given samples, and what it
reads is compared with what Python says. What disagrees stays off, and Python answers in its place.
Must not know guards.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

try:
    from capture import _native
except ImportError:  # not built: guards are checked in Python
    _native = None  # type: ignore[assignment]

__all__ = ["NativeReaders", "built", "fallback_words", "native", "readers"]

# c10::DeviceType, part of torch's stable interface. A key set tells cpu and meta by itself.
_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "xpu": 12, "mps": 13, "meta": 14, "privateuseone": 20}


@dataclass
class NativeReaders:
    """What the self-tests have found out."""

    metadata: bool = False
    autograd: bool = False
    storage: bool = False
    state_words: frozenset[str] = frozenset()
    shortcuts: bool = False
    words: bool = False
    dtype_codes: dict[torch.dtype, int] = field(default_factory=dict)

    def device_codes(self, device: torch.device) -> tuple[int, int] | None:
        """Return torch's numbers for a device; (-1, -1) if the key set tells; None if unknown."""
        if device.type in ("cpu", "meta"):
            return (-1, -1)
        code = _DEVICE_TYPES.get(device.type)
        return None if code is None else (code, -1 if device.index is None else device.index)


_found: NativeReaders | None = None


def native() -> Any:
    """Return the native module; raise ImportError if it is not built."""
    if _native is None:
        raise ImportError("capture._native is not built, and guards are compiled to it")
    return _native


def built() -> bool:
    """Whether the native module is there and its self-tests were run."""
    return _found is not None


def readers() -> NativeReaders:
    """Return what can be read natively, running the self-tests at the first call."""
    global _found
    if _found is None:
        if _native is None or torch._C._functorch.peek_interpreter_stack() is not None:
            # inside a function transform all samples would be wrapped: test another time
            return NativeReaders()
        with _undisturbed():
            _found = _run_self_tests()
    return _found


def _run_self_tests() -> NativeReaders:
    found = NativeReaders()
    _test_tensors(found)
    _test_state(found)
    found.shortcuts = _versions_follow_writes()
    _native.allow_shortcuts(found.shortcuts)
    if found.metadata and found.shortcuts:
        found.words = _words_follow_writes(found.dtype_codes)
        _native.tensor_trust_words(found.words)
    return found


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No modes, whatever the user has set around the first compilation."""
    c: Any = torch._C
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        c.DisableTorchFunction(),
        c._DisableTorchDispatch(),
    ):
        yield


def _library(name: str) -> str:
    folder = Path(torch.__file__).parent / "lib"
    for suffix in (".so", ".dylib"):
        if (folder / (name + suffix)).exists():
            return str(folder / (name + suffix))
    return str(folder / name)


# ---- tensors ----------------------------------------------------------------------------------


def _test_tensors(found: NativeReaders) -> None:
    base = torch._C.TensorBase
    plain = torch.empty_strided((2, 3), (3, 1), dtype=torch.float32, device="cpu")
    tensors = [
        plain,
        plain.t(),
        torch.empty((), dtype=torch.int64, device="cpu"),
        torch.empty((1, 0, 7), dtype=torch.bool, device="cpu"),
        torch.empty(2, 2, 2, 2, 2, 2, 2, dtype=torch.float64, device="cpu").permute(
            6, 0, 1, 2, 5, 4, 3
        ),
        torch.empty(4, dtype=torch.complex64, device="cpu").conj(),
        torch.empty(5, dtype=torch.float16, device="meta"),
        torch.nn.Parameter(torch.empty(3, dtype=torch.bfloat16, device="cpu")),
    ]
    with torch.inference_mode():
        tensors.append(torch.empty(3, device="cpu", dtype=torch.float32))
    samples = [_sample(tensor) for tensor in tensors]
    grads = []
    for _ in range(12):
        wanting = torch.empty(2, device="cpu", dtype=torch.float32).requires_grad_()
        wanted = torch.empty(2, device="cpu", dtype=torch.float32).requires_grad_()
        wanted.requires_grad_(False)
        result = wanting * 2
        grads.append((wanting, wanted, result, result.grad_fn))
    leaf = torch.empty(4, device="cpu", dtype=torch.float32)
    view = leaf[:2]
    leaf.mul_(grads[0][0][0])  # now the view owes its flag to its base
    checked = [tensor for *row, _ in grads for tensor in row] + [leaf, view, plain, grads[0][0][:1]]
    checks = [(t, t.requires_grad, t.is_leaf) for t in [*checked, *tensors]]
    metadata, autograd, storage = _native.tensor_setup(
        _library("libtorch_cpu"), base, samples, grads, checks
    )
    found.metadata, found.autograd, found.storage = metadata, autograd, storage
    if metadata:
        found.dtype_codes = _dtype_codes()
        found.metadata = len(set(found.dtype_codes.values())) == len(found.dtype_codes)


def _sample(tensor: torch.Tensor) -> tuple[object, ...]:
    return (
        tensor,
        torch._C._dispatch_keys(tensor).raw_repr(),
        tensor.untyped_storage()._cdata,
        tuple(tensor.shape),
        tensor.stride(),
        _DEVICE_TYPES[tensor.device.type],
        -1 if tensor.device.index is None else tensor.device.index,
    )


# Tensors of any other dtype (quantized, bits, complex32) are looked at in Python.
_DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)


def _dtype_codes() -> dict[torch.dtype, int]:
    codes: dict[torch.dtype, int] = {}
    for name in _DTYPES:
        dtype = getattr(torch, name, None)
        if dtype is not None:
            numbers = _native.tensor_codes(torch.empty(0, dtype=dtype, device="cpu"))
            if numbers is not None:
                codes[dtype] = numbers[0]
    return codes


# ---- torch's state ----------------------------------------------------------------------------


def fallback_words() -> dict[str, Any]:
    """Return, by word, a callable that computes a number for that part of the state in Python."""
    c: Any = torch._C
    forward_ad: Any = torch.autograd.forward_ad

    def autograd() -> int:
        return (
            int(torch.is_grad_enabled())
            | int(torch.is_inference_mode_enabled()) << 1
            | int(c._is_fwd_grad_enabled()) << 2
        )

    def torch_function() -> int:
        return int(c._is_torch_function_enabled()) | int(c._is_torch_function_all_disabled()) << 1

    def deterministic() -> int:
        return (
            int(c._get_deterministic_algorithms())
            | int(c._get_deterministic_algorithms_warn_only()) << 1
        )

    def saved_hooks() -> int:
        hooks = c._autograd._top_saved_tensors_default_hooks(True)
        return int(hooks is not None or not c._autograd._saved_tensors_hooks_is_enabled())

    def autocast() -> int:
        parts = (torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda"))
        return hash((*parts, torch.is_autocast_cache_enabled())) & 0xFFFF_FFFF

    return {
        "autograd": autograd,
        "keys_included": lambda: c._dispatch_tls_local_include_set().raw_repr(),
        "keys_excluded": lambda: c._dispatch_tls_local_exclude_set().raw_repr(),
        "default_dtype": lambda: id(torch.get_default_dtype()),
        "default_backend": lambda: hash(str(c._get_default_device())) & 0xFFFF_FFFF,
        "deterministic": deterministic,
        "torch_function": torch_function,
        "function_modes": c._len_torch_function_stack,
        "dispatch_modes": c._len_torch_dispatch_stack,
        "saved_hooks": saved_hooks,
        "forward_ad": lambda: forward_ad._current_level + 1,
        "autocast": autocast,
    }


def _test_state(found: NativeReaders) -> None:
    forward_ad = torch.autograd.forward_ad
    _native.state_setup(
        _library("libc10"),
        _library("libtorch_cpu"),
        _library("libtorch_python"),
        vars(forward_ad),
        fallback_words(),
    )
    offset = _find_autograd_flags()
    read = functools.partial(_native.state_native_words, offset)
    usable = set(read())
    if offset < 0:
        usable.discard("autograd")
    for word, change, undo in _changes():
        # the word must move with the state, come back with it, and no other may jump about
        before = read()
        change()
        try:
            during = read()
        finally:
            undo()
        if during.get(word) == before.get(word) or read() != before:
            usable.discard(word)
    _test_values(usable, read())
    found.state_words = frozenset(usable)
    _native.state_enable(found.state_words)


def _find_autograd_flags() -> int:
    """Return the offset of the byte of autograd flags, or -1."""
    settings = ((1, torch._C._set_grad_enabled), (4, torch._C._set_fwd_grad_enabled))
    before = _native.state_autograd_bytes()
    places = set(range(len(before)))
    for bit, setter in settings:
        setter(False)
        try:
            during = _native.state_autograd_bytes()
        finally:
            setter(True)
        places &= {i for i in places if before[i] ^ during[i] == bit and before[i] & bit}
    with torch.inference_mode():
        during = _native.state_autograd_bytes()
    places &= {i for i in places if not before[i] & 2 and during[i] & 2}
    return places.pop() if len(places) == 1 else -1


def _changes() -> list[tuple[str, Any, Any]]:
    """Thread-local changes to try: (word, make it, undo it)."""
    c: Any = torch._C
    cpu_enabled = torch.is_autocast_enabled("cpu")
    cpu_dtype = torch.get_autocast_dtype("cpu")
    other_dtype = torch.float16 if cpu_dtype is torch.bfloat16 else torch.bfloat16
    cache = torch.is_autocast_cache_enabled()
    function_mode = torch.overrides.BaseTorchFunctionMode()
    dispatch_mode = torch.utils._python_dispatch.BaseTorchDispatchMode()  # type: ignore[no-untyped-call]
    no_dispatch: list[Any] = []
    no_function: list[Any] = []

    def enter(guards: list[Any], guard: Any) -> None:
        guard.__enter__()
        guards.append(guard)

    def leave(guards: list[Any]) -> None:
        guards.pop().__exit__(None, None, None)

    grad = (lambda: c._set_grad_enabled(False), lambda: c._set_grad_enabled(True))
    excluded = (
        lambda: torch.set_autocast_enabled("cpu", not cpu_enabled),
        lambda: torch.set_autocast_enabled("cpu", cpu_enabled),
    )
    # a key that matters to no operator run meanwhile, for none is
    key = c.DispatchKey.FuncTorchVmapMode
    is_included = c._dispatch_tls_is_dispatch_key_included(key)
    included = (
        lambda: c._dispatch_tls_set_dispatch_key_included(key, not is_included),
        lambda: c._dispatch_tls_set_dispatch_key_included(key, is_included),
    )
    dtype = (
        lambda: torch.set_autocast_dtype("cpu", other_dtype),
        lambda: torch.set_autocast_dtype("cpu", cpu_dtype),
    )
    cached = (
        lambda: torch.set_autocast_cache_enabled(not cache),
        lambda: torch.set_autocast_cache_enabled(cache),
    )
    hooks = (
        lambda: c._autograd._push_saved_tensors_default_hooks(_nothing, _nothing),
        lambda: c._autograd._pop_saved_tensors_default_hooks(),
    )
    disabled = (
        lambda: c._autograd._saved_tensors_hooks_disable("self-test"),
        lambda: c._autograd._saved_tensors_hooks_enable(),
    )
    function = (
        lambda: c._push_on_torch_function_stack(function_mode),
        lambda: c._pop_torch_function_stack(),
    )
    dispatch = (lambda: enter(no_dispatch, dispatch_mode), lambda: leave(no_dispatch))
    subclass = (
        lambda: enter(no_function, c._EnableTorchFunction()),
        lambda: leave(no_function),
    )
    changes: list[tuple[str, Any, Any]] = [
        ("autograd", *grad),
        ("keys_excluded", *excluded),
        ("autocast", *dtype),
        ("autocast", *cached),
        ("function_modes", *function),
        ("dispatch_modes", *dispatch),
        ("keys_included", *included),
        ("torch_function", *subclass),
    ]
    if c._autograd._saved_tensors_hooks_is_enabled():
        if c._autograd._top_saved_tensors_default_hooks(True) is None:
            changes += [("saved_hooks", *hooks), ("saved_hooks", *disabled)]
    return changes


def _nothing(value: object) -> object:
    return value


def _test_values(usable: set[str], words: dict[str, int]) -> None:
    """Compare the words of process-wide state, which is not to be changed for a test."""
    c: Any = torch._C
    expected = {
        "deterministic": int(c._get_deterministic_algorithms())
        | int(c._get_deterministic_algorithms_warn_only()) << 1,
        "function_modes": c._len_torch_function_stack(),
        "dispatch_modes": c._len_torch_dispatch_stack(),
        "forward_ad": torch.autograd.forward_ad._current_level + 1,
        "saved_hooks": fallback_words()["saved_hooks"](),
        "autograd": fallback_words()["autograd"](),
    }
    for word, value in expected.items():
        if words.get(word) != value:
            usable.discard(word)


# ---- versions of dicts and types --------------------------------------------------------------


def _versions_follow_writes() -> bool:
    """Whether a native tree that trusts version tags notices each form of write."""
    previous = _native.allow_shortcuts(True)
    try:
        return all(_noticed(*case) for case in _dict_writes()) and all(
            _noticed_on_type(write) for write in _TYPE_WRITES
        )
    finally:
        _native.allow_shortcuts(previous)


class _Plain:
    """An object with an instance dict."""


_WRITES: dict[str, str] = {
    "setattr": "o.x = other",
    "setattr many": "for _ in range(20): o.x = other",
    "delattr": "del o.x",
    "new attribute": "o.y = other",
    "item": "d['x'] = other",
    "del item": "del d['x']",
    "update": "d.update(x=other)",
    "setdefault": "d.setdefault('y', other)",
    "pop": "d.pop('x')",
    "popitem": "d.popitem()",
    "clear": "d.clear()",
    "in-place or": "d |= {'x': other}",
    "generic setattr": "object.__setattr__(o, 'x', other)",
}


def _dict_writes() -> Iterator[tuple[str, bool]]:
    for write in _WRITES.values():
        yield write, False
        yield write, True


def _noticed(write: str, through_instance: bool) -> bool:
    """Check a one-item dict, write to it, check again: the second answer must be no."""
    # the numbers of accessors and checks are guard_tree.h's: 0 local, 5 dict item, 8 instance dict;
    # 1 identity, 5 keys
    holder = _Plain()
    marker, other = object(), object()
    holder.x = marker  # type: ignore[attr-defined]
    keys = (5, ("x",))
    item = (5, "x", ((1, marker),), (), (), -1)
    spec: Any
    if through_instance:
        inner = (8, None, (keys,), (item,), (), -1)
        spec = ((0, 0, (), (inner,), (), -1),)
        values: tuple[object, ...] = (holder,)
    else:
        spec = ((0, 0, (keys,), (item,), (), -1),)
        values = (holder.__dict__,)
    tree = _native.GuardTree(spec, 0, (), None)
    if any(tree.check(values) is None for _ in range(3)):
        return False
    code = compile(f"def write(o, d, other):\n    {write}", "<self-test>", "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)
    scope["write"](holder, holder.__dict__, other)
    return tree.check(values) is None


_TYPE_WRITES: tuple[str, ...] = (
    "Child.x = other",
    "Base.x = other",
    "del Base.x",
    "Child.__bases__ = (Other,)",
    "type.__setattr__(Base, 'x', other)",
    "Middle.x = other",
)


def _noticed_on_type(write: str) -> bool:
    # 0 local, 13 type attribute; 1 identity
    marker, other = object(), object()
    scope: dict[str, Any] = {"other": other}
    scope["Base"] = type("Base", (), {"x": marker})
    scope["Other"] = type("Other", (), {})
    scope["Middle"] = type("Middle", (scope["Base"],), {})
    scope["Child"] = type("Child", (scope["Middle"],), {})
    item = (13, "x", ((1, marker),), (), (), -1)
    tree = _native.GuardTree(((0, 0, (), (item,), (), -1),), 0, (), None)
    values = (scope["Child"],)
    if any(tree.check(values) is None for _ in range(3)):
        return False
    exec(compile(write, "<self-test>", "exec"), scope)
    return tree.check(values) is None


# ---- words of tensors -------------------------------------------------------------------------


# Each changes what some fact of `t`, a float32 matrix of 2 by 3, says.
_TENSOR_WRITES: tuple[str, ...] = (
    "t.requires_grad_()",
    "t.data = empty(2, 4)",
    "t.data = empty(6)",
    "t.data = empty(2, 3, dtype=torch.int32)",
    "t.data = empty(3, 2).t()",
    "torch.utils.swap_tensors(t, empty(2, 3, device='meta'))",
    "torch.utils.swap_tensors(t, torch._neg_view(empty(2, 3)))",
    "t.t_()",
    "t.unsqueeze_(0)",
    "t.resize_(3, 2)",
    "t.set_(empty(5))",
    "t.set_(t.untyped_storage(), 0, (2, 3), (1, 2))",
    "t.mul_(empty((), requires_grad=True))",
    "torch.utils.swap_tensors(t, empty(2, 3, dtype=torch.float64))",
    "t.__class__ = torch.nn.Parameter",
)


def _words_follow_writes(codes: dict[torch.dtype, int]) -> bool:
    """Whether a native tree that compares words of a tensor notices each form of write."""
    shortcuts, words = _native.allow_shortcuts(True), _native.tensor_trust_words(True)
    try:
        return all(_noticed_on_tensor(write, codes) for write in _TENSOR_WRITES)
    finally:
        _native.allow_shortcuts(shortcuts)
        _native.tensor_trust_words(words)


def _noticed_on_tensor(write: str, codes: dict[torch.dtype, int]) -> bool:
    """Check a dict with a tensor, write to that, check again: the second answer must be no."""
    # 0 local, 5 dict item; 10 tensor
    tensor = torch.empty(2, 3, dtype=torch.float32, device="cpu")
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    layout = ((2, 3), (3, 1))
    facts = (torch.Tensor, keys, codes[torch.float32], -1, -1, *layout, 0, 1, True, False, _nothing)
    item = (5, "t", ((10, facts),), (), (), -1)
    tree = _native.GuardTree(((0, 0, (), (item,), (), -1),), 0, (), None)
    values = ({"t": tensor},)
    if any(tree.check(values) is None for _ in range(3)) or tree.words == 0:
        return False
    empty = functools.partial(torch.empty, dtype=torch.float32, device="cpu")
    try:
        exec(compile(write, "<self-test>", "exec"), {"t": tensor, "torch": torch, "empty": empty})
    except Exception:  # a torch that has no such write, or another way to say it
        return False
    return tree.check(values) is None

"""Holds the types of the native core; the C files in csrc/ say why. Must not know torch."""

from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

_P = ParamSpec("_P")
_R = TypeVar("_R")

class Region:
    """How a compiled function compiles, and the owner of its frame-start sites.

    ``convert`` runs on a miss, with capture off in this thread and in one thread at a time; it adds
    the entry to the site itself, and None means "run this one eagerly now". What it raises leaves
    the frame.
    """

    def __new__(
        cls,
        convert: Callable[[Site, list[Any], FunctionType], Entry | None],
        make_resume: Callable[[Site, FunctionType], CodeType | Break],
        *,
        name: str = "",
    ) -> Region: ...
    enabled: bool
    @property
    def convert(self) -> Callable[[Site, list[Any], FunctionType], Entry | None]: ...
    @property
    def make_resume(self) -> Callable[[Site, FunctionType], CodeType | Break]: ...
    @property
    def name(self) -> str: ...
    def sites(self) -> list[tuple[CodeType, Site]]:
        """Return the frame-start sites, each with the code it starts."""

class Site:
    """A point where a captured piece may start: a frame's start, or behind a graph break."""

    def __new__(
        cls, index: int, layout: object, num_cells: int, slot0: bool, data: object = None
    ) -> Site: ...
    skip: bool
    data: Any
    @property
    def resume_code(self) -> CodeType | Break | None: ...
    @resume_code.setter
    def resume_code(self, code: CodeType | None) -> None: ...
    @property
    def index(self) -> int: ...
    @property
    def layout(self) -> Any: ...
    @property
    def num_cells(self) -> int: ...
    @property
    def slot0(self) -> bool: ...
    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, the most recent hit first."""
    @property
    def resume_sites(self) -> dict[Any, Any]: ...
    @property
    def code(self) -> CodeType | None:
        """The code object of a frame-start site, None otherwise."""
    def add_entry(self, entry: Entry) -> None:
        """Put an entry in front of the others; dead ones are dropped."""
    def remove_entry(self, entry: Entry) -> None:
        """Take an entry out."""
    def clear(self) -> None:
        """Forget the entries, the skip mark and the resume sites."""

class Entry:
    """One compiled piece. A number >= 0 names a capture, ``~i`` the graph's output ``i``."""

    def __new__(
        cls,
        guards: GuardTree,
        graph: Callable[..., Any] | None,
        n_inputs: int,
        boxed: bool,
        epilogue: int | Callable[..., Any],
        epilogue_args: tuple[int, ...],
        restartable: bool | Callable[[BaseException], bool],
        n_outputs: int,
        data: object = None,
        failure: Callable[..., object] | None = None,
        failure_args: tuple[int, ...] = (),
        drops: tuple[int, ...] = ...,
        depth: int = 0,
    ) -> Entry:
        """``failure`` gets the captures named by ``failure_args`` and the graph's exception.

        Where the recursion limit is closer than ``depth`` frames on top of the piece's own, the
        piece is left to Python.
        """
    data: Any
    @property
    def guards(self) -> GuardTree: ...
    @property
    def graph(self) -> Callable[..., Any] | None: ...
    @property
    def epilogue(self) -> int | Callable[..., Any]: ...
    @property
    def epilogue_args(self) -> tuple[int, ...]: ...
    @property
    def n_inputs(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def boxed(self) -> bool: ...
    @property
    def depth(self) -> int: ...
    @property
    def restartable(self) -> bool: ...
    @property
    def hits(self) -> int: ...
    @property
    def alive(self) -> bool: ...
    def kill(self) -> None:
        """Take the entry out of its site for good and let go of all it holds."""

class Break:
    """One instruction run natively, and the sites it may lead to.

    ``code`` takes ``(slot0, box)`` if ``takes_slot0``, else ``(box)``. With ``has_slot0`` false the
    values hold none for slot 0, and None is passed.

    Of the head of a loop, ``make_loop()`` makes what runs the rest of it at once, or None. It is
    asked for after many rounds without a graph. Its code may end the frame: it returns
    ``(-1, result)`` then.
    """

    def __new__(
        cls,
        code: CodeType,
        sites: tuple[Site, ...],
        takes_slot0: bool,
        has_slot0: bool = True,
        make_loop: Callable[[], Break | None] | None = None,
    ) -> Break: ...
    @property
    def code(self) -> CodeType: ...
    @property
    def sites(self) -> tuple[Site, ...]: ...
    @property
    def takes_slot0(self) -> bool: ...
    @property
    def has_slot0(self) -> bool: ...

class Continue:
    """ "Run this next, with these values": what an epilogue returns when the frame goes on.

    Calling it drives the frame to its end. It can be run once. With None for ``func`` it belongs to
    the frame whose epilogue returns it, and cannot be called.
    """

    def __new__(
        cls,
        target: Break | Site,
        func: Callable[..., Any] | None,
        cells: tuple[Any, ...],
        values: Iterable[object],
    ) -> Continue: ...
    def __call__(self) -> Any: ...
    @property
    def target(self) -> Break | Site: ...
    @property
    def func(self) -> FunctionType | None: ...
    @property
    def cells(self) -> tuple[Any, ...]: ...
    @property
    def values(self) -> tuple[Any, ...]: ...

class State:
    """An iterator that hands its items over and forgets them."""

    def __new__(cls, values: Iterable[object]) -> State: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def __len__(self) -> int: ...

class CompiledFunction(Generic[_P, _R]):
    """Call ``fn`` with the region current on this thread. Binds as a method, like a function."""

    def __new__(cls, fn: Callable[_P, _R], region: Region) -> CompiledFunction[_P, _R]: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: type, /) -> CompiledFunction[_P, _R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None, /) -> MethodType: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def fn(self) -> Callable[_P, _R]: ...
    @property
    def region(self) -> Region: ...

class Disabled(Generic[_P, _R]):
    """Call ``fn`` with no region current on this thread. Binds as a method, like a function."""

    def __new__(cls, fn: Callable[_P, _R]) -> Disabled[_P, _R]: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: type, /) -> Disabled[_P, _R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None, /) -> MethodType: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def fn(self) -> Callable[_P, _R]: ...
    @property
    def region(self) -> None: ...

def set_current(region: Region | None, /) -> Region | None:
    """Make a region, or None, this thread's current one; return the previous one."""

def current() -> Region | None:
    """Return this thread's current region."""

def tracing() -> bool:
    """Tell whether this thread is compiling."""

def skip_code(code: CodeType, /) -> None:
    """Never capture frames of this code; their callees still are."""

def disable_code(code: CodeType, /) -> None:
    """Run frames of this code, and all that they call, with no region current."""

def skip_files(
    prefixes: tuple[str, ...], exceptions: tuple[str, ...], disabled: tuple[str, ...] = ..., /
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Never capture frames whose file starts with a prefix; the longest of either kind wins.

    Below files with a disabled prefix no region is current. Returns what was set before.
    """

def reset_code(code: CodeType, /) -> None:
    """Drop what every region has compiled for this code."""

def stats() -> dict[str, int]:
    """Return the process's counters.

    hits, misses, converted, refused (convert gave None), busy (another thread was compiling),
    stale (a fresh entry's guards did not hold), restarts, breaks, resumed (native), frames (acted
    on), inside (regions entered and not left), installed (the hook is the current evaluator).
    """

def self_test() -> None:
    """Check what can only be seen from C; raise AssertionError when it does not hold."""

# ---- the guard tree -----------------------------------------------------------------------------

_Node = tuple[int, object, tuple[tuple[int, object], ...], tuple[Any, ...], tuple[int, ...], int]

class GuardTree:
    """The guards of one cache entry, compiled; ``guards/lower.py`` writes the spec.

    A node is (accessor, key or index, checks, children, places in the captures, slot or -1), a
    check (kind, argument), a post check (kind, slots, argument).
    """

    def __new__(
        cls,
        spec: tuple[_Node, ...],
        n_captures: int,
        post_checks: tuple[tuple[int, tuple[int, ...], object], ...],
        state: GlobalStateSnapshot | None,
        n_slots: int = 0,
    ) -> GuardTree: ...
    shortcuts: bool
    """Whether version tags of dicts and types are trusted."""
    @property
    def n_captures(self) -> int: ...
    @property
    def alive(self) -> bool:
        """False once an object compared by address has died: the guards never hold again."""
    @property
    def runs_code(self) -> bool:
        """Whether a check may run arbitrary code."""
    @property
    def words(self) -> int:
        """How many words of memory stand for checks that held before."""
    @property
    def checked(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @overload
    def check(self, values: Iterable[object], func: object = None) -> tuple[Any, ...] | None: ...
    @overload
    def check(self, values: Iterable[object], func: object, repeat: int) -> float: ...

class GlobalStateSnapshot:
    """Torch's global state at one moment, in one thread, as a row of words."""

    def holds(self) -> bool:
        """Whether the state of this thread is this one."""
    def changed(self) -> list[str]:
        """Return the names of the words that differ now."""
    def words(self) -> dict[str, int]:
        """Return the words by name."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

def state_snapshot(
    under_autocast: bool = False, details: Callable[[], bool] | None = None
) -> GlobalStateSnapshot:
    """Take a snapshot; ``details`` compares what words cannot tell, each time."""

def state_setup(
    libc10: str,
    libtorch_cpu: str,
    libtorch_python: str,
    forward_ad: dict[str, Any],
    fallbacks: dict[str, Callable[[], int]],
    /,
) -> None:
    """Look up torch's functions; use none yet."""

def state_autograd_bytes() -> bytes:
    """Return the start of this thread's autograd state, in which the flags are to be found."""

def state_native_words(autograd_offset: int, /) -> dict[str, int]:
    """Return what the native readers read now."""

def state_enable(words: Iterable[str], /) -> None:
    """Read these words natively and no others."""

def tensor_setup(
    libtorch_cpu: str,
    base: type,
    samples: list[Any],
    grads: list[Any],
    checks: list[Any],
    /,
) -> tuple[bool, bool, bool]:
    """Find out how tensors are read; tell whether metadata, autograd and storage can be."""

def tensor_codes(tensor: object, /) -> tuple[int, int, int] | None:
    """Return torch's numbers for the dtype, the device type and the device index."""

def tensor_trust_words(trusted: bool, /) -> bool:
    """Let the words that a tensor's facts rest on stand for them; return the previous choice."""

def allow_shortcuts(allowed: bool, /) -> bool:
    """Trust version tags in trees made from now on; return the previous choice."""

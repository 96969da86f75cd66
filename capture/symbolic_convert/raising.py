"""Holds how exceptions begin in the program being captured, with their context."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from capture import break_reasons as reasons
from capture.errors import GraphBreak
from capture.variables.base import ObservedException, Variable, unsupported
from capture.variables.exceptions import follows_from_args, real_fields
from capture.variables.objects import ExceptionVariable

if TYPE_CHECKING:
    from capture.symbolic_convert.translator import Translator


def raise_real(tracer: Translator, error: BaseException) -> NoReturn:
    """Raise in the traced program what a call made during capture raised."""
    args = []
    for a in error.args:
        try:
            args.append(tracer.wrap_result(a))
        except GraphBreak:
            unsupported(reasons.UNCAUGHT_EXCEPTION, repr(error))
    cls = type(error)
    if cls.__init__ is not BaseException.__init__ and not _native_exception(cls):
        unsupported(reasons.UNCAUGHT_EXCEPTION, repr(error))
    exception = ExceptionVariable(cls, args, None)
    exception.fields = real_fields(tracer, error)
    if follows_from_args(error):
        exception.given = (args, {})
    set_context(tracer, exception)
    raise ObservedException(exception)


def set_context(tracer: Translator, exception: Variable) -> None:
    """``__context__``: what was being handled when the exception was raised."""
    for frame in reversed(tracer.frames):
        if frame.handled:
            chain_to(exception, frame.handled[-1])
            return


def chain_to(exception: Variable, handled: Variable) -> None:
    """Make what was being handled an exception's ``__context__``."""
    if isinstance(exception, ExceptionVariable) and handled is not exception:
        _cut_cycle(handled, exception)
        exception.context = handled


def _cut_cycle(chain: Variable, exception: Variable) -> None:
    """Take an exception out of a chain of contexts that it is about to head.

    The program may have closed the chain to a ring of its own.
    """
    seen = set()
    while isinstance(chain, ExceptionVariable) and chain.context is not None:
        if chain.context is exception:
            chain.context = None
            return
        seen.add(id(chain))
        chain = chain.context
        if id(chain) in seen:
            return


def _native_exception(cls: type) -> bool:
    return not cls.__flags__ & (1 << 9)

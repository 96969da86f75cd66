"""Holds the rules of locks made during capture and of the thread that runs."""

from __future__ import annotations

import _thread
import threading
from dataclasses import dataclass

from capture import break_reasons as reasons
from capture.guards.kinds import ExprHolds
from capture.variables.base import Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE, TRUE, ConstantVariable, boolean
from capture.variables.locks import LOCK, RLOCK, LockVariable


@dataclass(frozen=True, slots=True)
class ThreadIs:
    """Says if this is the thread that a piece was made in."""

    ident: int

    def __call__(self) -> bool:
        """Compare the threads."""
        return _thread.get_ident() == self.ident


@rule(_thread.get_ident)
def _get_ident(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    ident = _thread.get_ident()
    tracer.guard(ExprHolds((), ThreadIs(ident), "the thread is the same"))
    return ConstantVariable(ident)


@rule(*{_thread.allocate_lock, threading.Lock})  # the latter is the class since 3.13
def _lock(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return None if args or kwargs else stamp(tracer, LockVariable(LOCK))


@rule(_thread.RLock)
@python_rule_for(threading.RLock)
def _rlock(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if args or kwargs:
        unsupported(reasons.UNKNOWN_CALLABLE, "threading.RLock")
    return stamp(tracer, LockVariable(RLOCK))


@rule(LOCK.acquire, RLOCK.acquire, LOCK.__enter__, RLOCK.__enter__)
def _acquire(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 1 or kwargs or not isinstance(args[0], LockVariable):
        return None
    args[0].acquire(tracer)
    return TRUE


@rule(LOCK.release, RLOCK.release)
def _release(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 1 or kwargs or not isinstance(args[0], LockVariable):
        return None
    args[0].release(tracer)
    return NONE


@rule(LOCK.__exit__, RLOCK.__exit__)
def _exit(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 4 or kwargs or not isinstance(args[0], LockVariable):
        return None
    args[0].release(tracer)
    return NONE


@rule(LOCK.locked)
def _locked(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(args[0].depth > 0) if isinstance(args[0], LockVariable) else None

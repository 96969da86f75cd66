/* Holds every access to CPython internals that differs between 3.11, 3.12 and 3.13: the
 * interpreter frame, the recursion counters, monitoring, and how a replaced frame is torn down.
 * Must not know regions, sites or guards. A new Python version is a new branch here.
 */
#ifndef CAPTURE_FRAME_COMPAT_H
#define CAPTURE_FRAME_COMPAT_H

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif

/* CPython's internal headers are not clean under -Wextra. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <opcode.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030C0000
#include <internal/pycore_instruments.h>
#endif
#pragma GCC diagnostic pop

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "capture supports CPython 3.11, 3.12 and 3.13: add a branch to frame_compat.h"
#endif

typedef struct _PyInterpreterFrame Frame;

/* ---- fields -------------------------------------------------------------------------- */

/* Borrows. Only for a frame whose owner is the thread. */
static inline PyCodeObject *
frame_code(const Frame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

/* Borrows. The function the frame runs, or NULL when it is none (trampolines). */
static inline PyFunctionObject *
frame_function(const Frame *frame)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *function = frame->f_funcobj;
#else
    PyObject *function = (PyObject *)frame->f_func;
#endif
    if (function == NULL || !PyFunction_Check(function)) {
        return NULL;
    }
    return (PyFunctionObject *)function;
}

/* Borrows. The slots whose first ones hold exactly the bound arguments of a fresh frame. */
static inline PyObject **
frame_locals(Frame *frame)
{
    return frame->localsplus;
}

/* True for a frame that a call made, as against one resumed in a generator or on the C stack. */
static inline bool
frame_owned_by_thread(const Frame *frame)
{
    return frame->owner == FRAME_OWNED_BY_THREAD;
}

/* True for a frame that runs code (3.13 has frames that run none). */
static inline bool
frame_has_code(const Frame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyCode_Check(frame->f_executable);
#else
    return frame->f_code != NULL;
#endif
}

/* The interpreter's evaluator. */
static inline _PyFrameEvalFunction
interpreter_evaluator(const PyInterpreterState *interpreter)
{
    return interpreter->eval_frame != NULL ? interpreter->eval_frame : _PyEval_EvalFrameDefault;
}

/* ---- recursion ----------------------------------------------------------------------- */

/* What is left of the C recursion budget. One default evaluation takes some of it (2 units on
 * 3.12.1, other amounts on its neighbours: eval_frame.c measures). With a custom evaluator no call
 * is inlined, so without giving it back native recursion ends after a few hundred Python frames.
 * 3.11 has one budget only, the user's own limit. */
static inline int
recursion_c_remaining(const PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030C0000
    return tstate->c_recursion_remaining;
#else
    (void)tstate;
    return 0;
#endif
}

static inline void
recursion_c_give(PyThreadState *tstate, int units)
{
#if PY_VERSION_HEX >= 0x030C0000
    tstate->c_recursion_remaining += units;
#else
    (void)tstate;
    (void)units;
#endif
}

/* Give back what CPython's own call of a native callable took, where that counts as recursion. */
static inline void
recursion_call_give(PyThreadState *tstate, int units)
{
#if PY_VERSION_HEX >= 0x030C0000
    tstate->c_recursion_remaining += units;
#else
    tstate->recursion_remaining += units;
#endif
}

/* Lend room for that many Python frames that the program itself would not have had on the stack;
 * a negative number takes it back. */
static inline void
recursion_lend(PyThreadState *tstate, int frames)
{
#if PY_VERSION_HEX >= 0x030C0000
    tstate->py_recursion_remaining += frames;
    tstate->c_recursion_remaining += frames;
#else
    tstate->recursion_remaining += frames;
#endif
}

/* True when entering that many Python frames on top of one more raises RecursionError. */
static inline bool
recursion_ends_within(const PyThreadState *tstate, int frames)
{
#if PY_VERSION_HEX >= 0x030C0000
    return tstate->py_recursion_remaining <= frames;
#else
    return tstate->recursion_remaining <= frames;
#endif
}

/* ---- tracing ------------------------------------------------------------------------- */

/* True when a debugger or a coverage tool follows this code line by line. A trace function counts
 * only on its own thread, although from 3.12 it is a monitoring tool of the whole interpreter. */
static inline bool
frame_is_traced(const PyThreadState *tstate, const PyCodeObject *code)
{
    if (tstate->c_tracefunc != NULL) {
        return true;
    }
#if PY_VERSION_HEX >= 0x030C0000
    const uint8_t others = (uint8_t)~(1u << PY_MONITORING_SYS_TRACE_ID);
    const uint8_t *global = tstate->interp->monitors.tools;
    uint8_t tools = global[PY_MONITORING_EVENT_LINE] | global[PY_MONITORING_EVENT_INSTRUCTION];
    if (code->_co_monitoring != NULL) {
        const uint8_t *local = code->_co_monitoring->local_monitors.tools;
        tools |= local[PY_MONITORING_EVENT_LINE] | local[PY_MONITORING_EVENT_INSTRUCTION];
    }
    return (tools & others) != 0;
#else
    (void)code;
    return false;
#endif
}

/* ---- code extras --------------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030C0000
#define Code_RequestExtraIndex PyUnstable_Eval_RequestCodeExtraIndex
#define Code_GetExtra PyUnstable_Code_GetExtra
#define Code_SetExtra PyUnstable_Code_SetExtra
#else
#define Code_RequestExtraIndex _PyEval_RequestCodeExtraIndex
#define Code_GetExtra _PyCode_GetExtra
#define Code_SetExtra _PyCode_SetExtra
#endif

/* ---- tearing a replaced frame down ---------------------------------------------------- */

/* Ends a frame that will not be evaluated, as its evaluation would have. Returns `result`.
 *   result: stolen and given back; NULL when an exception is set, which stays set.
 *
 * 3.11: the caller of the evaluator clears the frame. From 3.12 the evaluator does, so the frame is
 * made to return at once. Never throwflag 1 for that: it adds a traceback entry on 3.13 and
 * monitoring events on 3.12. */
static inline PyObject *
frame_finish(PyThreadState *tstate, Frame *frame, PyObject *result)
{
#if PY_VERSION_HEX >= 0x030C0000
    /* The unit in front is there for 3.12, where a frame points at the unit before its next. */
    static _Py_CODEUNIT return_value[2] = {
        {.op = {.code = NOP, .arg = 0}}, {.op = {.code = RETURN_VALUE, .arg = 0}}};
    static _Py_CODEUNIT return_const[2] = {
        {.op = {.code = NOP, .arg = 0}}, {.op = {.code = RETURN_CONST, .arg = 0}}};

    PyObject *raised = NULL;
    if (result == NULL) {
        raised = PyErr_GetRaisedException();
    }
    _Py_CODEUNIT *units = return_const;
    if (frame_code(frame)->co_stacksize > 0) {
        units = return_value;
        frame->localsplus[frame->stacktop++] = Py_NewRef(Py_None);
    }
#if PY_VERSION_HEX >= 0x030D0000
    frame->instr_ptr = &units[1];
#else
    frame->prev_instr = &units[0];
#endif
    /* The frame must be let go even at the recursion limit. */
    const int enough = 16;
    tstate->py_recursion_remaining += enough;
    tstate->c_recursion_remaining += enough;
    PyObject *ignored = _PyEval_EvalFrameDefault(tstate, frame, 0);
    tstate->c_recursion_remaining -= enough;
    tstate->py_recursion_remaining -= enough;
    assert(ignored != NULL);
    Py_XDECREF(ignored);
    if (raised != NULL) {
        PyErr_SetRaisedException(raised);
    }
#else
    (void)tstate;
    (void)frame;
#endif
    return result;
}

/* True when frame_finish() can end a frame of this code. */
static inline bool
code_can_be_finished(const PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030C0000
    return code->co_stacksize > 0 || PyTuple_GET_SIZE(code->co_consts) > 0;
#else
    (void)code;
    return true;
#endif
}

#endif /* CAPTURE_FRAME_COMPAT_H */

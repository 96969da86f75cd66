/* Holds the frame hook: the evaluator set with PEP 523, when it is in place, which frames it acts
 * on, and the per-thread state. Must not know entries or how pieces are chained (driver.c does).
 */
#include "native.h"
#include <pthread.h>

_Thread_local CaptureThread capture_thread;

/* The evaluator that was current when ours was put in place; NULL for the default one. */
static _PyFrameEvalFunction neighbour;
/* Regions entered and not left, over all threads. Under the GIL. */
static long threads_inside;
static PyObject *probe_function;
static PyInterpreterState *interpreter; /* the main one: others are refused */
/* What evaluating one Python frame takes of the C recursion budget. */
static int evaluation_cost;

/* ---- the real C stack -------------------------------------------------------------------------- */

#define STACK_RESERVE ((uintptr_t)256 * 1024)
#define STACK_TO_COMPILE ((uintptr_t)1024 * 1024)

/* The address below which this thread's C stack counts as used up; *lowest is its end. Never 0. */
static uintptr_t
stack_limit(uintptr_t *lowest)
{
    *lowest = 0;
#if defined(__linux__)
    pthread_attr_t attributes;
    void *address = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return 1;
    }
    int failed = pthread_attr_getstack(&attributes, &address, &size);
    pthread_attr_destroy(&attributes);
    if (failed) {
        return 1;
    }
    *lowest = (uintptr_t)address;
#elif defined(__APPLE__)
    size_t size = pthread_get_stacksize_np(pthread_self());
    *lowest = (uintptr_t)pthread_get_stackaddr_np(pthread_self()) - size;
#else
    size_t size = 0;
    return 1;
#endif
    uintptr_t reserve = size / 4 < STACK_RESERVE ? size / 4 : STACK_RESERVE;
    return *lowest + reserve;
}

static __attribute__((noinline)) bool
stack_is_low_slow(CaptureThread *thread, uintptr_t here)
{
    uintptr_t lowest;
    thread->stack_low = stack_limit(&lowest);
    /* An address below the stack is on another one (a coroutine library's), of unknown size. */
    return here < thread->stack_low && here >= lowest;
}

static inline bool
stack_is_low(CaptureThread *thread)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    /* 0 - 1 is above every address: the first check of a thread looks its stack up. */
    return UNLIKELY(here < thread->stack_low - 1) && stack_is_low_slow(thread, here);
}

bool
stack_is_short(CaptureThread *thread)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t lowest;
    uintptr_t low = stack_limit(&lowest);
    thread->stack_low = low;
    return here < low + STACK_TO_COMPILE && here >= lowest;
}

/* ---- evaluating a frame as if we were not there ------------------------------------------------------ */

/* Hand the frame to the neighbouring evaluator; should its chain come back to us, end it here. */
static __attribute__((noinline)) PyObject *
evaluate_chained(CaptureThread *thread, PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (thread->chained == frame) {
        if (!hook_is_installed()) {
            /* The neighbour has put itself on top of us: it comes first now, and we come last. */
            neighbour = NULL;
        }
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    const Frame *saved = thread->chained;
    thread->chained = frame;
    PyObject *result = neighbour(tstate, frame, throwflag);
    thread->chained = saved;
    return result;
}

/* `chain`: whether the neighbouring evaluator is to see the frame. */
static inline PyObject *
evaluate_as(CaptureThread *thread, PyThreadState *tstate, Frame *frame, int throwflag, bool chain)
{
    PyObject *result;
    if (stack_is_low(thread) && throwflag == 0 && frame_owned_by_thread(frame)) {
        PyErr_SetString(PyExc_RecursionError,
                        "maximum recursion depth exceeded: the C stack is nearly used up");
        return frame_finish(tstate, frame, NULL);
    }
    recursion_c_give(tstate, evaluation_cost);
    if (LIKELY(!chain)) {
        result = _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    } else {
        result = evaluate_chained(thread, tstate, frame, throwflag);
    }
    recursion_c_give(tstate, -evaluation_cost);
    return result;
}

static inline PyObject *
evaluate(CaptureThread *thread, PyThreadState *tstate, Frame *frame, int throwflag)
{
    /* A neighbour that compiles has no business in the compiler, in guards and in graphs. */
    bool own = thread->own > 0 && thread->region == NULL;
    return evaluate_as(thread, tstate, frame, throwflag, neighbour != NULL && !own);
}

/* ---- the hook ------------------------------------------------------------------------------------------ */

/* Compile the frame's start on a miss and run the new entry. */
static __attribute__((noinline)) PieceStatus
frame_convert(CaptureThread *thread, Site *site, PyObject **values, int n, PyObject *func,
              PyObject **result)
{
    int added = piece_convert(thread, site, values, n, func);
    if (added <= 0) {
        return added < 0 ? PIECE_RAISED : PIECE_MISS;
    }
    PieceStatus status = piece_run(thread, site, values, n, func, values, n, result);
    counters.stale += status == PIECE_MISS;
    return status;
}

/* The frame's piece is done and goes on elsewhere. Its arguments now live on in the values only. */
static __attribute__((noinline)) PyObject *
frame_continue(CaptureThread *thread, PyObject **values, int n, PyObject *func,
               PyObject *continuation)
{
    for (int i = 0; i < n; i++) {
        Py_CLEAR(values[i]);
    }
    return drive(thread, continuation, func);
}

/* Act on a frame if it is one to act on; else evaluate it. */
static PyObject *
capture_frame(CaptureThread *thread, PyThreadState *tstate, Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    CodeExtra *extra = code_extra_get(code);
    if (UNLIKELY(extra == NULL)) {
        extra = code_extra_ensure(code);
        if (extra == NULL) {
            PyErr_Clear();
            return evaluate(thread, tstate, frame, 0);
        }
    }
    bool skips = code_extra_skips(extra);
    if (UNLIKELY(extra->disabled || extra->disabled_file)) {
        Region *region = thread->region;
        thread->region = NULL;
        PyObject *result = evaluate(thread, tstate, frame, 0);
        thread->region = region;
        return result;
    }
    if (UNLIKELY(neighbour != NULL) && extra->skip) {
        /* Code that capture made, and what leads to modules: not for a compiler beside us either. */
        return evaluate_as(thread, tstate, frame, 0, false);
    }
    PyObject *func = (PyObject *)frame_function(frame);
    if (!extra->eligible || skips || frame_is_traced(tstate, code) ||
        func == NULL || ((PyFunctionObject *)func)->func_code != (PyObject *)code ||
        frame == thread->chained || recursion_ends_within(tstate, 0) || stack_is_low(thread)) {
        return evaluate(thread, tstate, frame, 0);
    }
    Region *region = thread->region;
    if (UNLIKELY(!region->enabled)) {
        return evaluate(thread, tstate, frame, 0);
    }
    Site *site = code_site(extra, region);
    if (UNLIKELY(site == NULL)) {
        PyErr_Clear();
        return evaluate(thread, tstate, frame, 0);
    }
    counters.frames++;
    PyObject **values = frame_locals(frame);
    int n = extra->n_args;
    PyObject *result = NULL;
    PieceStatus status = PIECE_MISS;
    Py_INCREF(site);
    if (LIKELY(site->entries != NULL)) {
        status = piece_run(thread, site, values, n, func, values, n, &result);
    }
    if (UNLIKELY(status == PIECE_MISS) && !site->skip && thread->region != NULL) {
        status = frame_convert(thread, site, values, n, func, &result);
    }
    Py_DECREF(site);
    switch (status) {
    case PIECE_MISS:
    case PIECE_RESTART:
        return evaluate(thread, tstate, frame, 0);
    case PIECE_RAISED:
        break;
    case PIECE_DONE:
        if (UNLIKELY(Py_IS_TYPE(result, Continue_Type))) {
            result = frame_continue(thread, values, n, func, result);
        }
        break;
    }
    return frame_finish(tstate, frame, result);
}

static void hook_remove(void);

static __attribute__((noinline)) void
probe_note(Probe *probe, const PyThreadState *tstate, Frame *frame)
{
    PyFunctionObject *func = frame_has_code(frame) ? frame_function(frame) : NULL;
    if (func != NULL) {
        probe->sound = frame_owned_by_thread(frame) && func->func_code == (PyObject *)frame_code(frame);
        probe->argument = frame_code(frame)->co_argcount > 0 ? frame_locals(frame)[0] : NULL;
    }
    probe->remaining[0] = probe->remaining[1];
    probe->remaining[1] = recursion_c_remaining(tstate);
    probe->frames++;
}

PyObject *
capture_eval_frame(PyThreadState *tstate, Frame *frame, int throwflag)
{
    CaptureThread *thread = &capture_thread;
    if (thread->region != NULL && throwflag == 0 && frame_owned_by_thread(frame) &&
        frame_has_code(frame)) {
        return capture_frame(thread, tstate, frame);
    }
    if (UNLIKELY(thread->probing != NULL)) {
        probe_note(thread->probing, tstate, frame);
    } else if (UNLIKELY(threads_inside == 0)) {
        /* A neighbour that chained to us has put us back after the last region ended. */
        hook_remove();
    }
    return evaluate(thread, tstate, frame, throwflag);
}

/* ---- putting the hook in place --------------------------------------------------------------------------- */

static inline _PyFrameEvalFunction
hook_current(void)
{
    return interpreter_evaluator(interpreter);
}

bool
hook_cover(HookCover *cover)
{
    cover->below = hook_current();
    cover->neighbour = neighbour;
    if (cover->below == capture_eval_frame) {
        return neighbour != NULL;
    }
    if (cover->below == _PyEval_EvalFrameDefault) {
        return false;
    }
    neighbour = cover->below;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, capture_eval_frame);
    return true;
}

void
hook_uncover(const HookCover *cover)
{
    if (cover->below != capture_eval_frame && hook_is_installed()) {
        neighbour = cover->neighbour;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, cover->below);
    }
}

bool
hook_is_installed(void)
{
    return hook_current() == capture_eval_frame;
}

long
hook_inside_count(void)
{
    return threads_inside;
}

/* Does evaluating a frame reach our hook now? */
static bool
hook_is_reached(CaptureThread *thread)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Probe probe = {0};
    thread->probing = &probe;
    PyObject *ignored = PyObject_CallNoArgs(probe_function);
    thread->probing = NULL;
    if (ignored == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(ignored);
    PyErr_Restore(type, value, traceback);
    return probe.frames > 0;
}

/* Called while the thread's region is still NULL. */
static void
hook_enter(CaptureThread *thread)
{
    threads_inside++;
    thread->inside++;
    _PyFrameEvalFunction current = hook_current();
    if (LIKELY(current == _PyEval_EvalFrameDefault)) {
        neighbour = NULL;
    } else if (current == capture_eval_frame || hook_is_reached(thread)) {
        return;
    } else {
        neighbour = current;
    }
    _PyInterpreterState_SetEvalFrameFunc(interpreter, capture_eval_frame);
}

/* Take the hook out, unless a neighbour sits on top of it: then it stays as a pass-through. */
static void
hook_remove(void)
{
    if (hook_is_installed()) {
        _PyInterpreterState_SetEvalFrameFunc(
            interpreter, neighbour != NULL ? neighbour : _PyEval_EvalFrameDefault);
        neighbour = NULL;
    }
}

Region *
thread_swap_region(CaptureThread *thread, Region *region)
{
    Region *previous = thread->region;
    if ((previous == NULL) != (region == NULL)) {
        if (region != NULL) {
            hook_enter(thread);
        } else {
            thread->inside--;
            if (--threads_inside == 0) {
                hook_remove();
            }
        }
    }
    thread->region = region;
    return previous;
}

/* ---- module level ---------------------------------------------------------------------------------------- */

static PyObject *
module_set_current(PyObject *Py_UNUSED(module), PyObject *region)
{
    if (region != Py_None && !Py_IS_TYPE(region, Region_Type)) {
        PyErr_SetString(PyExc_TypeError, "set_current() takes a Region or None");
        return NULL;
    }
    Region *new_region = region == Py_None ? NULL : (Region *)Py_NewRef(region);
    Region *previous = thread_swap_region(&capture_thread, new_region);
    return previous != NULL ? (PyObject *)previous : Py_NewRef(Py_None);
}

static PyObject *
module_current(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Region *region = capture_thread.region;
    return Py_NewRef(region != NULL ? (PyObject *)region : Py_None);
}

static PyObject *
module_tracing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(capture_thread.tracing > 0);
}

static PyMethodDef hook_functions[] = {
    {"set_current", module_set_current, METH_O,
     PyDoc_STR("Make a region, or None, this thread's current one; return the previous one.")},
    {"current", module_current, METH_NOARGS, PyDoc_STR("Return this thread's region, or None.")},
    {"tracing", module_tracing, METH_NOARGS,
     PyDoc_STR("True while this thread is compiling.")},
    {NULL, NULL, 0, NULL},
};

static void
after_fork_in_child(void)
{
    /* The other threads are gone, and with them their regions. */
    threads_inside = capture_thread.inside;
    driver_after_fork();
}

/* New reference or NULL. */
static PyObject *
function_from_source(const char *source)
{
    PyObject *globals = PyDict_New();
    if (globals == NULL) {
        return NULL;
    }
    PyObject *function = PyRun_String(source, Py_eval_input, globals, globals);
    Py_DECREF(globals);
    return function;
}

/* Find `evaluation_cost`, the budget's difference between two frames, one called by the other; and
 * see that frames look as this file was compiled to believe. */
static int
measure_frames(void)
{
    PyObject *caller = function_from_source("lambda called: called(called)");
    PyObject *called = function_from_source("lambda argument: argument");
    int status = -1;
    if (caller != NULL && called != NULL) {
        Probe probe = {0};
        CaptureThread *thread = &capture_thread;
        _PyFrameEvalFunction current = hook_current();
        _PyInterpreterState_SetEvalFrameFunc(interpreter, capture_eval_frame);
        thread->probing = &probe;
        PyObject *result = PyObject_CallOneArg(caller, called);
        thread->probing = NULL;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, current);
        int cost = probe.remaining[0] - probe.remaining[1];
        if (result == called && probe.frames == 2 && probe.sound && probe.argument == called &&
            cost >= 0 && cost <= 8) {
            evaluation_cost = cost;
            status = 0;
        } else if (result != NULL) {
            PyErr_SetString(PyExc_ImportError,
                            "capture's native core does not fit this build of Python: build it again "
                            "with this interpreter");
        }
        Py_XDECREF(result);
    }
    Py_XDECREF(caller);
    Py_XDECREF(called);
    return status;
}

int
eval_frame_init(PyObject *module)
{
    interpreter = PyInterpreterState_Main();
    if (probe_function == NULL) {
        probe_function = function_from_source("lambda: None");
        if (probe_function == NULL || measure_frames() < 0) {
            Py_CLEAR(probe_function);
            return -1;
        }
        if (pthread_atfork(NULL, NULL, after_fork_in_child) != 0) {
            PyErr_SetString(PyExc_ImportError, "pthread_atfork failed");
            return -1;
        }
    }
    return PyModule_AddFunctions(module, hook_functions);
}

/* Holds another evaluator for the tests, which behaves as torch.compile's does: it remembers who was
 * current when it was put in place, calls that one, and puts it back. Loaded with ctypes.
 */
#define Py_BUILD_CORE 1
#include <Python.h>

struct _PyInterpreterFrame;

static _PyFrameEvalFunction previous;
static long seen;

static PyObject *
neighbour_eval(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag)
{
    seen++;
    if (previous != NULL) {
        return previous(tstate, frame, throwflag);
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

void
neighbour_enter(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (current != neighbour_eval) {
        previous = current;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, neighbour_eval);
    }
}

/* Put back whoever was there, whatever is current now. */
void
neighbour_leave(void)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(),
                                         previous != NULL ? previous : _PyEval_EvalFrameDefault);
    previous = NULL;
}

int
neighbour_is_current(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == neighbour_eval;
}

int
default_is_current(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) ==
           _PyEval_EvalFrameDefault;
}

long
neighbour_seen(void)
{
    return seen;
}

/* Holds the native self-test: what can only be seen from C. Must not be needed at run time. */
#include "native.h"

static int
expect(bool holds, const char *fact)
{
    if (!holds) {
        PyErr_Format(PyExc_AssertionError, "native self-test: %s", fact);
        return -1;
    }
    return 0;
}

/* A box hands its items over and keeps no reference. */
static int
test_state(void)
{
    PyObject *item = PyList_New(0);
    if (item == NULL) {
        return -1;
    }
    PyObject *array[1] = {Py_NewRef(item)};
    PyObject *box = state_from_array(array, 1);
    if (box == NULL) {
        Py_DECREF(item);
        Py_XDECREF(array[0]);
        return -1;
    }
    PyObject *got = PyIter_Next(box);
    int failed = expect(array[0] == NULL && got == item && Py_REFCNT(item) == 2,
                        "a State moves its items");
    Py_XDECREF(got);
    failed |= expect(Py_REFCNT(item) == 1, "a State keeps no reference");
    Py_DECREF(box);
    Py_DECREF(item);
    return failed;
}

/* The hook's state is what the documentation says between two calls. */
static int
test_thread(void)
{
    CaptureThread *thread = &capture_thread;
    return expect(thread->probing == NULL, "no probe is under way") |
           expect((thread->inside == 0) || hook_inside_count() >= thread->inside,
                  "the process counts this thread's regions") |
           expect(thread->region == NULL || thread->inside > 0, "a current region is counted");
}

static PyObject *
module_self_test(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (test_state() < 0 || test_thread() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef self_test_functions[] = {
    {"self_test", module_self_test, METH_NOARGS,
     PyDoc_STR("Check what can only be seen from C; raise AssertionError when it does not hold.")},
    {NULL, NULL, 0, NULL},
};

int
self_test_init(PyObject *module)
{
    return PyModule_AddFunctions(module, self_test_functions);
}

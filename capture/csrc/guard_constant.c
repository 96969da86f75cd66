/* Compares constants: same types throughout, nan equal to nan, -0.0 unlike 0.0. Runs no user code,
 * whatever object a constant is compared with. Must not know the guard tree.
 */
#include "guard_tree.h"

#include <string.h>

bool
guard_is_atom(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBool_Type ||
           value == Py_None || type == &PyFloat_Type || type == &PyBytes_Type ||
           type == &PyComplex_Type || value == Py_Ellipsis || value == Py_NotImplemented;
}

static bool
is_torch_type(PyTypeObject *type, const char *name)
{
    return strcmp(type->tp_name, name) == 0;
}

/* An exact frozenset's iterator is C, and its members stay while the set does. */
static bool
set_is_constant(PyObject *set)
{
    PyObject *iterator = PyObject_GetIter(set), *item;
    bool constant = iterator != NULL;
    while (constant && (item = PyIter_Next(iterator)) != NULL) {
        constant = guard_is_constant(item);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    return constant;
}

bool
guard_is_constant(PyObject *value)
{
    if (guard_is_atom(value)) {
        return true;
    }
    PyTypeObject *type = Py_TYPE(value);
    if (PyTuple_CheckExact(value) || is_torch_type(type, "torch.Size")) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            if (!guard_is_constant(PyTuple_GET_ITEM(value, i))) {
                return false;
            }
        }
        return true;
    }
    if (PyFrozenSet_CheckExact(value)) {
        return set_is_constant(value);
    }
    if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        return guard_is_constant(slice->start) && guard_is_constant(slice->stop) &&
               guard_is_constant(slice->step);
    }
    return PyRange_Check(value) || is_torch_type(type, "torch.device");
}

static bool
floats_equal(double a, double b)
{
    return memcmp(&a, &b, sizeof(double)) == 0 || (a != a && b != b);
}

/* Whether the constant is a member, of the same types. */
static bool
set_has(PyObject *set, PyObject *constant)
{
    PyObject *iterator = PyObject_GetIter(set), *item;
    bool found = false;
    while (!found && iterator != NULL && (item = PyIter_Next(iterator)) != NULL) {
        found = guard_constants_equal(item, constant);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    return found;
}

/* Each member of b has its equal in a, and they are as many. For small sets. */
static bool
sets_equal(PyObject *a, PyObject *b)
{
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) {
        return false;
    }
    PyObject *iterator = PyObject_GetIter(b), *item;
    bool equal = iterator != NULL;
    while (equal && (item = PyIter_Next(iterator)) != NULL) {
        equal = set_has(a, item);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    return equal;
}

/* Ranges with equal start, stop and step, which are ints. */
static bool
ranges_equal(PyObject *a, PyObject *b)
{
    static const char *const parts[] = {"start", "stop", "step"};
    bool equal = true;
    for (int i = 0; i < 3 && equal; i++) {
        PyObject *x = PyObject_GetAttrString(a, parts[i]);
        PyObject *y = PyObject_GetAttrString(b, parts[i]);
        equal = x != NULL && y != NULL && guard_constants_equal(x, y);
        Py_XDECREF(x);
        Py_XDECREF(y);
    }
    return equal;
}

bool
guard_constants_equal(PyObject *a, PyObject *b)
{
    if (a == b) {
        return true;
    }
    PyTypeObject *type = Py_TYPE(b);
    if (Py_TYPE(a) != type) {
        return false;
    }
    if (type == &PyFloat_Type) {
        return floats_equal(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    }
    if (type == &PyComplex_Type) {
        Py_complex x = ((PyComplexObject *)a)->cval, y = ((PyComplexObject *)b)->cval;
        return floats_equal(x.real, y.real) && floats_equal(x.imag, y.imag);
    }
    if (PyTuple_Check(b)) {
        Py_ssize_t n = PyTuple_GET_SIZE(b);
        if (PyTuple_GET_SIZE(a) != n) {
            return false;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            if (!guard_constants_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) {
                return false;
            }
        }
        return true;
    }
    if (type == &PyFrozenSet_Type) {
        return sets_equal(a, b);
    }
    if (type == &PySlice_Type) {
        PySliceObject *x = (PySliceObject *)a, *y = (PySliceObject *)b;
        return guard_constants_equal(x->start, y->start) &&
               guard_constants_equal(x->stop, y->stop) &&
               guard_constants_equal(x->step, y->step);
    }
    if (type == &PyRange_Type) {
        return ranges_equal(a, b);
    }
    /* int, str, bytes, torch.device: exact types whose comparison is C */
    return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

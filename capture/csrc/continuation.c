/* Holds the objects that say where a frame goes on: Break, Continue and State.
 * Must not know how they are driven (driver.c does).
 */
#include "native.h"

PyTypeObject *Break_Type, *Continue_Type, *State_Type;

/* ---- Break ---------------------------------------------------------------------------------------------- */

static PyObject *
break_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "sites", "takes_slot0", "has_slot0", "make_loop", NULL};
    PyObject *code, *sites, *make_loop = Py_None;
    int takes_slot0, has_slot0 = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!p|pO:Break", names, &PyCode_Type, &code,
                                     &PyTuple_Type, &sites, &takes_slot0, &has_slot0,
                                     &make_loop)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sites); i++) {
        if (!Py_IS_TYPE(PyTuple_GET_ITEM(sites, i), Site_Type)) {
            PyErr_SetString(PyExc_TypeError, "the outcomes of a Break are sites");
            return NULL;
        }
    }
    if (((PyCodeObject *)code)->co_argcount != (takes_slot0 ? 2 : 1)) {
        PyErr_SetString(PyExc_ValueError, "break code takes (slot0, box), or (box)");
        return NULL;
    }
    if (code_skip(code) < 0) {
        return NULL;
    }
    Break *self = (Break *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->code = Py_NewRef(code);
    self->sites = Py_NewRef(sites);
    self->takes_slot0 = (char)takes_slot0;
    self->has_slot0 = (char)(takes_slot0 && has_slot0);
    self->make_loop = make_loop == Py_None ? NULL : Py_NewRef(make_loop);
    return (PyObject *)self;
}

static int
break_traverse(Break *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->code);
    Py_VISIT(self->sites);
    Py_VISIT(self->make_loop);
    Py_VISIT(self->loop);
    return 0;
}

static int
break_clear(Break *self)
{
    /* The code stays: it refers to nothing that could refer back, and the driver counts on it. */
    PyObject *sites = self->sites;
    self->sites = PyTuple_New(0);
    Py_XDECREF(sites);
    Py_CLEAR(self->make_loop);
    Py_CLEAR(self->loop);
    return 0;
}

static void
break_dealloc(Break *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->code);
    Py_CLEAR(self->sites);
    Py_CLEAR(self->make_loop);
    Py_CLEAR(self->loop);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef break_members[] = {
    {"code", T_OBJECT, offsetof(Break, code), READONLY, NULL},
    {"sites", T_OBJECT, offsetof(Break, sites), READONLY, NULL},
    {"takes_slot0", T_BOOL, offsetof(Break, takes_slot0), READONLY, NULL},
    {"has_slot0", T_BOOL, offsetof(Break, has_slot0), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot break_slots[] = {
    {Py_tp_doc, "Break(code, sites, takes_slot0, has_slot0=True, make_loop=None)\n\n"
                "One instruction run natively, and the sites it may lead to."},
    {Py_tp_new, break_new},
    {Py_tp_dealloc, break_dealloc},
    {Py_tp_traverse, break_traverse},
    {Py_tp_clear, break_clear},
    {Py_tp_members, break_members},
    {0, NULL},
};

static PyType_Spec break_spec = {
    .name = "capture._native.Break",
    .basicsize = sizeof(Break),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = break_slots,
};

/* ---- Continue --------------------------------------------------------------------------------------------- */

static PyObject *
continue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"target", "func", "cells", "values", NULL};
    PyObject *target, *func, *cells, *values;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!O:Continue", names, &target, &func,
                                     &PyTuple_Type, &cells, &values)) {
        return NULL;
    }
    /* None: the function of the frame that the epilogue belongs to; the driver knows it. */
    if (func != Py_None && !PyFunction_Check(func)) {
        PyErr_SetString(PyExc_TypeError, "the func of a Continue is a function or None");
        return NULL;
    }
    if (!Py_IS_TYPE(target, Break_Type) && !Py_IS_TYPE(target, Site_Type)) {
        PyErr_SetString(PyExc_TypeError, "the target of a Continue is a Break or a Site");
        return NULL;
    }
    PyObject *items = PySequence_Fast(values, "the values of a Continue are iterable");
    if (items == NULL) {
        return NULL;
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    Continue *self = (Continue *)type->tp_alloc(type, n);
    if (self != NULL) {
        self->target = Py_NewRef(target);
        self->func = Py_NewRef(func);
        self->cells = Py_NewRef(cells);
        self->region = (Region *)Py_XNewRef((PyObject *)capture_thread.region);
        for (Py_ssize_t i = 0; i < n; i++) {
            self->values[i] = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        }
    }
    Py_DECREF(items);
    return (PyObject *)self;
}

static int
continue_traverse(Continue *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->target);
    Py_VISIT(self->func);
    Py_VISIT(self->cells);
    Py_VISIT(self->region);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_VISIT(self->values[i]);
    }
    return 0;
}

static int
continue_clear(Continue *self)
{
    Py_CLEAR(self->target);
    Py_CLEAR(self->func);
    Py_CLEAR(self->cells);
    Py_CLEAR(self->region);
    references_drop(self->values, Py_SIZE(self));
    return 0;
}

static void
continue_dealloc(Continue *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    continue_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
continue_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 0 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0)) {
        PyErr_SetString(PyExc_TypeError, "a Continue takes no arguments");
        return NULL;
    }
    /* The frame that goes on here counts itself; the way here is not the program's. */
    PyThreadState *tstate = PyThreadState_Get();
    recursion_call_give(tstate, 1);
    PyObject *result = drive(&capture_thread, Py_NewRef(self), NULL);
    recursion_call_give(tstate, -1);
    return result;
}

static PyObject *
continue_get_values(Continue *self, void *Py_UNUSED(closure))
{
    PyObject *tuple = PyTuple_New(Py_SIZE(self));
    for (Py_ssize_t i = 0; tuple != NULL && i < Py_SIZE(self); i++) {
        PyObject *value = self->values[i];
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(value != NULL ? value : Py_None));
    }
    return tuple;
}

static PyMemberDef continue_members[] = {
    {"target", T_OBJECT, offsetof(Continue, target), READONLY, NULL},
    {"func", T_OBJECT, offsetof(Continue, func), READONLY, NULL},
    {"cells", T_OBJECT, offsetof(Continue, cells), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef continue_getset[] = {
    {"values", (getter)continue_get_values, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot continue_slots[] = {
    {Py_tp_doc, "Continue(target, func, cells, values)\n\n"
                "Run this Break or Site next, with these values. Calling it drives the frame to "
                "its end."},
    {Py_tp_new, continue_new},
    {Py_tp_dealloc, continue_dealloc},
    {Py_tp_traverse, continue_traverse},
    {Py_tp_clear, continue_clear},
    {Py_tp_call, continue_call},
    {Py_tp_members, continue_members},
    {Py_tp_getset, continue_getset},
    {0, NULL},
};

static PyType_Spec continue_spec = {
    .name = "capture._native.Continue",
    .basicsize = offsetof(Continue, values),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = continue_slots,
};

/* ---- State --------------------------------------------------------------------------------------------------- */

PyObject *
state_from_array(PyObject **values, Py_ssize_t n)
{
    State *self = PyObject_GC_NewVar(State, State_Type, n);
    if (self == NULL) {
        return NULL;
    }
    self->position = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        self->values[i] = values[i];
        values[i] = NULL;
    }
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *
state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"values", NULL};
    PyObject *values;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:State", names, &values)) {
        return NULL;
    }
    PyObject *items = PySequence_Fast(values, "State() takes an iterable");
    if (items == NULL) {
        return NULL;
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    State *self = (State *)type->tp_alloc(type, n);
    if (self != NULL) {
        for (Py_ssize_t i = 0; i < n; i++) {
            self->values[i] = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        }
    }
    Py_DECREF(items);
    return (PyObject *)self;
}

static PyObject *
state_next(State *self)
{
    if (self->position >= Py_SIZE(self)) {
        return NULL;
    }
    PyObject *value = self->values[self->position];
    self->values[self->position++] = NULL;
    return value;
}

static Py_ssize_t
state_length(State *self)
{
    return Py_SIZE(self) - self->position;
}

static int
state_traverse(State *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (Py_ssize_t i = self->position; i < Py_SIZE(self); i++) {
        Py_VISIT(self->values[i]);
    }
    return 0;
}

static int
state_clear(State *self)
{
    Py_ssize_t position = self->position;
    self->position = Py_SIZE(self);
    references_drop(self->values + position, Py_SIZE(self) - position);
    return 0;
}

static void
state_dealloc(State *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    state_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot state_slots[] = {
    {Py_tp_doc, "State(values)\n\nAn iterator that hands its items over and forgets them."},
    {Py_tp_new, state_new},
    {Py_tp_dealloc, state_dealloc},
    {Py_tp_traverse, state_traverse},
    {Py_tp_clear, state_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, state_next},
    {Py_sq_length, state_length},
    {0, NULL},
};

static PyType_Spec state_spec = {
    .name = "capture._native.State",
    .basicsize = offsetof(State, values),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = state_slots,
};

int
continuation_init(PyObject *module)
{
    return module_add_type(module, &Break_Type, &break_spec) < 0 ||
                   module_add_type(module, &Continue_Type, &continue_spec) < 0 ||
                   module_add_type(module, &State_Type, &state_spec) < 0
               ? -1
               : 0;
}

/* Holds Entry, one compiled piece as data. Must not know how it is looked up or run. */
#include "native.h"

PyTypeObject *Entry_Type;

static bool
reference_is_valid(const Entry *self, Py_ssize_t reference)
{
    return reference >= 0 ? reference < self->n_captures : ~reference < self->n_outputs;
}

static void
entry_keep(Entry *self, Py_ssize_t reference)
{
    if (reference >= 0) {
        self->kept[reference] = 1;
        self->any_kept_input |= reference < self->n_inputs;
    }
}

/* Keep the captures that `failure` takes. -1 with an exception. */
static int
entry_prepare_failure(Entry *self)
{
    if (self->failure != NULL && PyFunction_Check(self->failure) &&
        code_skip(PyFunction_GET_CODE(self->failure)) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->failure_args_object); i++) {
        Py_ssize_t reference = PyLong_AsSsize_t(PyTuple_GET_ITEM(self->failure_args_object, i));
        if (reference == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (reference < 0 || reference >= self->n_captures) {
            PyErr_SetString(PyExc_ValueError, "a failure argument names no capture");
            return -1;
        }
        entry_keep(self, reference);
    }
    return 0;
}

/* Fill what is computed from the arguments. -1 with an exception. */
static int
entry_prepare(Entry *self, PyObject *epilogue)
{
    self->kept = PyMem_Calloc((size_t)self->n_captures + 1, 1);
    self->n_epilogue_args = PyTuple_GET_SIZE(self->epilogue_args_object);
    self->epilogue_args = PyMem_New(Py_ssize_t, self->n_epilogue_args + 1);
    if (self->kept == NULL || self->epilogue_args == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (entry_prepare_failure(self) < 0) {
        return -1;
    }
    if (PyLong_Check(epilogue)) {
        self->epilogue_ref = PyLong_AsSsize_t(epilogue);
        if (self->epilogue_ref == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (!reference_is_valid(self, self->epilogue_ref)) {
            PyErr_SetString(PyExc_ValueError, "the epilogue names no capture or output");
            return -1;
        }
        entry_keep(self, self->epilogue_ref);
        return 0;
    }
    if (!PyCallable_Check(epilogue)) {
        PyErr_SetString(PyExc_TypeError, "the epilogue is an int or a callable");
        return -1;
    }
    self->epilogue = Py_NewRef(epilogue);
    if (PyFunction_Check(epilogue) && code_skip(PyFunction_GET_CODE(epilogue)) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->n_epilogue_args; i++) {
        Py_ssize_t reference =
            PyLong_AsSsize_t(PyTuple_GET_ITEM(self->epilogue_args_object, i));
        if (reference == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (!reference_is_valid(self, reference)) {
            PyErr_SetString(PyExc_ValueError, "an epilogue argument names no capture or output");
            return -1;
        }
        self->epilogue_args[i] = reference;
        entry_keep(self, reference);
    }
    return 0;
}

static PyObject *
entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"guards",        "graph",       "n_inputs",  "boxed", "epilogue",
                            "epilogue_args", "restartable", "n_outputs", "data",  "failure",
                            "failure_args",  "drops",       "depth",     NULL};
    PyObject *guards, *graph, *epilogue, *epilogue_args, *restartable, *data = Py_None;
    PyObject *failure = Py_None, *failure_args = NULL, *drops = NULL;
    Py_ssize_t n_inputs, n_outputs;
    int boxed, depth = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOnpOO!On|OOO!O!i:Entry", names, &guards, &graph,
                                     &n_inputs, &boxed, &epilogue, &PyTuple_Type, &epilogue_args,
                                     &restartable, &n_outputs, &data, &failure, &PyTuple_Type,
                                     &failure_args, &PyTuple_Type, &drops, &depth)) {
        return NULL;
    }
    if ((!PyBool_Check(restartable) && !PyCallable_Check(restartable)) ||
        (failure != Py_None && !PyCallable_Check(failure))) {
        PyErr_SetString(PyExc_TypeError, "restartable is a bool or a callable; failure a callable "
                                         "or None");
        return NULL;
    }
    Py_ssize_t n_captures = GuardTree_NumCaptures(guards);
    if (n_captures < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "guards must be a GuardTree");
        }
        return NULL;
    }
    if (n_inputs < 0 || n_inputs > n_captures || n_outputs < 0) {
        PyErr_SetString(PyExc_ValueError, "n_inputs or n_outputs is out of range");
        return NULL;
    }
    if (graph == Py_None ? n_outputs > 0 : !PyCallable_Check(graph)) {
        PyErr_SetString(PyExc_TypeError, "graph is a callable, or None without outputs");
        return NULL;
    }
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->guards = Py_NewRef(guards);
    self->graph = graph == Py_None ? NULL : Py_NewRef(graph);
    self->epilogue_args_object = Py_NewRef(epilogue_args);
    self->data = Py_NewRef(data);
    self->n_inputs = n_inputs;
    self->n_outputs = n_outputs;
    self->n_captures = n_captures;
    self->boxed = (char)boxed;
    self->depth = depth;
    self->restartable = restartable != Py_False;
    self->restart = PyBool_Check(restartable) ? NULL : Py_NewRef(restartable);
    self->drops = Py_XNewRef(drops);
    self->failure = failure == Py_None ? NULL : Py_NewRef(failure);
    self->failure_args_object = failure_args == NULL ? PyTuple_New(0) : Py_NewRef(failure_args);
    self->alive = 1;
    if (self->failure_args_object == NULL || entry_prepare(self, epilogue) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->guards);
    Py_VISIT(self->graph);
    Py_VISIT(self->epilogue);
    Py_VISIT(self->restart);
    Py_VISIT(self->failure);
    Py_VISIT(self->data);
    return 0;
}

static int
entry_clear(Entry *self)
{
    self->alive = 0;
    Py_CLEAR(self->guards);
    Py_CLEAR(self->graph);
    Py_CLEAR(self->epilogue);
    Py_CLEAR(self->restart);
    Py_CLEAR(self->failure);
    Py_CLEAR(self->data);
    return 0;
}

static void
entry_dealloc(Entry *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    entry_clear(self);
    Py_CLEAR(self->epilogue_args_object);
    Py_CLEAR(self->failure_args_object);
    Py_CLEAR(self->drops);
    PyMem_Free(self->epilogue_args);
    PyMem_Free(self->kept);
    type->tp_free(self);
    Py_DECREF(type);
}

/* An object it depends on has died: it can never hold again. Whoever runs it now holds references
 * to the parts in use. */
void
entry_kill(Entry *self)
{
    if (!self->alive) {
        return;
    }
    Py_INCREF(self);
    Site *site = self->site;
    self->alive = 0;
    self->site = NULL;
    if (site != NULL) {
        site_sweep(site);
    }
    entry_clear(self);
    Py_DECREF(self);
}

static PyObject *
entry_kill_method(Entry *self, PyObject *Py_UNUSED(ignored))
{
    entry_kill(self);
    Py_RETURN_NONE;
}

static PyObject *
entry_get_epilogue(Entry *self, void *Py_UNUSED(closure))
{
    return self->epilogue != NULL ? Py_NewRef(self->epilogue)
                                  : PyLong_FromSsize_t(self->epilogue_ref);
}

static PyObject *
entry_repr(Entry *self)
{
    return PyUnicode_FromFormat("<Entry inputs=%zd outputs=%zd hits=%llu at %p>", self->n_inputs,
                                self->n_outputs, self->hits, self);
}

static PyMethodDef entry_methods[] = {
    {"kill", (PyCFunction)entry_kill_method, METH_NOARGS,
     PyDoc_STR("Take the entry out of its site for good and let go of all it holds.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef entry_members[] = {
    {"guards", T_OBJECT, offsetof(Entry, guards), READONLY, NULL},
    {"graph", T_OBJECT, offsetof(Entry, graph), READONLY, NULL},
    {"data", T_OBJECT, offsetof(Entry, data), 0, NULL},
    {"epilogue_args", T_OBJECT, offsetof(Entry, epilogue_args_object), READONLY, NULL},
    {"n_inputs", T_PYSSIZET, offsetof(Entry, n_inputs), READONLY, NULL},
    {"n_outputs", T_PYSSIZET, offsetof(Entry, n_outputs), READONLY, NULL},
    {"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, NULL},
    {"boxed", T_BOOL, offsetof(Entry, boxed), READONLY, NULL},
    {"depth", T_INT, offsetof(Entry, depth), READONLY, NULL},
    {"restartable", T_BOOL, offsetof(Entry, restartable), READONLY, NULL},
    {"alive", T_BOOL, offsetof(Entry, alive), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Entry, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef entry_getset[] = {
    {"epilogue", (getter)entry_get_epilogue, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot entry_slots[] = {
    {Py_tp_doc, "Entry(guards, graph, n_inputs, boxed, epilogue, epilogue_args, restartable, "
                "n_outputs, data=None, failure=None, failure_args=(), drops=..., depth=0)\n\nOne "
                "compiled piece."},
    {Py_tp_new, entry_new},
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_traverse, entry_traverse},
    {Py_tp_clear, entry_clear},
    {Py_tp_repr, entry_repr},
    {Py_tp_methods, entry_methods},
    {Py_tp_members, entry_members},
    {Py_tp_getset, entry_getset},
    {0, NULL},
};

static PyType_Spec entry_spec = {
    .name = "capture._native.Entry",
    .basicsize = sizeof(Entry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = entry_slots,
};

int
entry_init(PyObject *module)
{
    return module_add_type(module, &Entry_Type, &entry_spec);
}

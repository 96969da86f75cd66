/* Holds the callables that enter and leave regions: CompiledFunction and Disabled.
 * Must not know frames or sites.
 */
#include "native.h"

PyTypeObject *CompiledFunction_Type, *Disabled_Type;

/* Both types: Disabled has no region. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    Region *region; /* NULL: capture is off inside */
    PyObject *dict;
    PyObject *weakrefs;
} Wrapper;

static PyObject *
wrapper_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Wrapper *self = (Wrapper *)callable;
    CaptureThread *thread = &capture_thread;
    Region *region = self->region;
    PyObject *function = self->function;
    if (UNLIKELY(function == NULL)) {
        PyErr_SetString(PyExc_RuntimeError, "this function has been garbage collected");
        return NULL;
    }
    if (thread->region == region || (region != NULL && (thread->tracing || !region->enabled))) {
        return PyObject_Vectorcall(function, args, nargsf, kwnames);
    }
    Py_XINCREF(region);
    Region *previous = thread_swap_region(thread, region);
    PyObject *result = PyObject_Vectorcall(function, args, nargsf, kwnames);
    Py_XDECREF(thread_swap_region(thread, previous));
    return result;
}

static PyObject *
wrapper_make(PyTypeObject *type, PyObject *function, PyObject *region)
{
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "%.100s takes a callable, not %.100s", type->tp_name,
                     Py_TYPE(function)->tp_name);
        return NULL;
    }
    Wrapper *self = (Wrapper *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = wrapper_call;
    self->function = Py_NewRef(function);
    self->region = (Region *)Py_XNewRef(region);
    return (PyObject *)self;
}

static PyObject *
compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "region", NULL};
    PyObject *function, *region;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!:CompiledFunction", names, &function,
                                     Region_Type, &region)) {
        return NULL;
    }
    return wrapper_make(type, function, region);
}

static PyObject *
disabled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", NULL};
    PyObject *function;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Disabled", names, &function)) {
        return NULL;
    }
    return wrapper_make(type, function, NULL);
}

static int
wrapper_traverse(Wrapper *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->function);
    Py_VISIT(self->region);
    Py_VISIT(self->dict);
    return 0;
}

static int
wrapper_clear(Wrapper *self)
{
    Py_CLEAR(self->function);
    Py_CLEAR(self->region);
    Py_CLEAR(self->dict);
    return 0;
}

static void
wrapper_dealloc(Wrapper *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    wrapper_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* As a plain function does. */
static PyObject *
wrapper_get(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type))
{
    if (object == NULL || object == Py_None) {
        return Py_NewRef(self);
    }
    return PyMethod_New(self, object);
}

/* What the wrapper lacks, the function has: __code__, __defaults__, and whatever users set. */
static PyObject *
wrapper_getattro(Wrapper *self, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr((PyObject *)self, name);
    if (value == NULL && self->function != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = PyObject_GetAttr(self->function, name);
    }
    return value;
}

static PyObject *
wrapper_repr(Wrapper *self)
{
    PyObject *function = self->function != NULL ? self->function : Py_None;
    return PyUnicode_FromFormat("<%s %R>", self->region != NULL ? "compiled" : "disabled", function);
}

/* Functions are atoms to copy and pickle. */
static PyObject *
wrapper_copy(PyObject *self, PyObject *Py_UNUSED(memo))
{
    return Py_NewRef(self);
}

static PyObject *
wrapper_reduce(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef wrapper_methods[] = {
    {"__copy__", wrapper_copy, METH_NOARGS, NULL},
    {"__deepcopy__", wrapper_copy, METH_O, NULL},
    {"__reduce__", wrapper_reduce, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef wrapper_members[] = {
    {"fn", T_OBJECT, offsetof(Wrapper, function), READONLY, NULL},
    {"region", T_OBJECT, offsetof(Wrapper, region), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapper, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Wrapper, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapper, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef wrapper_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define WRAPPER_SLOTS                                                                             \
    {Py_tp_dealloc, wrapper_dealloc}, {Py_tp_traverse, wrapper_traverse},                         \
        {Py_tp_clear, wrapper_clear}, {Py_tp_call, PyVectorcall_Call},                            \
        {Py_tp_descr_get, wrapper_get}, {Py_tp_getattro, wrapper_getattro},                       \
        {Py_tp_repr, wrapper_repr}, {Py_tp_methods, wrapper_methods},                             \
        {Py_tp_members, wrapper_members}, {Py_tp_getset, wrapper_getset}, {0, NULL},

static PyType_Slot compiled_slots[] = {
    {Py_tp_doc, "CompiledFunction(fn, region)\n\nCall fn with the region current."},
    {Py_tp_new, compiled_new},
    WRAPPER_SLOTS
};

static PyType_Slot disabled_slots[] = {
    {Py_tp_doc, "Disabled(fn)\n\nCall fn with no region current."},
    {Py_tp_new, disabled_new},
    WRAPPER_SLOTS
};

#define WRAPPER_FLAGS                                                                             \
    (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |                       \
     Py_TPFLAGS_METHOD_DESCRIPTOR)

static PyType_Spec compiled_spec = {
    .name = "capture._native.CompiledFunction",
    .basicsize = sizeof(Wrapper),
    .flags = WRAPPER_FLAGS,
    .slots = compiled_slots,
};

static PyType_Spec disabled_spec = {
    .name = "capture._native.Disabled",
    .basicsize = sizeof(Wrapper),
    .flags = WRAPPER_FLAGS,
    .slots = disabled_slots,
};

int
callables_init(PyObject *module)
{
    return module_add_type(module, &CompiledFunction_Type, &compiled_spec) < 0 ||
                   module_add_type(module, &Disabled_Type, &disabled_spec) < 0
               ? -1
               : 0;
}

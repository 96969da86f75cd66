/* Holds the type GuardTree and what the rest of the native core sees of it. Must not know how a
 * tree is built or walked, nor frames.
 */
#include "guard_tree.h"

#include <string.h>
#include <structmember.h>
#include <time.h>

#include "global_state.h"
#include "tensor_meta.h"

static PyTypeObject *GuardTree_Type, *Life_Type;
static bool shortcuts_allowed = false;

/* ---- life: compared addresses must not be reused -------------------------------------------- */

static PyObject *
life_ended(PyObject *self, PyObject *reference)
{
    (void)reference;
    ((Life *)self)->alive = false;
    Py_RETURN_NONE;
}

static PyMethodDef life_ended_definition = {"life_ended", life_ended, METH_O, NULL};

static void
life_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot life_slots[] = {{Py_tp_dealloc, life_dealloc}, {0, NULL}};

static PyType_Spec life_spec = {
    .name = "capture._native.Life",
    .basicsize = sizeof(Life),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = life_slots,
};

/* ---- making --------------------------------------------------------------------------------- */

/* GuardTree(spec, n_captures, post_checks, state, n_slots=0) */
static PyObject *
tree_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"spec", "n_captures", "post_checks", "state", "n_slots", NULL};
    PyObject *spec, *post_checks, *state;
    Py_ssize_t n_captures;
    int n_slots = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!nO!O|i:GuardTree", names, &PyTuple_Type,
                                     &spec, &n_captures, &PyTuple_Type, &post_checks, &state,
                                     &n_slots)) {
        return NULL;
    }
    if (n_captures < 0 || n_slots < 0 ||
        (state != Py_None && !Py_IS_TYPE(state, GlobalStateSnapshot_Type))) {
        PyErr_SetString(PyExc_ValueError,
                        "malformed guard spec: counts are not negative, the state is a snapshot");
        return NULL;
    }
    GuardTree *tree = (GuardTree *)type->tp_alloc(type, 0);
    if (tree == NULL) {
        return NULL;
    }
    tree->root.slot = -1;
    tree->n_captures = n_captures;
    tree->n_slots = n_slots;
    tree->shortcuts = shortcuts_allowed;
    tree->state = state == Py_None ? NULL : Py_NewRef(state);
    tree->owned = PyList_New(0);
    tree->life = PyObject_New(Life, Life_Type);
    int status = -1;
    if (tree->life != NULL && tree->owned != NULL) {
        tree->life->alive = true;
        PyObject *callback = PyCFunction_New(&life_ended_definition, (PyObject *)tree->life);
        if (callback != NULL) {
            status = guard_tree_build(tree, callback, spec, post_checks);
            Py_DECREF(callback);
        }
    }
    if (status < 0) {
        Py_DECREF(tree);
        return NULL;
    }
    return (PyObject *)tree;
}

/* ---- checking ------------------------------------------------------------------------------- */

int
GuardTree_Check(PyObject *self, PyObject *const *values, Py_ssize_t n, PyObject *func,
                PyObject **captures)
{
    GuardTree *tree = (GuardTree *)self;
    Py_ssize_t n_captures = tree->n_captures;
    for (Py_ssize_t i = 0; i < n_captures; i++) {
        captures[i] = NULL;
    }
    tree->checked++;
    if (!tree->life->alive) {
        tree->failed++;
        return 0;
    }
    bool holds;
    if (tree->runs_code) {
        /* an exception being handled right now must survive what runs here, and the tree too */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_INCREF(tree);
        holds = guard_tree_run(tree, values, n, func, captures) && tree->life->alive;
        PyErr_Clear();
        PyErr_Restore(type, value, traceback);
    }
    else {
        holds = guard_tree_run(tree, values, n, func, captures);
        if (PyErr_Occurred()) {
            PyErr_Clear();
        }
    }
    if (!holds) {
        for (Py_ssize_t i = 0; i < n_captures; i++) {
            Py_CLEAR(captures[i]);
        }
        tree->failed++;
    }
    if (tree->runs_code) {
        Py_DECREF(tree);
    }
    return holds;
}

Py_ssize_t
GuardTree_NumCaptures(PyObject *tree)
{
    if (!Py_IS_TYPE(tree, GuardTree_Type)) {
        PyErr_Format(PyExc_TypeError, "a GuardTree is wanted, not %s", Py_TYPE(tree)->tp_name);
        return -1;
    }
    return ((GuardTree *)tree)->n_captures;
}

int
GuardTree_Alive(PyObject *tree)
{
    if (GuardTree_NumCaptures(tree) < 0) {
        return -1;
    }
    return ((GuardTree *)tree)->life->alive;
}

/* check(values, func) -> tuple of captures | None; repeat > 1 measures, and returns ns per check */
static PyObject *
tree_check(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"values", "func", "repeat", NULL};
    PyObject *values, *func = Py_None;
    Py_ssize_t repeat = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|On:check", names, &values, &func,
                                     &repeat)) {
        return NULL;
    }
    GuardTree *tree = (GuardTree *)self;
    PyObject *fast = PySequence_Tuple(values);
    PyObject *captures = fast == NULL ? NULL : PyTuple_New(tree->n_captures);
    if (captures == NULL) {
        Py_XDECREF(fast);
        return NULL;
    }
    PyObject **items = ((PyTupleObject *)captures)->ob_item;
    PyObject *function = func == Py_None ? NULL : func;
    PyObject *result = NULL;
    struct timespec start, end;
    if (repeat > 1) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        for (Py_ssize_t i = 0; i < repeat; i++) {
            (void)GuardTree_Check(self, ((PyTupleObject *)fast)->ob_item, PyTuple_GET_SIZE(fast),
                                  function, items);
            for (Py_ssize_t c = 0; c < tree->n_captures; c++) {
                Py_CLEAR(items[c]);
            }
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        double elapsed_ns = (double)(end.tv_sec - start.tv_sec) * 1e9 +
                            (double)(end.tv_nsec - start.tv_nsec);
        result = PyFloat_FromDouble(elapsed_ns / (double)repeat);
    }
    else if (GuardTree_Check(self, ((PyTupleObject *)fast)->ob_item, PyTuple_GET_SIZE(fast),
                             function, items)) {
        for (Py_ssize_t c = 0; c < tree->n_captures; c++) {
            if (items[c] == NULL) {
                items[c] = Py_NewRef(Py_None); /* a capture no node writes: a spec's mistake */
            }
        }
        result = Py_NewRef(captures);
    }
    else {
        result = Py_NewRef(Py_None);
    }
    Py_DECREF(captures);
    Py_DECREF(fast);
    return result;
}

static PyObject *
tree_get_alive(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((GuardTree *)self)->life->alive);
}

static PyObject *
tree_get_runs_code(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((GuardTree *)self)->runs_code);
}

static Py_ssize_t
count_words(const Node *node)
{
    const Witness *witness = node->witness;
    Py_ssize_t n = witness != NULL && witness->value != NULL ? witness->n_words : 0;
    for (int i = 0; i < node->n_children; i++) {
        n += count_words(&node->children[i]);
    }
    return n;
}

static PyObject *
tree_get_words(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSsize_t(count_words(&((GuardTree *)self)->root));
}

/* ---- the type ------------------------------------------------------------------------------- */

static int
traverse_node(const Node *node, visitproc visit, void *arg)
{
    for (int i = 0; i < node->n_checks + node->n_memo_checks; i++) {
        if (node->checks[i].facts != NULL) {
            Py_VISIT(node->checks[i].facts->slow);
        }
    }
    for (int i = 0; i < node->n_children; i++) {
        int status = traverse_node(&node->children[i], visit, arg);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

static int
tree_traverse(PyObject *self, visitproc visit, void *arg)
{
    GuardTree *tree = (GuardTree *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(tree->owned);
    Py_VISIT(tree->state);
    return traverse_node(&tree->root, visit, arg);
}

static int
tree_clear(PyObject *self)
{
    GuardTree *tree = (GuardTree *)self;
    /* a tree taken apart must not be walked again */
    if (tree->life != NULL) {
        tree->life->alive = false;
    }
    guard_node_free(&tree->root);
    for (int i = 0; i < tree->n_post; i++) {
        PyMem_Free(tree->post[i].slots);
        PyMem_Free(tree->post[i].groups);
        shape_program_free(tree->post[i].program);
    }
    tree->n_post = 0;
    Py_CLEAR(tree->owned);
    Py_CLEAR(tree->state);
    return 0;
}

static void
tree_dealloc(PyObject *self)
{
    GuardTree *tree = (GuardTree *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (tree->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    (void)tree_clear(self);
    PyMem_Free(tree->post);
    PyMem_Free(tree->scratch);
    Py_XDECREF(tree->life);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef tree_methods[] = {
    {"check", (PyCFunction)(void (*)(void))tree_check, METH_VARARGS | METH_KEYWORDS,
     "Return the captures if the guards hold for these values, else None."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tree_getset[] = {
    {"alive", tree_get_alive, NULL, "Whether all objects compared by address still exist.", NULL},
    {"runs_code", tree_get_runs_code, NULL, "Whether a check may run arbitrary code.", NULL},
    {"words", tree_get_words, NULL,
     "How many words of memory stand for checks that held before (witness.c).", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef tree_members[] = {
    {"n_captures", T_PYSSIZET, offsetof(GuardTree, n_captures), READONLY, NULL},
    {"checked", T_ULONGLONG, offsetof(GuardTree, checked), READONLY, NULL},
    {"failed", T_ULONGLONG, offsetof(GuardTree, failed), READONLY, NULL},
    {"shortcuts", T_BOOL, offsetof(GuardTree, shortcuts), 0, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(GuardTree, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot tree_slots[] = {
    {Py_tp_new, tree_new},
    {Py_tp_dealloc, tree_dealloc},
    {Py_tp_traverse, tree_traverse},
    {Py_tp_clear, tree_clear},
    {Py_tp_methods, tree_methods},
    {Py_tp_getset, tree_getset},
    {Py_tp_members, tree_members},
    {Py_tp_doc, "The guards of one cache entry, compiled: GuardTree(spec, n_captures, "
                "post_checks, state, n_slots=0)."},
    {0, NULL},
};

static PyType_Spec tree_spec = {
    .name = "capture._native.GuardTree",
    .basicsize = sizeof(GuardTree),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = tree_slots,
};

/* allow_shortcuts(bool): trust version tags in trees made from now on; returns the old choice */
static PyObject *
allow_shortcuts(PyObject *module, PyObject *flag)
{
    (void)module;
    int allowed = PyObject_IsTrue(flag);
    if (allowed < 0) {
        return NULL;
    }
    bool previous = shortcuts_allowed;
    shortcuts_allowed = allowed;
    return PyBool_FromLong(previous);
}

static PyMethodDef functions[] = {
    {"allow_shortcuts", allow_shortcuts, METH_O,
     "Trust the version tags of dicts and types in trees made from now on; return the old choice."},
    {NULL, NULL, 0, NULL},
};

int
guard_tree_register(PyObject *module)
{
    if (GuardTree_Type == NULL) {
        GuardTree_Type = (PyTypeObject *)PyType_FromSpec(&tree_spec);
        Life_Type = (PyTypeObject *)PyType_FromSpec(&life_spec);
        if (GuardTree_Type == NULL || Life_Type == NULL) {
            return -1;
        }
    }
    if (guard_check_init() < 0 || tensor_meta_register(module) < 0 ||
        global_state_register(module) < 0 || PyModule_AddFunctions(module, functions) < 0) {
        return -1;
    }
    return PyModule_AddType(module, GuardTree_Type);
}

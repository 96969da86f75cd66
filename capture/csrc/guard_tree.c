/* Builds guard trees from the plain tuples of lower.py, and the type GuardTree. Must not know what
 * the checks mean (guard_check.c does), nor frames.
 */
#include "guard_tree.h"

#include <string.h>
#include <structmember.h>
#include <time.h>

#include "global_state.h"
#include "tensor_meta.h"

static PyTypeObject *GuardTree_Type, *Life_Type;
static bool shortcuts_allowed = false;

/* ---- life: compared addresses must not be reused ------------------------------------------------- */

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

/* ---- building --------------------------------------------------------------------------------------- */

typedef struct {
    GuardTree *tree;
    PyObject *watched;  /* dict: address -> None, of what is already owned or watched */
    PyObject *callback; /* builtin bound to the tree's life */
} Builder;

/* Keep the object alive as long as the tree. */
static int
own(Builder *builder, PyObject *object)
{
    return PyList_Append(builder->tree->owned, object);
}

/* Keep its address from being reused unnoticed: weakly if possible, else by owning it. */
static int
watch(Builder *builder, PyObject *object)
{
    PyObject *address = PyLong_FromVoidPtr(object);
    if (address == NULL) {
        return -1;
    }
    int known = PyDict_Contains(builder->watched, address);
    if (known == 0) {
        known = PyDict_SetItem(builder->watched, address, Py_None);
        bool immortal = PyType_Check(object) && !PyType_HasFeature((PyTypeObject *)object,
                                                                   Py_TPFLAGS_HEAPTYPE);
        if (known == 0 && !immortal) {
            PyObject *reference = PyWeakref_NewRef(object, builder->callback);
            if (reference == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
                PyErr_Clear();
                reference = Py_NewRef(object);
            }
            known = reference == NULL ? -1 : own(builder, reference);
            Py_XDECREF(reference);
        }
    }
    Py_DECREF(address);
    return known < 0 ? -1 : 0;
}

static int
bad_spec(const char *what)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "malformed guard spec: %s", what);
    }
    return -1;
}

static int
hash_key(PyObject *key, Py_ssize_t *hash)
{
    *hash = PyObject_Hash(key);
    return *hash == -1 ? -1 : 0;
}

static int
build_check(Builder *builder, Check *check, PyObject *spec)
{
    int kind;
    PyObject *object;
    if (!PyArg_ParseTuple(spec, "iO:check", &kind, &object)) {
        return -1;
    }
    check->kind = (uint8_t)kind;
    check->object = object;
    switch (kind) {
    case CHECK_TYPE:
        return PyType_Check(object) ? watch(builder, object) : bad_spec("a type is wanted");
    case CHECK_IDENTITY:
        return watch(builder, object);
    case CHECK_EQUAL:
        if (!guard_is_constant(object)) {
            return bad_spec("a constant is wanted");
        }
        return own(builder, object);
    case CHECK_LENGTH:
    case CHECK_EMPTY:
    case CHECK_CELL_BOUND:
        check->object = NULL;
        check->number = PyLong_AsSsize_t(object);
        return check->number == -1 && PyErr_Occurred() ? -1 : 0;
    case CHECK_DICT_KEYS:
    case CHECK_DICT_ORDER:
        if (!PyTuple_Check(object) || own(builder, object) < 0) {
            return bad_spec("keys are a tuple");
        }
        return 0;
    case CHECK_DICT_HAS:
    case CHECK_DICT_LACKS:
        return hash_key(object, &check->number) < 0 ? -1 : own(builder, object);
    case CHECK_TYPE_LACKS:
        return PyUnicode_CheckExact(object) ? own(builder, object) : bad_spec("a name is wanted");
    case CHECK_TENSOR:
        check->object = NULL;
        check->facts = tensor_facts_new(object);
        if (check->facts == NULL) {
            return -1;
        }
        if (!check->facts->native) {
            builder->tree->runs_code = true;
        }
        return watch(builder, (PyObject *)check->facts->cls);
    default:
        return bad_spec("an unknown check");
    }
}

/* Whether an unchanged dict or type makes the check hold again without looking at the value: it
 * compares the value's address or a value that cannot change. */
static bool
check_is_fixed(const Check *check)
{
    if (check->kind == CHECK_IDENTITY || check->kind == CHECK_EQUAL) {
        return true;
    }
    if (check->kind != CHECK_TYPE) {
        return false;
    }
    /* objects of these types have no other class to change to */
    PyTypeObject *type = (PyTypeObject *)check->object;
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type ||
           type == &PyBool_Type || type == &PyTuple_Type || type == &PyFunction_Type ||
           type == &PyCFunction_Type || type == &PyDict_Type || type == &PyList_Type ||
           type == Py_TYPE(Py_None);
}

/* Whether the check of a node with a memo depends on nothing but the dict or type itself. */
static bool
check_is_remembered(const Check *check, Memo memo)
{
    switch (check->kind) {
    case CHECK_DICT_KEYS:
    case CHECK_DICT_HAS:
    case CHECK_DICT_LACKS:
        return memo == MEMO_DICT;
    case CHECK_TYPE_LACKS:
        return memo == MEMO_TYPE;
    default:
        return false;
    }
}

static int build_node(Builder *builder, Node *node, PyObject *spec);

static Memo
memo_of_child(const Node *child)
{
    return child->accessor == AT_DICT_ITEM   ? MEMO_DICT
           : child->accessor == AT_TYPE_ATTR ? MEMO_TYPE
                                             : MEMO_NONE;
}

/* The place of a child or check in its parent's row: lower comes first; stable otherwise. */
static int
child_rank(const Node *child)
{
    return memo_of_child(child) == MEMO_NONE ? 2 : child->fixed ? 0 : 1;
}

static int
build_children(Builder *builder, Node *node, PyObject *specs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(specs);
    if (n == 0) {
        return 0;
    }
    Node *unordered = PyMem_Calloc((size_t)n, sizeof(Node));
    node->children = PyMem_Calloc((size_t)n, sizeof(Node));
    if (unordered == NULL || node->children == NULL) {
        PyMem_Free(unordered);
        PyErr_NoMemory();
        return -1;
    }
    int status = 0;
    for (Py_ssize_t i = 0; i < n && status == 0; i++) {
        status = build_node(builder, &unordered[i], PyTuple_GET_ITEM(specs, i));
    }
    /* in any case all go to where they are freed from */
    for (int rank = 0; rank < 3; rank++) {
        for (Py_ssize_t i = 0; i < n; i++) {
            if (child_rank(&unordered[i]) == rank) {
                node->children[node->n_children++] = unordered[i];
                node->n_fixed += rank == 0;
                node->n_memo += rank < 2;
            }
        }
    }
    PyMem_Free(unordered);
    for (int i = 0; i < node->n_children; i++) {
        Node *child = &node->children[i];
        Memo memo = memo_of_child(child);
        if (memo != MEMO_NONE) {
            if (node->memo != MEMO_NONE && node->memo != memo) {
                return bad_spec("a value is a dict or a type, not both");
            }
            node->memo = memo;
        }
        if (child->accessor == AT_DICT_KEY && child->index > node->last_dict_key) {
            node->last_dict_key = (int)child->index;
        }
    }
    return status;
}

static int
build_checks(Builder *builder, Node *node, PyObject *specs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(specs);
    if (n == 0) {
        return 0;
    }
    Check *unordered = PyMem_Calloc((size_t)n, sizeof(Check));
    node->checks = PyMem_Calloc((size_t)n, sizeof(Check));
    if (unordered == NULL || node->checks == NULL) {
        PyMem_Free(unordered);
        PyErr_NoMemory();
        return -1;
    }
    int status = 0;
    for (Py_ssize_t i = 0; i < n && status == 0; i++) {
        status = build_check(builder, &unordered[i], PyTuple_GET_ITEM(specs, i));
        if (node->memo == MEMO_NONE) {
            node->memo = check_is_remembered(&unordered[i], MEMO_DICT)   ? MEMO_DICT
                         : check_is_remembered(&unordered[i], MEMO_TYPE) ? MEMO_TYPE
                                                                         : MEMO_NONE;
        }
    }
    for (int remembered = 0; remembered < 2; remembered++) {
        for (Py_ssize_t i = 0; i < n; i++) {
            if (check_is_remembered(&unordered[i], node->memo) == remembered) {
                node->checks[node->n_checks + node->n_memo_checks] = unordered[i];
                if (remembered) {
                    node->n_memo_checks++;
                }
                else {
                    node->n_checks++;
                }
            }
        }
    }
    PyMem_Free(unordered);
    return status;
}

static int
build_captures(Builder *builder, Node *node, PyObject *indices)
{
    Py_ssize_t n = PyTuple_GET_SIZE(indices);
    if (n == 0) {
        return 0;
    }
    node->captures = PyMem_Calloc((size_t)n, sizeof(int));
    if (node->captures == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(indices, i));
        if (index < 0 || index >= builder->tree->n_captures) {
            return bad_spec("a capture's place");
        }
        node->captures[node->n_captures++] = (int)index;
    }
    return 0;
}

static int
build_key(Builder *builder, Node *node, PyObject *key)
{
    switch (node->accessor) {
    case AT_LOCAL:
    case AT_CLOSURE_CELL:
    case AT_DICT_KEY:
    case AT_MRO_ITEM:
    case AT_ITEM:
    case AT_FUNC_CLOSURE:
        node->index = PyLong_AsSsize_t(key);
        return node->index < 0 ? bad_spec("an index") : 0;
    case AT_DICT_ITEM:
        if (hash_key(key, &node->hash) < 0) {
            return -1;
        }
        break;
    case AT_ATTR:
        builder->tree->runs_code = true;
        /* fall through */
    case AT_SLOT_MEMBER:
    case AT_TYPE_ATTR:
        if (!PyUnicode_CheckExact(key)) {
            return bad_spec("a name is wanted");
        }
        break;
    case AT_MEMBER:
        if (!PyTuple_Check(key)) {
            return bad_spec("member descriptors are a tuple");
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
            if (!Py_IS_TYPE(PyTuple_GET_ITEM(key, i), &PyMemberDescr_Type)) {
                return bad_spec("a member descriptor is wanted");
            }
        }
        break;
    case AT_DICT_LOOKUP:
        if (!PyTuple_Check(key) || PyTuple_GET_SIZE(key) != 2) {
            return bad_spec("two slots");
        }
        for (Py_ssize_t i = 0; i < 2; i++) {
            long slot = PyLong_AsLong(PyTuple_GET_ITEM(key, i));
            if (slot < 0 || slot >= builder->tree->n_slots) {
                return bad_spec("a slot");
            }
        }
        break;
    default:
        return 0;
    }
    node->key = key;
    return own(builder, key);
}

/* node = (accessor, key or index, checks, children, captures, slot) */
static int
build_node(Builder *builder, Node *node, PyObject *spec)
{
    int accessor;
    PyObject *key, *checks, *children, *captures;
    node->slot = -1;
    node->last_dict_key = -1;
    if (!PyTuple_Check(spec)) {
        return bad_spec("a node is a tuple");
    }
    if (!PyArg_ParseTuple(spec, "iOO!O!O!i:node", &accessor, &key, &PyTuple_Type, &checks,
                          &PyTuple_Type, &children, &PyTuple_Type, &captures, &node->slot)) {
        node->slot = -1;
        return -1;
    }
    if (accessor < 0 || accessor >= N_ACCESSORS || node->slot >= builder->tree->n_slots) {
        return bad_spec("an unknown accessor or slot");
    }
    node->accessor = (uint8_t)accessor;
    if (Py_EnterRecursiveCall(" while building guards")) {
        return -1;
    }
    /* children first: they tell whether the value is remembered as a dict or a type */
    int status = build_key(builder, node, key) < 0 || build_children(builder, node, children) < 0 ||
                         build_checks(builder, node, checks) < 0 ||
                         build_captures(builder, node, captures) < 0
                     ? -1
                     : 0;
    Py_LeaveRecursiveCall();
    node->fixed = node->n_children == 0 && node->memo == MEMO_NONE && node->n_captures == 0 &&
                  node->slot < 0;
    for (int i = 0; i < node->n_checks; i++) {
        node->fixed = node->fixed && check_is_fixed(&node->checks[i]);
    }
    return status;
}

/* Only fixed children may be skipped, so only those may be checked by `refresh` alone. */
static void
free_node(Node *node)
{
    for (int i = 0; i < node->n_children; i++) {
        free_node(&node->children[i]);
    }
    for (int i = 0; i < node->n_checks + node->n_memo_checks; i++) {
        tensor_facts_free(node->checks[i].facts);
    }
    PyMem_Free(node->children);
    PyMem_Free(node->checks);
    PyMem_Free(node->captures);
    memset(node, 0, sizeof(*node));
}

/* post = (kind, slots, argument) */
static int
build_post(Builder *builder, PostCheck *post, PyObject *spec)
{
    int kind;
    PyObject *slots, *argument;
    GuardTree *tree = builder->tree;
    if (!PyArg_ParseTuple(spec, "iO!O:post check", &kind, &PyTuple_Type, &slots, &argument)) {
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(slots);
    post->kind = (uint8_t)kind;
    post->slots = PyMem_Calloc((size_t)n + 1, sizeof(int));
    if (post->slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        long slot = PyLong_AsLong(PyTuple_GET_ITEM(slots, i));
        if (slot < 0 || slot >= tree->n_slots) {
            return bad_spec("a slot");
        }
        post->slots[post->n_slots++] = (int)slot;
    }
    if ((kind == POST_SAME || kind == POST_NOT_SAME) && n != 2) {
        return bad_spec("two sources are compared");
    }
    if (kind == POST_EXPRESSION) {
        if (n > 16) {
            return bad_spec("an expression of more than 16 values");
        }
        tree->runs_code = true;
        post->object = argument;
        return own(builder, argument);
    }
    if (kind == POST_STORAGES) {
        if (!PyTuple_Check(argument) || PyTuple_GET_SIZE(argument) != n) {
            return bad_spec("a group for each slot");
        }
        post->groups = PyMem_Calloc((size_t)n + 1, sizeof(int));
        if (post->groups == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            long group = PyLong_AsLong(PyTuple_GET_ITEM(argument, i));
            if (group < 0 || group > i) {
                return bad_spec("a group is the place of its first member");
            }
            post->groups[i] = (int)group;
        }
    }
    if (kind == POST_STORAGES || kind == POST_ALL_DISTINCT) {
        size_t size = 16;
        while (size < 2 * (size_t)n) {
            size *= 2;
        }
        if (size > tree->scratch_size) {
            PyMem_Free(tree->scratch);
            tree->scratch = PyMem_Calloc(size, sizeof(void *));
            tree->scratch_size = tree->scratch == NULL ? 0 : size;
            if (tree->scratch == NULL) {
                PyErr_NoMemory();
                return -1;
            }
        }
        return 0;
    }
    return kind == POST_SAME || kind == POST_NOT_SAME ? 0 : bad_spec("an unknown post check");
}

static int
build_tree(Builder *builder, PyObject *spec, PyObject *post_checks)
{
    GuardTree *tree = builder->tree;
    if (build_children(builder, &tree->root, spec) < 0) {
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(post_checks);
    tree->post = PyMem_Calloc((size_t)n + 1, sizeof(PostCheck));
    if (tree->post == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        tree->n_post++;
        if (build_post(builder, &tree->post[i], PyTuple_GET_ITEM(post_checks, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

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
        (void)bad_spec("counts are not negative and the state is a snapshot");
        return NULL;
    }
    GuardTree *tree = (GuardTree *)type->tp_alloc(type, 0);
    if (tree == NULL) {
        return NULL;
    }
    tree->root.slot = tree->root.last_dict_key = -1;
    tree->n_captures = n_captures;
    tree->n_slots = n_slots;
    tree->shortcuts = shortcuts_allowed;
    tree->state = state == Py_None ? NULL : Py_NewRef(state);
    tree->owned = PyList_New(0);
    tree->life = PyObject_New(Life, Life_Type);
    Builder builder = {tree, PyDict_New(), NULL};
    int status = -1;
    if (tree->life != NULL && tree->owned != NULL && builder.watched != NULL) {
        tree->life->alive = true;
        builder.callback = PyCFunction_New(&life_ended_definition, (PyObject *)tree->life);
        if (builder.callback != NULL) {
            status = build_tree(&builder, spec, post_checks);
        }
    }
    Py_XDECREF(builder.watched);
    Py_XDECREF(builder.callback);
    if (status < 0) {
        Py_DECREF(tree);
        return NULL;
    }
    return (PyObject *)tree;
}

/* ---- checking ------------------------------------------------------------------------------------------ */

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

/* ---- the type --------------------------------------------------------------------------------------------- */

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
    free_node(&tree->root);
    for (int i = 0; i < tree->n_post; i++) {
        PyMem_Free(tree->post[i].slots);
        PyMem_Free(tree->post[i].groups);
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

/* allow_shortcuts(bool): trust version tags in trees made from now on; returns the previous value */
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

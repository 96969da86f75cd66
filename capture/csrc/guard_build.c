/* Builds the nodes and checks of a guard tree from the plain tuples of lower.py. Must not know what
 * the checks mean: guard_check.c does.
 */
#include "guard_tree.h"

#include <string.h>

#include "tensor_meta.h"

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

static bool
is_dict_place(const Node *child)
{
    return child->accessor == AT_DICT_KEY || child->accessor == AT_DICT_VALUE;
}

/* Sort children by their index; they mostly come so. */
static void
sort_places(Node *places, int n)
{
    for (int i = 1; i < n; i++) {
        Node moved = places[i];
        int to = i;
        for (; to > 0 && places[to - 1].index > moved.index; to--) {
            places[to] = places[to - 1];
        }
        places[to] = moved;
    }
}

/* The place of a child or check in its parent's row: lower comes first; stable otherwise. */
static int
child_rank(const Node *child)
{
    if (is_dict_place(child)) {
        return 3;
    }
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
    for (int rank = 0; rank < 4; rank++) {
        for (Py_ssize_t i = 0; i < n; i++) {
            if (child_rank(&unordered[i]) == rank) {
                node->children[node->n_children++] = unordered[i];
                node->n_fixed += rank == 0;
                node->n_memo += rank < 2;
                node->n_places += rank == 3;
            }
        }
    }
    PyMem_Free(unordered);
    sort_places(node->children + node->n_children - node->n_places, node->n_places);
    for (int i = 0; i < node->n_children; i++) {
        Node *child = &node->children[i];
        Memo memo = memo_of_child(child);
        if (memo != MEMO_NONE) {
            if (node->memo != MEMO_NONE && node->memo != memo) {
                return bad_spec("a value is a dict or a type, not both");
            }
            node->memo = memo;
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
    case AT_DICT_VALUE:
    case AT_MRO_ITEM:
    case AT_ITEM:
    case AT_FUNC_CLOSURE:
    case AT_TENSOR_SIZE:
    case AT_TENSOR_STRIDE:
    case AT_RANGE_ITERATOR:
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

void
guard_node_free(Node *node)
{
    for (int i = 0; i < node->n_children; i++) {
        guard_node_free(&node->children[i]);
    }
    for (int i = 0; i < node->n_checks + node->n_memo_checks; i++) {
        tensor_facts_free(node->checks[i].facts);
    }
    PyMem_Free(node->children);
    PyMem_Free(node->checks);
    PyMem_Free(node->captures);
    PyMem_Free(node->seen_slots);
    witness_free(node->witness);
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
        tree->runs_code = true;
        post->object = argument;
        return own(builder, argument);
    }
    if (kind == POST_SIZES) {
        PyObject *fallback;
        post->program = shape_program_new(argument, tree->n_slots, &fallback);
        return post->program == NULL ? -1 : own(builder, fallback);
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

int
guard_tree_build(GuardTree *tree, PyObject *callback, PyObject *spec, PyObject *post_checks)
{
    Builder builder = {tree, PyDict_New(), callback};
    int status = builder.watched == NULL ? -1 : build_tree(&builder, spec, post_checks);
    Py_XDECREF(builder.watched);
    if (status == 0 && tree->shortcuts && !tree->runs_code) {
        for (int i = 0; i < tree->root.n_children; i++) {
            witness_give(&tree->root.children[i]);
        }
    }
    return status;
}

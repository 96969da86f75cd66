/* Checks values against a guard tree. Values are borrowed all along: each parent holds its own
 * while its children are looked at. No user code runs, save where an accessor says so. Must not
 * know how a tree is built.
 */
#include "range_compat.h"
#include "guard_tree.h"

#include <string.h>
#include <structmember.h>

#include "dict_compat.h"
#include "global_state.h"

static PyTypeObject *deque_type;

int
guard_check_init(void)
{
    if (deque_type == NULL) {
        PyObject *collections = PyImport_ImportModule("collections");
        if (collections == NULL) {
            return -1;
        }
        deque_type = (PyTypeObject *)PyObject_GetAttrString(collections, "deque");
        Py_DECREF(collections);
    }
    return deque_type == NULL ? -1 : 0;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* The real length of a builtin container or of a subclass of one; -1 for others. */
static inline Py_ssize_t
real_length(PyObject *value)
{
    if (PyDict_Check(value)) {
        return PyDict_GET_SIZE(value);
    }
    if (PyList_Check(value) || PyTuple_Check(value) || PyBytes_Check(value) ||
        PyObject_TypeCheck(value, deque_type)) {
        return Py_SIZE(value);
    }
    if (PyAnySet_Check(value)) {
        return PySet_GET_SIZE(value);
    }
    return PyUnicode_Check(value) ? PyUnicode_GET_LENGTH(value) : -1;
}

/* Borrows; NULL without an exception when it is missing. `key` is hashable with this hash. */
static inline PyObject *
dict_get(PyObject *dict, PyObject *key, Py_hash_t hash)
{
    PyObject *value = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (value == NULL && PyErr_Occurred()) {
        PyErr_Clear();
    }
    return value;
}

static inline bool
key_holds(PyObject *key, PyObject *expected)
{
    return key == expected || (guard_is_constant(expected) && guard_constants_equal(key, expected));
}

static bool
ordered_keys_hold(PyObject *dict, PyObject *keys)
{
    /* an OrderedDict keeps its order apart from the dict's; its C iterator runs no user code */
    PyObject *iterator = PyODict_Type.tp_iter(dict);
    if (iterator == NULL) {
        return false;
    }
    bool holds = true;
    for (Py_ssize_t i = 0; holds && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = Py_TYPE(iterator)->tp_iternext(iterator);
        holds = key != NULL && key_holds(key, PyTuple_GET_ITEM(keys, i));
        Py_XDECREF(key);
    }
    Py_DECREF(iterator);
    return holds;
}

static bool
dict_keys_hold(PyObject *dict, PyObject *keys)
{
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) {
        return false;
    }
    if (PyODict_Check(dict) && PyTuple_GET_SIZE(keys) > 1) {
        return ordered_keys_hold(dict, keys);
    }
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (!key_holds(key, PyTuple_GET_ITEM(keys, i++))) {
            return false;
        }
    }
    return true;
}

static inline bool
check_holds(const Check *check, PyObject *value)
{
    switch (check->kind) {
    case CHECK_TYPE:
        return (PyObject *)Py_TYPE(value) == check->object;
    case CHECK_IDENTITY:
        return value == check->object;
    case CHECK_EQUAL:
        return guard_constants_equal(value, check->object);
    case CHECK_LENGTH:
        return real_length(value) == check->number;
    case CHECK_EMPTY: {
        Py_ssize_t length = real_length(value);
        return length >= 0 && (length == 0) == (check->number != 0);
    }
    case CHECK_DICT_KEYS:
    case CHECK_DICT_ORDER:
        return dict_keys_hold(value, check->object);
    case CHECK_DICT_HAS:
        return PyDict_Check(value) && dict_get(value, check->object, check->number) != NULL;
    case CHECK_DICT_LACKS:
        return PyDict_Check(value) && dict_get(value, check->object, check->number) == NULL;
    case CHECK_TYPE_LACKS:
        return PyType_Check(value) && _PyType_Lookup((PyTypeObject *)value, check->object) == NULL;
    case CHECK_TENSOR:
        return tensor_facts_hold(check->facts, value);
    case CHECK_CELL_BOUND:
        return PyCell_Check(value) && (PyCell_GET(value) != NULL) == (check->number != 0);
    default:
        return false;
    }
}

/* ---- accessors ------------------------------------------------------------------------------ */

typedef struct {
    GuardTree *tree;
    PyObject *const *values;
    Py_ssize_t n_values;
    PyObject *func;
    PyObject **captures;
    PyObject **slots; /* strong */
} Run;

/* Of atoms and of what hashes as a plain object, its hash; of all else what Tensor.__hash__ says,
 * the hash of its address, without calling that. */
static Py_hash_t
lookup_hash(PyObject *key)
{
    if (guard_is_atom(key) || Py_TYPE(key)->tp_hash == PyBaseObject_Type.tp_hash) {
        Py_hash_t hash = PyObject_Hash(key);
        if (hash == -1) {
            PyErr_Clear();
        }
        return hash;
    }
    PyObject *number = PyLong_FromVoidPtr(key);
    Py_hash_t hash = number == NULL ? -1 : PyObject_Hash(number);
    Py_XDECREF(number);
    return hash;
}

static PyObject *
dict_lookup(const Run *run, const Node *node)
{
    PyObject *dict = run->slots[PyLong_AsLong(PyTuple_GET_ITEM(node->key, 0))];
    PyObject *key = run->slots[PyLong_AsLong(PyTuple_GET_ITEM(node->key, 1))];
    if (dict == NULL || key == NULL || !PyDict_Check(dict)) {
        return NULL;
    }
    Py_hash_t hash = lookup_hash(key);
    return hash == -1 ? NULL : dict_get(dict, key, hash);
}

static PyObject *
root_value(const Run *run, const Node *node)
{
    PyFunctionObject *func = (PyFunctionObject *)run->func;
    switch (node->accessor) {
    case AT_LOCAL:
        return node->index < run->n_values ? run->values[node->index] : NULL;
    case AT_DICT_LOOKUP:
        return dict_lookup(run, node);
    case AT_MODULES:
        return PyImport_GetModuleDict();
    default:
        break;
    }
    if (func == NULL || !PyFunction_Check(func)) {
        return NULL;
    }
    switch (node->accessor) {
    case AT_CLOSURE_CELL:
        return func->func_closure != NULL && node->index < PyTuple_GET_SIZE(func->func_closure)
                   ? PyTuple_GET_ITEM(func->func_closure, node->index)
                   : NULL;
    case AT_GLOBALS:
        return func->func_globals;
    case AT_BUILTINS:
        return func->func_builtins;
    default:
        return NULL;
    }
}

static inline PyObject *
sequence_item(PyObject *value, Py_ssize_t index)
{
    if (PyTuple_Check(value)) {
        return index < PyTuple_GET_SIZE(value) ? PyTuple_GET_ITEM(value, index) : NULL;
    }
    if (PyList_Check(value)) {
        return index < PyList_GET_SIZE(value) ? PyList_GET_ITEM(value, index) : NULL;
    }
    return NULL;
}

static PyObject *
function_part(const Node *node, PyObject *value)
{
    PyFunctionObject *func = (PyFunctionObject *)value;
    if (!PyFunction_Check(value)) {
        return NULL;
    }
    PyObject *part = NULL;
    switch (node->accessor) {
    case AT_FUNC_GLOBALS:
        return func->func_globals;
    case AT_FUNC_CLOSURE:
        return func->func_closure == NULL ? NULL : sequence_item(func->func_closure, node->index);
    case AT_FUNC_DEFAULTS:
        part = func->func_defaults;
        break;
    case AT_FUNC_KWDEFAULTS:
        part = func->func_kwdefaults;
        break;
    default:
        return func->func_code;
    }
    return part == NULL ? Py_None : part;
}

static PyObject *
method_part(const Node *node, PyObject *value)
{
    if (PyMethod_Check(value)) {
        return node->accessor == AT_METHOD_SELF ? PyMethod_GET_SELF(value)
                                                : PyMethod_GET_FUNCTION(value);
    }
    if (node->accessor == AT_METHOD_SELF && PyCFunction_CheckExact(value)) {
        PyObject *self = PyCFunction_GET_SELF(value);
        return self == NULL ? Py_None : self;
    }
    return NULL;
}

/* New reference or NULL; reads a C member of a type that is the descriptor's. */
static PyObject *
member_value(PyObject *descriptor, PyObject *value)
{
    PyMemberDescrObject *member = (PyMemberDescrObject *)descriptor;
    if (!PyObject_TypeCheck(value, PyDescr_TYPE(member))) {
        return NULL;
    }
    return PyMember_GetOne((const char *)value, member->d_member);
}

/* New reference or NULL: what a weak reference refers to, while it lives. */
static PyObject *
referent(PyObject *value)
{
    if (!PyWeakref_CheckRef(value)) {
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = NULL;
    return PyWeakref_GetRef(value, &found) < 0 ? NULL : found;
#else
    PyObject *found = PyWeakref_GET_OBJECT(value);
    return found == Py_None ? NULL : Py_NewRef(found);
#endif
}

/* New reference or NULL: where an iterator of a range stands. */
static PyObject *
range_iterator_part(PyObject *value, Py_ssize_t part)
{
    RangePosition at;
    if (!Py_IS_TYPE(value, &PyRangeIter_Type)) {
        return NULL;
    }
    range_position(value, &at);
    return PyLong_FromLong(part == 0 ? at.next : part == 1 ? at.step : at.left);
}

static inline PyObject *
child_value(const Node *node, PyObject *value, PyObject **owned)
{
    switch (node->accessor) {
    case AT_CELL_CONTENTS:
        return PyCell_Check(value) ? PyCell_GET(value) : NULL;
    case AT_DICT_ITEM:
        return PyDict_Check(value) ? dict_get(value, node->key, node->hash) : NULL;
    case AT_INSTANCE_DICT:
        return instance_dict(value);
    case AT_TYPE:
        return (PyObject *)Py_TYPE(value);
    case AT_TYPE_ATTR:
        return PyType_Check(value) ? _PyType_Lookup((PyTypeObject *)value, node->key) : NULL;
    case AT_MRO_ITEM: {
        PyObject *mro = PyType_Check(value) ? ((PyTypeObject *)value)->tp_mro : NULL;
        return mro == NULL ? NULL : sequence_item(mro, node->index);
    }
    case AT_ITEM:
        return sequence_item(value, node->index);
    case AT_FUNC_GLOBALS:
    case AT_FUNC_CLOSURE:
    case AT_FUNC_DEFAULTS:
    case AT_FUNC_KWDEFAULTS:
    case AT_FUNC_CODE:
        return function_part(node, value);
    case AT_METHOD_SELF:
    case AT_METHOD_FUNC:
        return method_part(node, value);
    case AT_REFERENT:
        return *owned = referent(value);
    case AT_TENSOR_SIZE:
    case AT_TENSOR_STRIDE:
        return *owned = tensor_dim(value, node->index, node->accessor == AT_TENSOR_STRIDE);
    case AT_RANGE_ITERATOR:
        return *owned = range_iterator_part(value, node->index);
    case AT_ATTR:
        return *owned = PyObject_GetAttr(value, node->key);
    case AT_SLOT_MEMBER: {
        PyObject *member = _PyType_Lookup(Py_TYPE(value), node->key);
        if (member == NULL || !Py_IS_TYPE(member, &PyMemberDescr_Type)) {
            return NULL;
        }
        return *owned = member_value(member, value);
    }
    case AT_MEMBER:
        for (Py_ssize_t i = 0; *owned == NULL && i < PyTuple_GET_SIZE(node->key); i++) {
            *owned = member_value(PyTuple_GET_ITEM(node->key, i), value);
        }
        return *owned;
    default:
        return NULL;
    }
}

PyObject *
guard_child_value(const Node *node, PyObject *value, PyObject **owned)
{
    return child_value(node, value, owned);
}

/* ---- the walk ------------------------------------------------------------------------------- */

static bool run_node(const Run *run, Node *node, PyObject *value);

static inline uint64_t
version_of(const Node *node, PyObject *value)
{
    if (node->memo == MEMO_DICT) {
        return PyDict_Check(value) ? dict_version(value) : 0;
    }
    return PyType_Check(value) ? type_version((PyTypeObject *)value) : 0;
}

static bool
run_child(const Run *run, Node *child, PyObject *value)
{
    PyObject *owned = NULL;
    PyObject *found = child_value(child, value, &owned);
    if (found == NULL) {
        return false;
    }
    bool holds = run_node(run, child, found);
    Py_XDECREF(owned);
    return holds;
}

/* All AT_DICT_KEY and AT_DICT_VALUE children in one pass over the dict or set. */
static bool
run_dict_places(const Run *run, Node *node, PyObject *dict)
{
    Node *const end = node->children + node->n_children;
    Node *child = end - node->n_places;
    PyTypeObject *kind = NULL;
    if (PyAnySet_Check(dict)) {
        kind = PyFrozenSet_Check(dict) ? &PyFrozenSet_Type : &PySet_Type;
    } else if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) <= end[-1].index) {
        return false;
    } else if (PyODict_Check(dict)) {
        kind = &PyODict_Type;
    }
    PyObject *iterator = NULL;
    if (kind != NULL) {
        iterator = kind->tp_iter(dict);
        if (iterator == NULL) {
            return false;
        }
    }
    bool holds = true;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; holds && child < end; i++) {
        PyObject *key = NULL, *value = NULL;
        if (iterator != NULL) {
            key = Py_TYPE(iterator)->tp_iternext(iterator);
        } else if (PyDict_Next(dict, &position, &key, &value)) {
            Py_INCREF(key); /* what runs below may change the dict */
            Py_INCREF(value);
        }
        holds = key != NULL;
        for (; holds && child < end && child->index == i; child++) {
            PyObject *found = child->accessor == AT_DICT_KEY ? key : value;
            holds = found != NULL && run_node(run, child, found);
        }
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    Py_XDECREF(iterator);
    return holds;
}

static inline bool
checks_hold(const Check *checks, int n, PyObject *value)
{
    for (int i = 0; i < n; i++) {
        if (!check_holds(&checks[i], value)) {
            return false;
        }
    }
    return true;
}

/* Whether the slots that were looked at hold what they held. */
static inline bool
slots_hold(const Node *node, PyObject *value)
{
    if (!PyDict_Check(value) || !slot_keys_are(value, node->seen_keys)) {
        return false;
    }
    for (int i = 0; i < node->n_seen_slots; i++) {
        if (slot_value(value, node->seen_slots[i].slot) != node->seen_slots[i].value) {
            return false;
        }
    }
    return true;
}

/* Note the slots that the memo children's values came from, and those of keys that must be there
 * or not; false if there are no slots, or they do not tell everything. */
static bool
note_slots(Node *node, PyObject *dict)
{
    if (node->memo != MEMO_DICT || !PyDict_Check(dict)) {
        return false;
    }
    node->seen_keys = slot_keys_number(dict);
    if (node->seen_keys == 0) {
        return false;
    }
    if (node->seen_slots == NULL) {
        size_t n = (size_t)(node->n_memo + node->n_memo_checks);
        node->seen_slots = PyMem_New(SeenSlot, n);
        if (node->seen_slots == NULL) {
            return false;
        }
    }
    node->n_seen_slots = 0;
    for (int i = 0; i < node->n_memo + node->n_memo_checks; i++) {
        bool is_child = i < node->n_memo;
        const Check *check = is_child ? NULL : &node->checks[node->n_checks + i - node->n_memo];
        PyObject *key = is_child ? node->children[i].key : check->object;
        if ((!is_child && check->kind == CHECK_DICT_KEYS) || !PyUnicode_CheckExact(key)) {
            return false;
        }
        Py_ssize_t slot = slot_of_key(dict, key);
        PyObject *value = slot < 0 ? NULL : slot_value(dict, slot);
        if (is_child && (value == NULL || value != node->children[i].seen_value)) {
            return false;
        }
        if (slot >= 0) { /* a key that no instance of the class has stays absent with the number */
            node->seen_slots[node->n_seen_slots++] = (SeenSlot){slot, value};
        }
    }
    return true;
}

/* Whether the children's seen values are those of this very dict or type as it is now. */
static inline bool
remembers(const Run *run, const Node *node, PyObject *value)
{
    if (node->seen_owner != value || !run->tree->shortcuts) {
        return false;
    }
    if (node->seen_version == 0) {
        return slots_hold(node, value);
    }
    return version_of(node, value) == node->seen_version;
}

/* The fixed children's checks, on what they were seen to be. */
static inline bool
fixed_hold(const Node *node)
{
    for (int i = 0; i < node->n_fixed; i++) {
        const Node *child = &node->children[i];
        if (!checks_hold(child->checks, child->n_checks, child->seen_value)) {
            return false;
        }
    }
    return true;
}

/* Look all memo children up anew, check the fixed ones, and remember. */
static bool
refresh(const Run *run, Node *node, PyObject *value)
{
    node->seen_owner = NULL;
    if (!checks_hold(node->checks + node->n_checks, node->n_memo_checks, value)) {
        return false;
    }
    for (int i = 0; i < node->n_memo; i++) {
        Node *child = &node->children[i];
        PyObject *owned = NULL;
        child->seen_value = child_value(child, value, &owned);
        if (child->seen_value == NULL ||
            (i < node->n_fixed &&
             !checks_hold(child->checks, child->n_checks, child->seen_value))) {
            return false;
        }
    }
    /* a type's look-ups may just have given it its version, so it is read last; none of the above
     * can have written to the dict or type */
    if (run->tree->shortcuts) {
        node->seen_version = version_of(node, value);
        if (node->seen_version != 0 || note_slots(node, value)) {
            node->seen_owner = value;
        }
    }
    return true;
}

static bool
run_memo_children(const Run *run, Node *node, PyObject *value)
{
    if (!remembers(run, node, value)) {
        if (!refresh(run, node, value)) {
            return false;
        }
    }
    else if (node->seen_version == 0 && !fixed_hold(node)) {
        /* A slot's pointer may be that of a new object in the place of the one that was seen; a
         * version is never seen again. */
        return false;
    }
    for (int i = node->n_fixed; i < node->n_memo; i++) {
        Node *child = &node->children[i];
        /* code that a sibling's check ran may have written here or used this node's memory */
        if (run->tree->runs_code && !remembers(run, node, value)) {
            if (!run_child(run, child, value)) {
                return false;
            }
        }
        else if (!run_node(run, child, child->seen_value)) {
            return false;
        }
    }
    return true;
}

static bool
run_children(const Run *run, Node *node, PyObject *value)
{
    if (node->memo != MEMO_NONE && !run_memo_children(run, node, value)) {
        return false;
    }
    for (int i = node->n_memo; i < node->n_children - node->n_places; i++) {
        if (!run_child(run, &node->children[i], value)) {
            return false;
        }
    }
    return node->n_places == 0 || run_dict_places(run, node, value);
}

static bool
walk_node(const Run *run, Node *node, PyObject *value)
{
    if (!checks_hold(node->checks, node->n_checks, value)) {
        return false;
    }
    for (int i = 0; i < node->n_captures; i++) {
        run->captures[node->captures[i]] = Py_NewRef(value);
    }
    if (node->slot >= 0) {
        Py_XSETREF(run->slots[node->slot], Py_NewRef(value));
    }
    if (node->n_children == 0 && node->memo == MEMO_NONE) {
        return true;
    }
    Py_INCREF(value);
    bool holds = run_children(run, node, value);
    Py_DECREF(value);
    return holds;
}

/* The place of the first word that is not what it was, or -1. */
static inline int
changed_word(const Witness *witness)
{
    const SeenWord *words = witness->words;
    for (int i = 0; i < witness->n_words; i++) {
        if (*words[i].address != words[i].word) {
            return i;
        }
    }
    return -1;
}

/* All words are what they were: hand out what the walk would, and walk what has no words. */
static bool
take_witness(const Run *run, const Witness *witness)
{
    for (int i = 0; i < witness->n_outputs; i++) {
        const SeenOutput *output = &witness->outputs[i];
        if (output->place >= 0) {
            run->captures[output->place] = Py_NewRef(output->value);
        }
        else {
            Py_XSETREF(run->slots[~output->place], Py_NewRef(output->value));
        }
    }
    for (int i = 0; i < witness->n_rest; i++) {
        if (!run_child(run, witness->rest[i].node, witness->rest[i].value)) {
            return false;
        }
    }
    return true;
}

static bool
run_node(const Run *run, Node *node, PyObject *value)
{
    Witness *witness = node->witness;
    if (witness == NULL) {
        return walk_node(run, node, value);
    }
    if (witness->value == value) {
        int changed = changed_word(witness);
        if (changed < 0) {
            witness->held++;
            return take_witness(run, witness);
        }
        witness_failed(witness, changed);
    }
    if (!walk_node(run, node, value)) {
        return false;
    }
    witness_record(node, value);
    return true;
}

/* ---- post checks ---------------------------------------------------------------------------- */

/* Put the pointer into the tree's table; false if it is there already. */
static inline bool
add_distinct(GuardTree *tree, const void *pointer)
{
    size_t mask = tree->scratch_size - 1;
    size_t place = (((uintptr_t)pointer >> 4) * 0x9E3779B97F4A7C15u >> 20) & mask;
    while (tree->scratch[place] != NULL) {
        if (tree->scratch[place] == pointer) {
            return false;
        }
        place = (place + 1) & mask;
    }
    tree->scratch[place] = pointer;
    return true;
}

static bool
all_distinct(const Run *run, const PostCheck *post)
{
    memset(run->tree->scratch, 0, run->tree->scratch_size * sizeof(void *));
    for (int i = 0; i < post->n_slots; i++) {
        PyObject *value = run->slots[post->slots[i]];
        if (value == NULL || !add_distinct(run->tree, value)) {
            return false;
        }
    }
    return true;
}

/* Tensors share storage exactly as their groups say; a group's number is the place of its first
 * member. */
static bool
storages_hold(const Run *run, const PostCheck *post)
{
    memset(run->tree->scratch, 0, run->tree->scratch_size * sizeof(void *));
    for (int i = 0; i < post->n_slots; i++) {
        PyObject *tensor = run->slots[post->slots[i]];
        const void *storage = tensor == NULL ? NULL : tensor_storage(tensor);
        if (storage == NULL) {
            return false;
        }
        int first = post->groups[i];
        if (first == i) {
            if (!add_distinct(run->tree, storage)) {
                return false;
            }
        }
        else if (tensor_storage(run->slots[post->slots[first]]) != storage) {
            return false;
        }
    }
    return true;
}

static bool
expression_holds(const Run *run, const PostCheck *post)
{
    PyObject *few[16], **arguments = few;
    if (post->n_slots > 16) {
        arguments = PyMem_Malloc((size_t)post->n_slots * sizeof(PyObject *));
        if (arguments == NULL) {
            return false;
        }
    }
    bool there = true;
    for (int i = 0; i < post->n_slots; i++) {
        arguments[i] = run->slots[post->slots[i]];
        there = there && arguments[i] != NULL;
    }
    PyObject *answer = NULL;
    if (there) {
        answer = PyObject_Vectorcall(post->object, arguments, (size_t)post->n_slots, NULL);
    }
    if (arguments != few) {
        PyMem_Free(arguments);
    }
    bool holds = answer != NULL && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(answer);
    return holds;
}

static bool
post_check_holds(const Run *run, const PostCheck *post)
{
    switch (post->kind) {
    case POST_SAME:
        return run->slots[post->slots[0]] == run->slots[post->slots[1]];
    case POST_NOT_SAME:
        return run->slots[post->slots[0]] != run->slots[post->slots[1]];
    case POST_ALL_DISTINCT:
        return all_distinct(run, post);
    case POST_STORAGES:
        return storages_hold(run, post);
    case POST_SIZES:
        return shape_program_holds(post->program, run->slots);
    default:
        return expression_holds(run, post);
    }
}

bool
guard_tree_run(GuardTree *tree, PyObject *const *values, Py_ssize_t n, PyObject *func,
               PyObject **captures)
{
    PyObject *few[16], **slots = few;
    if (tree->state != NULL && !global_state_holds(tree->state)) {
        return false;
    }
    if (tree->n_slots > 16) {
        slots = PyMem_Malloc((size_t)tree->n_slots * sizeof(PyObject *));
        if (slots == NULL) {
            return false;
        }
    }
    if (tree->n_slots > 0) {
        memset(slots, 0, (size_t)tree->n_slots * sizeof(PyObject *));
    }
    Run run = {tree, values, n, func, captures, slots};
    bool holds = true;
    for (int i = 0; holds && i < tree->root.n_children; i++) {
        Node *node = &tree->root.children[i];
        PyObject *value = root_value(&run, node);
        holds = value != NULL && run_node(&run, node, value);
    }
    for (int i = 0; holds && i < tree->n_post; i++) {
        holds = post_check_holds(&run, &tree->post[i]);
    }
    for (int i = 0; i < tree->n_slots; i++) {
        Py_XDECREF(slots[i]);
    }
    if (slots != few) {
        PyMem_Free(slots);
    }
    return holds;
}

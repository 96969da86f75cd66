/* Records what a successful walk of a guard tree depended on: a flat list of words of memory.
 *
 * While each of these words is what it was, the checks below a node hold again, so the next check is
 * a loop of compares without a look-up and without one load depending on another. Words stand in the
 * order in which the walk reached them, so a word is read only when those before it have shown that
 * the memory it lies in is still that object's. What no word can stand for is walked as before.
 *
 * An object is "certain" when the words before it prove that it is the very object that was seen, and
 * not another one at its address: it was found under a version that is never seen again, or the tree
 * watches it, or something certain that cannot change holds it. Of other objects the type and
 * everything that was checked are words of their own.
 *
 * Must not know how a tree is built. No user code runs here.
 */
#include "guard_tree.h"

#include <string.h>
#include <structmember.h>

#include "dict_compat.h"

typedef struct {
    Witness *witness;
    bool failed; /* out of memory */
} Recorder;

/* Make room for one more item; the array is left as it was on failure. */
static bool
reserve(Recorder *recorder, void *array, int used, int *room, size_t size)
{
    if (used < *room) {
        return true;
    }
    int wanted = *room == 0 ? 16 : *room * 2;
    void *old, *bigger;
    memcpy(&old, array, sizeof(old));
    bigger = PyMem_Realloc(old, (size_t)wanted * size);
    if (bigger == NULL) {
        recorder->failed = true;
        return false;
    }
    memcpy(array, &bigger, sizeof(bigger));
    *room = wanted;
    return true;
}

/* ---- words ---------------------------------------------------------------------------------- */

typedef struct {
    Recorder *recorder;
    Node *owner;
} Writer;

/* Note the aligned word around `place`, which lies within an object longer than that. */
static bool
see(void *context, const void *place)
{
    const Writer *writer = context;
    Recorder *recorder = writer->recorder;
    Witness *witness = recorder->witness;
    const WitnessWord *address = (const void *)((uintptr_t)place & ~(uintptr_t)7);
    if (!reserve(recorder, &witness->words, witness->n_words, &witness->word_room,
                 sizeof(SeenWord)) ||
        !reserve(recorder, &witness->owners, witness->n_words, &witness->owner_room,
                 sizeof(Node *))) {
        return false;
    }
    witness->owners[witness->n_words] = writer->owner;
    witness->words[witness->n_words++] = (SeenWord){address, *address};
    return true;
}

/* Whether the object's class is a word to be seen. It is not where that cannot be another one. */
static bool
class_may_change(PyObject *value)
{
    return PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) || PyModule_Check(value);
}

/* The number of a dict's or type's state that the memo children and checks rest on. *certain: what
 * is found there is certain. */
static bool
see_version(Writer *writer, PyObject *value, bool *certain)
{
    *certain = true;
    if (PyDict_Check(value)) {
        if (dict_version(value) != 0) {
            return see(writer, dict_version_place(value));
        }
        *certain = false;
        return slot_keys_number(value) != 0 && see(writer, slot_values_place(value)) &&
               see(writer, slot_keys_place(value)) && see(writer, slot_keys_number_place(value));
    }
    return PyType_Check(value) && type_version((PyTypeObject *)value) != 0 &&
           see(writer, &((PyTypeObject *)value)->tp_version_tag);
}

/* What a dict with slots holds under a key, or that it holds nothing there. */
static bool
see_slot(Writer *writer, PyObject *dict, PyObject *key)
{
    if (!PyUnicode_CheckExact(key)) {
        return false;
    }
    Py_ssize_t slot = slot_of_key(dict, key);
    return slot < 0 || see(writer, slot_place(dict, slot));
}

static bool
see_length(Writer *writer, PyObject *value, bool certain)
{
    if (PyDict_Check(value)) {
        return see(writer, &((PyDictObject *)value)->ma_used);
    }
    if (PyAnySet_Check(value)) {
        return see(writer, &((PySetObject *)value)->used);
    }
    if (PyTuple_Check(value) || PyBytes_Check(value)) {
        return certain || see(writer, &((PyVarObject *)value)->ob_size);
    }
    if (PyUnicode_Check(value)) {
        return certain || see(writer, &((PyASCIIObject *)value)->length);
    }
    return see(writer, &((PyVarObject *)value)->ob_size); /* lists, deques: the walk saw to it */
}

static bool
see_check(Writer *writer, const Check *check, PyObject *value, bool certain, bool by_version)
{
    switch (check->kind) {
    case CHECK_TYPE:
    case CHECK_IDENTITY:
        return true; /* the class is seen already; the address is the word that led here */
    case CHECK_EQUAL:
        return certain;
    case CHECK_LENGTH:
    case CHECK_EMPTY:
        return see_length(writer, value, certain);
    case CHECK_DICT_KEYS:
        return by_version && !(PyODict_Check(value) && PyDict_GET_SIZE(value) > 1);
    case CHECK_DICT_HAS:
    case CHECK_DICT_LACKS:
        return by_version || see_slot(writer, value, check->object);
    case CHECK_TYPE_LACKS:
        return true; /* the type's version is seen */
    case CHECK_TENSOR:
        return tensor_witness(check->facts, value, see, writer);
    case CHECK_CELL_BOUND:
        return see(writer, &((PyCellObject *)value)->ob_ref);
    default:
        return false;
    }
}

static bool
rests_on_version(const Node *node)
{
    if (node->memo != MEMO_NONE || node->n_memo_checks > 0 || node->n_places > 0) {
        return true;
    }
    for (int i = 0; i < node->n_children; i++) {
        if (node->children[i].accessor == AT_MRO_ITEM) {
            return true;
        }
    }
    for (int i = 0; i < node->n_checks; i++) {
        if (node->checks[i].kind == CHECK_DICT_KEYS) {
            return true;
        }
    }
    return false;
}

/* ---- steps from a value to those below it ---------------------------------------------------- */

static bool
see_function_part(Writer *writer, const Node *child, PyFunctionObject *func, bool *certain)
{
    switch (child->accessor) {
    case AT_FUNC_GLOBALS:
    case AT_FUNC_CLOSURE: /* neither can be replaced */
        return *certain;
    case AT_FUNC_DEFAULTS:
        *certain = false;
        return see(writer, &func->func_defaults);
    case AT_FUNC_KWDEFAULTS:
        *certain = false;
        return see(writer, &func->func_kwdefaults);
    default:
        *certain = false;
        return see(writer, &func->func_code);
    }
}

static bool
see_item(Writer *writer, PyObject *value, Py_ssize_t index, bool *certain)
{
    if (PyTuple_Check(value)) {
        return *certain || (see(writer, &((PyVarObject *)value)->ob_size) &&
                            see(writer, &((PyTupleObject *)value)->ob_item[index]));
    }
    *certain = false;
    PyListObject *list = (PyListObject *)value;
    return see(writer, &((PyVarObject *)value)->ob_size) && see(writer, &list->ob_item) &&
           see(writer, &list->ob_item[index]);
}

/* Note what leads from the value to the child's. *certain: of the value; then of the child's. */
static bool
see_step(Writer *writer, const Node *child, PyObject *value, bool *certain)
{
    switch (child->accessor) {
    case AT_CELL_CONTENTS:
        *certain = false;
        return see(writer, &((PyCellObject *)value)->ob_ref);
    case AT_INSTANCE_DICT:
        if (!*certain && Py_TYPE(value)->tp_itemsize != 0) {
            return false; /* where it lies depends on the object's length */
        }
        *certain = false;
        return see(writer, _PyObject_GetDictPtr(value));
    case AT_TYPE: /* the word is seen already, where it is needed */
        *certain = !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE);
        return true;
    case AT_ITEM:
        return see_item(writer, value, child->index, certain);
    case AT_FUNC_GLOBALS:
    case AT_FUNC_CLOSURE:
    case AT_FUNC_DEFAULTS:
    case AT_FUNC_KWDEFAULTS:
    case AT_FUNC_CODE:
        return see_function_part(writer, child, (PyFunctionObject *)value, certain);
    case AT_METHOD_SELF:
    case AT_METHOD_FUNC:
        return *certain; /* neither can be replaced */
    case AT_REFERENT:
        *certain = false;
        return see(writer, &((PyWeakReference *)value)->wr_object);
    default:
        return false;
    }
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static bool record_node(Recorder *recorder, Node *node, PyObject *value, bool certain);

static bool
record_output(Recorder *recorder, int place, PyObject *value)
{
    Witness *witness = recorder->witness;
    if (!reserve(recorder, &witness->outputs, witness->n_outputs, &witness->output_room,
                 sizeof(SeenOutput))) {
        return false;
    }
    witness->outputs[witness->n_outputs++] = (SeenOutput){place, value};
    return true;
}

/* Record the child, or have it walked. False only when the parent must be walked instead. */
static bool
record_child(Recorder *recorder, Writer *writer, Node *child, PyObject *value, bool certain,
             bool found_by_version, bool by_slot)
{
    Witness *witness = recorder->witness;
    int n_words = witness->n_words, n_outputs = witness->n_outputs, n_rest = witness->n_rest;
    PyObject *owned = NULL;
    PyObject *found = guard_child_value(child, value, &owned);
    bool done = found != NULL && !child->is_volatile;
    if (done) {
        bool known = found_by_version;
        if (by_slot) {
            done = see_slot(writer, value, child->key);
        }
        else if (!found_by_version) {
            known = certain;
            done = see_step(writer, child, value, &known);
        }
        done = done && record_node(recorder, child, found, known);
    }
    Py_XDECREF(owned);
    if (done) {
        return true;
    }
    witness->n_words = n_words;
    witness->n_outputs = n_outputs;
    witness->n_rest = n_rest;
    if (recorder->failed || !reserve(recorder, &witness->rest, n_rest, &witness->rest_room,
                                     sizeof(SeenRest))) {
        return false;
    }
    witness->rest[witness->n_rest++] = (SeenRest){child, value};
    return true;
}

/* The children that are keys and values of a dict whose version, and so whose order, is seen. */
static bool
record_dict_places(Recorder *recorder, Node *node, PyObject *dict)
{
    if (PyODict_Check(dict)) {
        return false; /* its order is kept apart */
    }
    Node *const end = node->children + node->n_children;
    Node *child = end - node->n_places;
    Py_ssize_t position = 0;
    PyObject *key, *item;
    for (Py_ssize_t i = 0; child < end && PyDict_Next(dict, &position, &key, &item); i++) {
        for (; child < end && child->index == i; child++) {
            if (!record_node(recorder, child, child->accessor == AT_DICT_KEY ? key : item, true)) {
                return false;
            }
        }
    }
    return true;
}

static bool
is_certain(const Node *node, PyObject *value)
{
    for (int i = 0; i < node->n_checks; i++) {
        const Check *check = &node->checks[i];
        if ((check->kind == CHECK_IDENTITY || check->kind == CHECK_EQUAL) &&
            check->object == value) {
            return true; /* the tree watches or owns it */
        }
    }
    return false;
}

/* Record everything below a node whose walk has just held for the value, which the words so far
 * show to be alive. False, with rests of it left behind, if the node must be walked. */
static bool
record_node(Recorder *recorder, Node *node, PyObject *value, bool certain)
{
    Writer writer = {recorder, node};
    certain = certain || is_certain(node, value);
    bool looks_inside = node->n_children > 0 || node->n_checks + node->n_memo_checks > 0;
    if (looks_inside && (!certain || class_may_change(value)) &&
        !see(&writer, &value->ob_type)) {
        return false;
    }
    bool by_version = false;
    if (rests_on_version(node) && !see_version(&writer, value, &by_version)) {
        return false;
    }
    for (int i = 0; i < node->n_checks + node->n_memo_checks; i++) {
        if (!see_check(&writer, &node->checks[i], value, certain, by_version)) {
            return false;
        }
    }
    for (int i = 0; i < node->n_captures; i++) {
        if (!record_output(recorder, node->captures[i], value)) {
            return false;
        }
    }
    if (node->slot >= 0 && !record_output(recorder, ~node->slot, value)) {
        return false;
    }
    for (int i = 0; i < node->n_children - node->n_places; i++) {
        Node *child = &node->children[i];
        bool memo = i < node->n_memo || child->accessor == AT_MRO_ITEM;
        if (!record_child(recorder, &writer, child, value, certain, memo && by_version,
                          memo && !by_version)) {
            return false;
        }
    }
    return node->n_places == 0 || (by_version && record_dict_places(recorder, node, value));
}

/* ---- a node's witness ------------------------------------------------------------------------ */

/* How many times a fresh witness must hold for its recording to have paid. */
#define ENOUGH 8
/* How often a node's words may spoil a fresh witness before the node is walked each time. */
#define SPOILT 2
#define LONGEST_WAIT 1024u

void
witness_free(Witness *witness)
{
    if (witness != NULL) {
        PyMem_Free(witness->words);
        PyMem_Free(witness->owners);
        PyMem_Free(witness->outputs);
        PyMem_Free(witness->rest);
        PyMem_Free(witness);
    }
}

void
witness_give(Node *node)
{
    if (node->witness == NULL && (node->n_children > 0 || node->n_memo_checks > 0)) {
        node->witness = PyMem_Calloc(1, sizeof(Witness)); /* none on failure: walked each time */
    }
}

void
witness_failed(Witness *witness, int word)
{
    witness->value = NULL;
    if (witness->held >= ENOUGH) {
        witness->wait = 0;
        return;
    }
    witness->wait = witness->wait >= LONGEST_WAIT ? LONGEST_WAIT : 2 * witness->wait + 1;
    Node *owner = witness->owners[word];
    if (++owner->spoilt >= SPOILT && !owner->is_volatile) {
        /* written to all the time: it is walked from now on, and what lies below stands alone */
        owner->is_volatile = true;
        witness->wait = 0;
        for (int i = owner->n_fixed; i < owner->n_children; i++) {
            witness_give(&owner->children[i]);
        }
    }
}

void
witness_record(Node *node, PyObject *value)
{
    Witness *witness = node->witness;
    if (witness->last != value) {
        witness->last = value;
        return;
    }
    if (node->is_volatile) {
        return;
    }
    if (witness->waited < witness->wait) {
        witness->waited++;
        return;
    }
    witness->n_words = witness->n_outputs = witness->n_rest = 0;
    witness->waited = witness->held = 0;
    Recorder recorder = {.witness = witness};
    if (record_node(&recorder, node, value, false)) {
        witness->value = value;
        return;
    }
    if (recorder.failed) {
        PyErr_Clear();
    }
    /* not to be tried again for a while: nothing to see at the top */
    witness->wait = LONGEST_WAIT;
}

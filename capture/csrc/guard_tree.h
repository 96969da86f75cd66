/* Holds the shape of a compiled guard tree; must not know frames, caches or torch.
 *
 * A node reaches one value from its parent's (the accessor), checks it, writes it to the captures
 * that want it, and goes on to its children. Roots start from the array of values or the function.
 */
#ifndef CAPTURE_GUARD_TREE_H
#define CAPTURE_GUARD_TREE_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "shape_guards.h"
#include "tensor_meta.h"

/* The numbers stand in lower.py too: GuardTree refuses a spec with others. */
typedef enum {
    AT_LOCAL,          /* index into the values */
    AT_CLOSURE_CELL,   /* index into the function's closure */
    AT_GLOBALS,
    AT_BUILTINS,
    AT_CELL_CONTENTS,
    AT_DICT_ITEM,      /* key */
    AT_DICT_LOOKUP,    /* root: (slot of the dict, slot of the key) */
    AT_DICT_KEY,       /* index in the order of the dict */
    AT_INSTANCE_DICT,
    AT_ATTR,           /* name; may run code */
    AT_MEMBER,         /* tuple of member descriptors, the first of a fitting type counts */
    AT_SLOT_MEMBER,    /* name of a member descriptor on the type */
    AT_TYPE,
    AT_TYPE_ATTR,      /* name */
    AT_MRO_ITEM,       /* index */
    AT_ITEM,           /* index */
    AT_FUNC_GLOBALS,
    AT_FUNC_CLOSURE,   /* index */
    AT_FUNC_DEFAULTS,
    AT_FUNC_KWDEFAULTS,
    AT_FUNC_CODE,
    AT_METHOD_SELF,
    AT_METHOD_FUNC,
    AT_MODULES,        /* root: sys.modules */
    AT_REFERENT,       /* of a weak reference */
    AT_DICT_VALUE,     /* index in the order of the dict, which is no OrderedDict */
    AT_TENSOR_SIZE,    /* dim */
    AT_TENSOR_STRIDE,  /* dim */
    AT_RANGE_ITERATOR, /* 0: the next number, 1: the step, 2: how many are left */
    N_ACCESSORS,
} Accessor;

typedef enum {
    CHECK_TYPE,        /* type */
    CHECK_IDENTITY,    /* object */
    CHECK_EQUAL,       /* constant */
    CHECK_LENGTH,      /* n */
    CHECK_EMPTY,       /* 0 or 1 */
    CHECK_DICT_KEYS,   /* tuple of keys; constants by value, others by identity */
    CHECK_DICT_ORDER,  /* the same, for a dict whose order its version does not tell */
    CHECK_DICT_HAS,    /* key */
    CHECK_DICT_LACKS,  /* key */
    CHECK_TYPE_LACKS,  /* name */
    CHECK_TENSOR,      /* facts */
    CHECK_CELL_BOUND,  /* 0 or 1 */
    N_CHECKS,
} CheckKind;

typedef struct {
    uint8_t kind;
    Py_ssize_t number;
    PyObject *object; /* owned or watched by the tree */
    TensorFacts *facts;
} Check;

/* Under which remembered version a node need not look its children up again. */
typedef enum { MEMO_NONE, MEMO_DICT, MEMO_TYPE } Memo;

/* What a slot of an instance's values held (dict_compat.h); borrowed, compared only. */
typedef struct {
    Py_ssize_t slot;
    PyObject *value;
} SeenSlot;

typedef struct Node Node;

/* Words are read as such whatever lies there. */
typedef uint64_t __attribute__((may_alias)) WitnessWord;

typedef struct {
    const WitnessWord *address;
    uint64_t word;
} SeenWord;

typedef struct {
    int place; /* of a capture; ~place of a slot */
    PyObject *value;
} SeenOutput;

/* What has no words: a child to be walked from its parent's value. */
typedef struct {
    Node *node;
    PyObject *value;
} SeenRest;

/* What a walk below a node depended on (witness.c). All objects are borrowed: the words show that
 * they are alive. */
typedef struct {
    PyObject *value; /* the node's, or NULL when nothing is recorded */
    PyObject *last;  /* the node's when it last held; compared only */
    int n_words, n_outputs, n_rest;
    int word_room, owner_room, output_room, rest_room;
    unsigned held;          /* how often since it was recorded */
    unsigned wait, waited;  /* successful walks between a failure and the next recording */
    SeenWord *words;
    Node **owners;          /* of each word, the node whose check or children rest on it */
    SeenOutput *outputs;
    SeenRest *rest;
} Witness;

struct Node {
    uint8_t accessor;
    uint8_t memo;
    uint8_t spoilt;      /* how often its words spoilt a fresh witness */
    bool is_volatile;    /* too often: it is walked */
    bool fixed;          /* as a child: an unchanged dict or type makes its checks hold again */
    Py_ssize_t index;
    PyObject *key;       /* owned or watched by the tree */
    Py_hash_t hash;      /* of a dict key */
    int slot;            /* where post checks and look-ups find the value, or -1 */
    int n_checks;        /* always run */
    int n_memo_checks;   /* behind those; not run while the version is the remembered one */
    int n_captures;
    int n_children;
    int n_fixed;         /* the first children: fixed ones, then other memo children, the rest */
    int n_memo;
    int n_places;        /* the last children: AT_DICT_KEY and AT_DICT_VALUE, by their index */
    Check *checks;
    int *captures;
    Node *children;
    /* memory */
    PyObject *seen_owner;  /* borrowed, compared only */
    uint64_t seen_version; /* or 0: then the slots tell */
    uint32_t seen_keys;    /* the number of their keys */
    int n_seen_slots;
    SeenSlot *seen_slots;  /* room for a slot for each memo child and check, or NULL */
    PyObject *seen_value;  /* as a child; borrowed, good while its owner's version is seen */
    Witness *witness;      /* or NULL: walk each time */
};

typedef enum {
    POST_SAME,
    POST_NOT_SAME,
    POST_ALL_DISTINCT,
    POST_STORAGES,
    POST_EXPRESSION,
    POST_SIZES,
} PostKind;

typedef struct {
    uint8_t kind;
    int n_slots;
    int *slots;
    int *groups;      /* POST_STORAGES: the group of each slot */
    PyObject *object; /* strong: POST_EXPRESSION */
    ShapeProgram *program; /* POST_SIZES */
} PostCheck;

/* What tells the tree that an object it compares by address is dead. */
typedef struct {
    PyObject_HEAD
    bool alive;
} Life;

typedef struct {
    PyObject_HEAD
    Node root;          /* of no accessor: its children are the roots */
    Py_ssize_t n_captures;
    int n_slots;
    int n_post;
    PostCheck *post;
    bool runs_code;     /* some accessor or check may run arbitrary code */
    bool shortcuts;     /* versions may be trusted */
    const void **scratch; /* a hash table for POST_ALL_DISTINCT and POST_STORAGES */
    size_t scratch_size;  /* a power of two, or 0 */
    PyObject *state;    /* strong GlobalStateSnapshot or NULL */
    Life *life;         /* strong */
    PyObject *owned;    /* list of strong references: keys, constants, weak references */
    PyObject *weakrefs;
    unsigned long long checked, failed;
} GuardTree;

/* guard_check.c: run the tree below its root. Everything borrowed; captures (all NULL before) get
 * new references, also when the result is false. May leave an exception set. */
bool guard_tree_run(GuardTree *tree, PyObject *const *values, Py_ssize_t n, PyObject *func,
                    PyObject **captures);
int guard_check_init(void);
/* The value below `value`: borrowed, or NULL. *owned: the same as a new reference, where the parent
 * does not keep it. May leave an exception set. */
PyObject *guard_child_value(const Node *node, PyObject *value, PyObject **owned);

/* witness.c: only for trees that run no code. */
/* Let the node have a witness, if there is anything below it to see. */
void witness_give(Node *node);
/* The node's walk has held for the value: record it if it was the last one's too. */
void witness_record(Node *node, PyObject *value);
/* A word of the witness, by its place, is not what it was. */
void witness_failed(Witness *witness, int word);
void witness_free(Witness *witness);

/* guard_constant.c */
/* Whether the value is a constant that CHECK_EQUAL can compare. */
bool guard_is_constant(PyObject *value);
/* Whether it is one without parts. */
bool guard_is_atom(PyObject *value);
/* Whether `a`, any object, is interchangeable with the constant `b`. Runs no user code. */
bool guard_constants_equal(PyObject *a, PyObject *b);

/* guard_build.c */
/* Fill an empty tree. `callback` is what weak references call when their object dies. -1 with an
 * exception, and then the tree is fit for nothing but being freed. Borrows everything. */
int guard_tree_build(GuardTree *tree, PyObject *callback, PyObject *spec, PyObject *post_checks);
void guard_node_free(Node *node);

/* guard_tree.c */
int guard_tree_register(PyObject *module);
/* 1: the guards hold and captures[0 .. n_captures) are new references. 0: they do not, and the
 * captures are all NULL. Never leaves an exception set. Borrows everything else. */
int GuardTree_Check(PyObject *tree, PyObject *const *values, Py_ssize_t n, PyObject *func,
                    PyObject **captures);
/* -1 with an exception when `tree` is no guard tree. */
Py_ssize_t GuardTree_NumCaptures(PyObject *tree);
/* 0 once an object compared by address has died: the tree never holds again. -1 as above. */
int GuardTree_Alive(PyObject *tree);

#endif

/* Holds what the C files of the hook, the cache and the driver share: object layouts and the
 * per-thread state. Must not know what a guard checks (guard_tree.h does).
 *
 * Ownership words used in this folder: "steals", "borrows", "new reference".
 */
#ifndef CAPTURE_NATIVE_H
#define CAPTURE_NATIVE_H

#include "frame_compat.h"
#include <structmember.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- the guard tree's C contract (guard_tree.c) ---------------------------------------- */

/* 1: the guards hold and captures[0 .. n_captures) are new references. 0: they do not, and the
 * captures are all NULL. Never leaves an exception set. Borrows everything else. */
int GuardTree_Check(PyObject *tree, PyObject *const *values, Py_ssize_t n_values, PyObject *func,
                    PyObject **captures);
/* -1 with an exception when `tree` is no guard tree. */
Py_ssize_t GuardTree_NumCaptures(PyObject *tree);
/* 0 once an object compared by address has died: the tree never holds again. -1 as above. */
int GuardTree_Alive(PyObject *tree);
int guard_tree_register(PyObject *module);

/* ---- objects --------------------------------------------------------------------------- */

typedef struct CodeExtra CodeExtra;
typedef struct Region Region;
typedef struct Site Site;
typedef struct Entry Entry;

/* One compiled function's way to compile, and the owner of its frame-start sites. */
struct Region {
    PyObject_HEAD
    PyObject *convert;     /* convert(site, values, func) -> Entry | None */
    PyObject *make_resume; /* make_resume(site, func) -> code | Break */
    PyObject *name;
    PyObject *weakrefs;
    Site *sites; /* list of strong references, linked through Site.next */
    char enabled;
};

/* A point where a captured piece may start. A frame-start site belongs to its region and is found
 * through the code's extra; a resume site belongs to whoever made it. Neither owns a code object
 * it starts in: the extra's end takes the site away. */
struct Site {
    PyObject_HEAD
    PyObject *layout;
    PyObject *data;
    PyObject *resume_code;  /* code, Break or NULL */
    PyObject *resume_sites; /* dict or NULL until asked for */
    PyObject *entries;      /* tuple of Entry, most recent hit first, or NULL */
    PyObject *weakrefs;
    Py_ssize_t index;
    Py_ssize_t num_cells;
    char slot0;
    char skip;
    /* Frame-start sites only; borrowed both, and NULL once either has gone. */
    Region *region;
    CodeExtra *extra;
    Site *previous, *next;
};

/* One compiled piece: guards, graph, epilogue. */
struct Entry {
    PyObject_HEAD
    PyObject *guards;
    PyObject *graph;    /* NULL: nothing to call */
    PyObject *epilogue; /* NULL: `epilogue_ref` names the result */
    PyObject *epilogue_args_object;
    PyObject *restart;  /* asked whether a graph's exception is one to restart for; or NULL */
    PyObject *failure;  /* called before an exception leaves the frame; or NULL */
    PyObject *failure_args_object; /* tuple of captures */
    PyObject *drops; /* tuple of places: values let go before the graph; NULL: all */
    PyObject *data;
    PyObject *weakrefs;
    Py_ssize_t *epilogue_args; /* >= 0 a capture, < 0 the graph output ~i */
    Py_ssize_t n_epilogue_args;
    Py_ssize_t epilogue_ref;
    Py_ssize_t n_inputs, n_outputs, n_captures;
    uint8_t *kept; /* per capture: still needed after the graph call */
    unsigned long long hits;
    Site *site; /* borrowed; NULL while in no site */
    int depth; /* how many frames deeper than the piece's own the program goes in it */
    char boxed;
    char restartable;
    char alive;
    char any_kept_input;
};

/* One instruction run natively, and the sites it may lead to. */
typedef struct {
    PyObject_HEAD
    PyObject *code;
    PyObject *sites; /* tuple of Site */
    PyObject *make_loop; /* make_loop() -> Break | None: the rest of a loop at once; or NULL */
    PyObject *loop;      /* the Break that it made, or NULL */
    unsigned long long graphs; /* how many graphs had run when this last ran */
    Py_ssize_t idle;           /* how often in succession this ran since the last graph */
    char takes_slot0;
    char has_slot0;
} Break;

/* "Run this target next, with these values." One-shot. */
typedef struct {
    PyObject_VAR_HEAD
    PyObject *target; /* Break or Site; NULL once used */
    PyObject *func;
    PyObject *cells; /* tuple */
    Region *region;  /* the region current when it was made, or NULL */
    PyObject *values[1];
} Continue;

/* The box of a resumed frame's values: iterating hands them over and forgets them. */
typedef struct {
    PyObject_VAR_HEAD
    Py_ssize_t position;
    PyObject *values[1];
} State;

extern PyTypeObject *Region_Type, *Site_Type, *Entry_Type, *Break_Type, *Continue_Type, *State_Type;
extern PyTypeObject *CompiledFunction_Type, *Disabled_Type;

/* ---- per-code data (cache.c) ------------------------------------------------------------- */

typedef struct {
    Region *region; /* borrowed, compared only */
    Site *site;     /* borrowed: the region owns it */
} SiteSlot;

/* Hangs on a code object for as long as that lives. */
struct CodeExtra {
    PyCodeObject *code; /* borrowed: it outlives this */
    SiteSlot *slots;
    int n_slots, capacity;
    int n_args;         /* leading slots of a fresh frame that hold bound arguments */
    unsigned files_epoch; /* the epoch of skip_files() at which `skipped_file` was decided */
    char eligible;      /* by its flags */
    char skip;          /* skip_code() */
    char disabled;      /* disable_code() */
    char skipped_file;
    char disabled_file;
};

/* Borrows; NULL without an exception when the code has none yet. */
CodeExtra *code_extra_get(PyCodeObject *code);
/* Borrows; NULL with an exception. */
CodeExtra *code_extra_ensure(PyCodeObject *code);
/* True when frames of this code are not captured themselves (their callees are). */
bool code_extra_skips(CodeExtra *extra);
/* Mark a code as never captured itself. -1 with an exception. */
int code_skip(PyObject *code);
/* Borrows; the frame-start site of this region, made when missing; NULL with an exception. */
Site *code_site(CodeExtra *extra, Region *region);
void site_promote(Site *site, Py_ssize_t position);
/* Drop the entries that died. */
void site_sweep(Site *site);
void entry_kill(Entry *entry);
/* A box that steals the references in values[0 .. n), which become NULL. New reference. */
PyObject *state_from_array(PyObject **values, Py_ssize_t n);

/* ---- per-thread state (eval_frame.c) ------------------------------------------------------- */

/* What the hook saw of the frames of a probe. */
typedef struct {
    int frames;
    int remaining[2];   /* the C recursion budget at the last two */
    bool sound;         /* the last one's fields make sense */
    PyObject *argument; /* borrowed: the last one's first argument */
} Probe;

typedef struct {
    Region *region;        /* strong; NULL: this thread does not capture now */
    const Frame *chained;  /* the frame handed to the neighbouring evaluator */
    uintptr_t stack_low;   /* below this address the C stack is nearly used up */
    int tracing;           /* depth of conversions */
    int own;               /* > 0: without a region, what runs is ours: compiler, guards, graphs */
    int inside;            /* this thread's share of `threads_inside` */
    Probe *probing;        /* borrowed; NULL unless a probe is under way */
} CaptureThread;

extern _Thread_local CaptureThread capture_thread;

/* Make `region` (stolen, may be NULL) current; returns the previous one (new reference or NULL).
 * Puts the hook in place or takes it out as needed. */
Region *thread_swap_region(CaptureThread *thread, Region *region);

/* True when the thread's C stack has too little room left to compile on. */
bool stack_is_short(CaptureThread *thread);

/* Switch capture off for a moment without touching the hook: cheap, for guards and graphs. The
 * region is handed over and must be handed back. */
static inline Region *
thread_suspend(CaptureThread *thread)
{
    Region *region = thread->region;
    thread->region = NULL;
    thread->own++;
    return region;
}

static inline void
thread_unsuspend(CaptureThread *thread, Region *region)
{
    if (UNLIKELY(thread->region != NULL)) {
        /* Somebody entered a region meanwhile and did not leave it. */
        Py_XDECREF(thread_swap_region(thread, NULL));
    }
    thread->region = region;
    thread->own--;
}

PyObject *capture_eval_frame(PyThreadState *tstate, Frame *frame, int throwflag);
/* For the self-test: is our hook the interpreter's evaluator now? */
bool hook_is_installed(void);
long hook_inside_count(void);

/* Keep the evaluators beside us from seeing the compiler's frames: put our hook on top until
 * hook_uncover(). False if there are none; then nothing is to be undone. */
typedef struct {
    _PyFrameEvalFunction below, neighbour;
} HookCover;
bool hook_cover(HookCover *cover);
void hook_uncover(const HookCover *cover);

/* ---- driver.c ------------------------------------------------------------------------------- */

typedef enum {
    PIECE_MISS,    /* no entry holds; nothing changed */
    PIECE_DONE,    /* *result is a new reference */
    PIECE_RAISED,  /* an exception is set */
    PIECE_RESTART, /* the graph raised; run this piece natively from its unchanged values */
} PieceStatus;

/* Look the values up at a site and run the entry that holds.
 *   values: borrowed, `n` of them.
 *   owned, n_owned: references dropped (and set to NULL) before the graph runs when the entry can
 *   not be restarted. */
PieceStatus piece_run(CaptureThread *thread, Site *site, PyObject *const *values, Py_ssize_t n,
                      PyObject *func, PyObject **owned, Py_ssize_t n_owned, PyObject **result);
/* Ask the region to compile. 1: an entry was added, 0: run eagerly, -1: exception. */
int piece_convert(CaptureThread *thread, Site *site, PyObject *const *values, Py_ssize_t n,
                  PyObject *func);
/* Drive a Continue (stolen) to the end of its frame. `func` (borrowed, may be NULL) is the function
 * of a Continue that names none. New reference or NULL. */
PyObject *drive(CaptureThread *thread, PyObject *continuation, PyObject *func);

/* ---- counters -------------------------------------------------------------------------------- */

typedef struct {
    unsigned long long hits, misses, converted, refused, busy, stale, restarts, breaks, resumed,
        frames, graphs;
} Counters;

extern Counters counters;

void driver_after_fork(void);

/* Drop n references; they become NULL. */
static inline void
references_drop(PyObject **references, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_CLEAR(references[i]);
    }
}

/* ---- initialisation, in module.c's order; each may run again for a second import ---------------- */

int module_add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec);
int cache_init(PyObject *module);
int entry_init(PyObject *module);
int continuation_init(PyObject *module);
int driver_init(PyObject *module);
int eval_frame_init(PyObject *module);
int callables_init(PyObject *module);
int self_test_init(PyObject *module);

#endif /* CAPTURE_NATIVE_H */

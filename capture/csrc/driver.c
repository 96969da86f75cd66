/* Holds the driver: how a piece is looked up and run, and the loop that goes from piece to piece
 * at constant stack depth.
 * Must not know interpreter frames (eval_frame.c does).
 */
#include "native.h"

Counters counters;

/* The thread that is compiling, or NULL. Read and written under the GIL. */
static CaptureThread *converting_thread;

/* ---- running one piece -------------------------------------------------------------------------- */

/* A replaced frame is not on the stack; the graph and the epilogue may have more frames than it. */
#define FRAMES_TO_RUN 16
/* What the compiler may need on top of where the program is. */
#define FRAMES_TO_COMPILE 4000

/* Rounds of a loop without a graph after which Python runs the rest of it. */
#define IDLE_ROUNDS 10000

#define SMALL_CAPTURES 24
#define SMALL_ARGUMENTS 16

/* Call the graph on the first captures. Afterwards only the captures that are still needed are
 * left; the others are NULL. New reference or NULL. */
static PyObject *
call_graph(const Entry *entry, PyObject *graph, PyObject **captures)
{
    PyObject *outputs;
    Py_ssize_t n = entry->n_inputs;
    if (entry->boxed) {
        PyObject *list = PyList_New(n);
        if (list == NULL) {
            return NULL;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            PyList_SET_ITEM(list, i, captures[i]);
            if (UNLIKELY(entry->kept[i])) {
                Py_INCREF(captures[i]);
            } else {
                captures[i] = NULL;
            }
        }
        outputs = PyObject_CallOneArg(graph, list);
        Py_DECREF(list);
        return outputs;
    }
    /* The slot in front of the captures is ours to lend. */
    outputs = PyObject_Vectorcall(graph, captures, (size_t)n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (LIKELY(!entry->any_kept_input)) {
        references_drop(captures, n);
    } else {
        for (Py_ssize_t i = 0; i < n; i++) {
            if (!entry->kept[i]) {
                Py_CLEAR(captures[i]);
            }
        }
    }
    return outputs;
}

/* 0, or -1 with an exception when the graph did not return what was promised. */
static int
check_outputs(const Entry *entry, PyObject *outputs)
{
    if ((PyTuple_Check(outputs) || PyList_Check(outputs)) && Py_SIZE(outputs) == entry->n_outputs) {
        return 0;
    }
    PyErr_Format(PyExc_RuntimeError, "a captured graph returned %.100s, not %zd outputs",
                 Py_TYPE(outputs)->tp_name, entry->n_outputs);
    return -1;
}

/* Call the epilogue on what it asks for. Takes the outputs' reference over and empties `captures`.
 * New reference or NULL. */
static PyObject *
call_epilogue(const Entry *entry, PyObject *epilogue, PyObject **captures, PyObject *outputs)
{
    PyObject *small[SMALL_ARGUMENTS + 1];
    PyObject **room = small;
    Py_ssize_t n = entry->n_epilogue_args;
    if (n > SMALL_ARGUMENTS) {
        room = PyMem_New(PyObject *, n + 1);
        if (room == NULL) {
            Py_XDECREF(outputs);
            return PyErr_NoMemory();
        }
    }
    PyObject **arguments = room + 1; /* the slot in front is for the callee */
    PyObject **items = NULL;
    if (outputs != NULL) {
        items = PySequence_Fast_ITEMS(outputs);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t reference = entry->epilogue_args[i];
        arguments[i] = Py_NewRef(reference >= 0 ? captures[reference] : items[~reference]);
    }
    Py_XDECREF(outputs);
    references_drop(captures, entry->n_captures);
    PyObject *result =
        PyObject_Vectorcall(epilogue, arguments, (size_t)n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_DECREF(arguments[i]);
    }
    if (room != small) {
        PyMem_Free(room);
    }
    return result;
}

/* Let go of the values that the program lets go of while the graph runs. */
static void
entry_drop_values(const Entry *entry, PyObject **owned, Py_ssize_t n_owned)
{
    if (entry->drops == NULL) {
        references_drop(owned, n_owned);
        return;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entry->drops); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry->drops, i));
        if (LIKELY(place >= 0 && place < n_owned)) {
            Py_CLEAR(owned[place]);
        }
    }
}

/* The graph has raised. True if the piece is to start again in Python; the exception is gone then.
 * Otherwise it stays set, and what has to be left before it leaves the frame has been left. */
static __attribute__((noinline)) bool
entry_restarts(const Entry *entry, PyObject *restart, PyObject *failure, PyObject **captures)
{
    PyObject *type, *value, *traceback;
    bool answer = entry->restartable && PyErr_ExceptionMatches(PyExc_Exception);
    PyErr_Fetch(&type, &value, &traceback);
    if (answer && restart != NULL) {
        PyErr_NormalizeException(&type, &value, &traceback);
        PyObject *decision = PyObject_CallOneArg(restart, value);
        answer = decision == Py_True;
        Py_XDECREF(decision);
        PyErr_Clear();
    }
    if (answer) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return true;
    }
    if (failure != NULL) {
        PyErr_NormalizeException(&type, &value, &traceback);
        if (traceback != NULL) {
            PyException_SetTraceback(value, traceback);
        }
        Py_ssize_t n = PyTuple_GET_SIZE(entry->failure_args_object);
        PyObject *arguments = PyTuple_New(n + 1);
        if (arguments != NULL) {
            PyTuple_SET_ITEM(arguments, n, Py_NewRef(value));
        }
        for (Py_ssize_t i = 0; arguments != NULL && i < n; i++) {
            Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry->failure_args_object, i));
            PyTuple_SET_ITEM(arguments, i, Py_NewRef(captures[place]));
        }
        PyObject *ignored = arguments != NULL ? PyObject_CallObject(failure, arguments) : NULL;
        if (ignored == NULL) {
            PyErr_WriteUnraisable(failure);
        }
        Py_XDECREF(ignored);
        Py_XDECREF(arguments);
        Py_XSETREF(traceback, PyException_GetTraceback(value)); /* it may have got another */
    }
    PyErr_Restore(type, value, traceback);
    return false;
}

/* Run an entry whose guards hold. Uses the captures up. Called with capture suspended (`region` is
 * the suspended one); returns with it restored. */
static PieceStatus
entry_run(CaptureThread *thread, Region *region, Entry *entry, PyObject **captures,
          PyObject **owned, Py_ssize_t n_owned, PyObject **result)
{
    PyThreadState *tstate = PyThreadState_Get();
    if (UNLIKELY(recursion_ends_within(tstate, entry->depth))) {
        /* The program gets no further than to the limit: Python goes there and raises. */
        thread_unsuspend(thread, region);
        references_drop(captures, entry->n_captures);
        return PIECE_RESTART;
    }
    entry->hits++;
    counters.hits++;
    /* The entry may be killed while it runs. */
    PyObject *epilogue = Py_XNewRef(entry->epilogue);
    PyObject *restart = Py_XNewRef(entry->restart), *failure = Py_XNewRef(entry->failure);
    PyObject *graph = entry->graph;
    PyObject *outputs = NULL;
    if (!entry->restartable) {
        entry_drop_values(entry, owned, n_owned);
    }
    recursion_lend(tstate, FRAMES_TO_RUN);
    if (graph != NULL) {
        counters.graphs++;
        Py_INCREF(graph);
        outputs = call_graph(entry, graph, captures);
        Py_DECREF(graph);
    }
    thread_unsuspend(thread, region);
    if (graph != NULL && UNLIKELY(outputs == NULL || check_outputs(entry, outputs) < 0)) {
        bool again = outputs == NULL && entry_restarts(entry, restart, failure, captures);
        references_drop(captures, entry->n_captures);
        Py_XDECREF(epilogue);
        Py_XDECREF(restart);
        Py_XDECREF(failure);
        Py_XDECREF(outputs);
        recursion_lend(tstate, -FRAMES_TO_RUN);
        counters.restarts += again;
        return again ? PIECE_RESTART : PIECE_RAISED;
    }
    Py_XDECREF(restart);
    Py_XDECREF(failure);
    if (epilogue == NULL) {
        Py_ssize_t reference = entry->epilogue_ref;
        *result = Py_NewRef(reference >= 0 ? captures[reference]
                                           : PySequence_Fast_ITEMS(outputs)[~reference]);
        references_drop(captures, entry->n_captures);
        Py_XDECREF(outputs);
        recursion_lend(tstate, -FRAMES_TO_RUN);
        return PIECE_DONE;
    }
    *result = call_epilogue(entry, epilogue, captures, outputs);
    Py_DECREF(epilogue);
    recursion_lend(tstate, -FRAMES_TO_RUN);
    return *result != NULL ? PIECE_DONE : PIECE_RAISED;
}

PieceStatus
piece_run(CaptureThread *thread, Site *site, PyObject *const *values, Py_ssize_t n, PyObject *func,
          PyObject **owned, Py_ssize_t n_owned, PyObject **result)
{
    PyObject *entries = site->entries;
    if (entries == NULL) {
        return PIECE_MISS;
    }
    PyObject *small[SMALL_CAPTURES + 1];
    PyObject **room = small;
    Py_ssize_t capacity = SMALL_CAPTURES;
    PieceStatus status = PIECE_MISS;
    bool dead = false;
    /* Guards may be Python code, which capture must not see, and which may change the site. */
    Py_INCREF(site);
    Py_INCREF(entries);
    Region *region = thread_suspend(thread);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entries); i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, i);
        if (UNLIKELY(!entry->alive)) {
            dead = true;
            continue;
        }
        if (UNLIKELY(entry->n_captures > capacity)) {
            if (room != small) {
                PyMem_Free(room);
            }
            capacity = entry->n_captures;
            room = PyMem_New(PyObject *, capacity + 1);
            if (room == NULL) {
                room = small;
                capacity = SMALL_CAPTURES;
                PyErr_NoMemory();
                status = PIECE_RAISED;
                break;
            }
        }
        PyObject **captures = room + 1;
        memset(captures, 0, (size_t)entry->n_captures * sizeof(PyObject *));
        if (!GuardTree_Check(entry->guards, values, n, func, captures)) {
            if (UNLIKELY(entry->alive && GuardTree_Alive(entry->guards) == 0)) {
                dead = true;
                entry_kill(entry);
            }
            continue;
        }
        if (UNLIKELY(!entry->alive)) {
            references_drop(captures, entry->n_captures);
            continue;
        }
        if (UNLIKELY(i > 0) && site->entries == entries) {
            site_promote(site, i);
        }
        Py_INCREF(entry);
        Py_DECREF(entries);
        status = entry_run(thread, region, entry, captures, owned, n_owned, result);
        Py_DECREF(entry);
        Py_DECREF(site);
        if (room != small) {
            PyMem_Free(room);
        }
        return status;
    }
    thread_unsuspend(thread, region);
    Py_DECREF(entries);
    if (UNLIKELY(dead)) {
        site_sweep(site);
    }
    Py_DECREF(site);
    if (room != small) {
        PyMem_Free(room);
    }
    counters.misses++;
    return status;
}

int
piece_convert(CaptureThread *thread, Site *site, PyObject *const *values, Py_ssize_t n,
              PyObject *func)
{
    if (site->skip) {
        return 0;
    }
    if (converting_thread != NULL) {
        /* FX and fake-mode state are the process's: nobody waits, this one runs eagerly. */
        counters.busy++;
        return 0;
    }
    if (stack_is_short(thread)) {
        return 0;
    }
    PyObject *list = PyList_New(n);
    if (list == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef(values[i]));
    }
    /* Without the hook calls are inlined, which the compiler likes; but a neighbour below the hook
     * must not come to see the compiler's frames. */
    HookCover cover;
    bool stays = hook_cover(&cover);
    Region *region = stays ? thread_suspend(thread) : thread_swap_region(thread, NULL);
    PyObject *convert = Py_NewRef(region->convert);
    Py_INCREF(site);
    converting_thread = thread;
    thread->tracing++;
    PyObject *arguments[3] = {(PyObject *)site, list, func};
    PyThreadState *tstate = PyThreadState_Get();
    recursion_lend(tstate, FRAMES_TO_COMPILE);
    PyObject *entry = PyObject_Vectorcall(convert, arguments, 3, NULL);
    recursion_lend(tstate, -FRAMES_TO_COMPILE);
    thread->tracing--;
    converting_thread = NULL;
    Py_DECREF(site);
    Py_DECREF(convert);
    Py_DECREF(list);
    if (stays) {
        thread_unsuspend(thread, region);
        hook_uncover(&cover);
    } else {
        Py_XDECREF(thread_swap_region(thread, region));
    }
    if (entry == NULL) {
        return -1;
    }
    int added = entry != Py_None;
    if (added && !Py_IS_TYPE(entry, Entry_Type)) {
        PyErr_Format(PyExc_TypeError, "convert() returned %.100s, not an Entry or None",
                     Py_TYPE(entry)->tp_name);
        added = -1;
    }
    Py_DECREF(entry);
    if (added) {
        counters.converted++;
    } else {
        counters.refused++;
    }
    return added;
}

void
driver_after_fork(void)
{
    if (converting_thread != &capture_thread) {
        converting_thread = NULL;
    }
}

/* ---- the loop --------------------------------------------------------------------------------------- */

#define SMALL_VALUES 32

/* One frame's execution on its way from piece to piece. All references are owned. */
typedef struct {
    PyObject *target; /* Break or Site */
    PyObject *func;
    PyObject *cells; /* tuple */
    Region *region;  /* where to ask for resume code when none is current; may be NULL */
    /* items[0 .. n_cells) borrow from `cells`; the n_values behind them are owned. */
    PyObject **items;
    Py_ssize_t n_cells, n_values, capacity;
    PyObject *small[SMALL_VALUES];
} Activation;

static inline PyObject **
activation_values(Activation *self)
{
    return self->items + self->n_cells;
}

/* Make room for the cells and `n_values` values; there must be no values now. */
static int
activation_reserve(Activation *self, Py_ssize_t n_values)
{
    Py_ssize_t needed = self->n_cells + n_values;
    if (needed > self->capacity) {
        PyObject **items = PyMem_New(PyObject *, needed);
        if (items == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        if (self->items != self->small) {
            PyMem_Free(self->items);
        }
        self->items = items;
        self->capacity = needed;
    }
    for (Py_ssize_t i = 0; i < self->n_cells; i++) {
        self->items[i] = PyTuple_GET_ITEM(self->cells, i);
    }
    return 0;
}

static void
activation_drop_values(Activation *self)
{
    Py_ssize_t n = self->n_values;
    self->n_values = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_XDECREF(self->items[self->n_cells + i]);
    }
}

/* Let go of everything but the item array. */
static void
activation_release(Activation *self)
{
    activation_drop_values(self);
    Py_CLEAR(self->target);
    Py_CLEAR(self->func);
    Py_CLEAR(self->cells);
    Py_CLEAR(self->region);
    self->n_cells = 0;
}

/* Take over what a Continue holds; it is used up then. Steals `continuation`. */
static int
activation_load(Activation *self, PyObject *continuation)
{
    Continue *source = (Continue *)continuation;
    if (source->func == Py_None && self->func != NULL) {
        Py_SETREF(source->func, Py_NewRef(self->func));
    }
    activation_release(self);
    if (source->target == NULL || source->func == Py_None) {
        PyErr_SetString(PyExc_RuntimeError, source->target == NULL
                                                ? "a Continue can be run once only"
                                                : "a Continue without a function belongs to a frame");
        Py_DECREF(continuation);
        return -1;
    }
    self->n_cells = PyTuple_GET_SIZE(source->cells);
    self->cells = source->cells;
    source->cells = NULL;
    self->target = source->target;
    source->target = NULL;
    self->func = source->func;
    source->func = NULL;
    self->region = source->region;
    source->region = NULL;
    Py_ssize_t n = Py_SIZE(source);
    if (activation_reserve(self, n) < 0) {
        Py_DECREF(continuation);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        activation_values(self)[i] = source->values[i];
        source->values[i] = NULL;
    }
    self->n_values = n;
    Py_DECREF(continuation);
    return 0;
}

/* A function for break or resume code. New reference or NULL. */
static PyObject *
activation_function(const Activation *self, PyObject *code)
{
    PyFunctionObject *original = (PyFunctionObject *)self->func;
    Py_ssize_t n_free = ((PyCodeObject *)code)->co_nfreevars;
    if (n_free != self->n_cells) {
        PyErr_Format(PyExc_SystemError, "%U wants %zd cells, the frame has %zd",
                     ((PyCodeObject *)code)->co_qualname, n_free, self->n_cells);
        return NULL;
    }
    PyObject *function =
        PyFunction_NewWithQualName(code, original->func_globals, original->func_qualname);
    if (function == NULL) {
        return NULL;
    }
    PyFunctionObject *made = (PyFunctionObject *)function;
    if (n_free > 0) {
        made->func_closure = Py_NewRef(self->cells);
    }
    if (UNLIKELY(made->func_builtins != original->func_builtins)) {
        Py_SETREF(made->func_builtins, Py_NewRef(original->func_builtins));
    }
    return function;
}

/* Call break or resume code on the values, which move out. New reference or NULL. */
static PyObject *
activation_call(Activation *self, PyObject *code, bool takes_slot0, bool has_slot0)
{
    PyObject *function = activation_function(self, code);
    if (function == NULL) {
        return NULL;
    }
    PyObject **values = activation_values(self);
    PyObject *room[3] = {NULL, NULL, NULL};
    PyObject **arguments = room + 1;
    Py_ssize_t n_arguments = 0, skipped = 0;
    if (takes_slot0) {
        if (has_slot0 && self->n_values > 0) {
            arguments[0] = values[0];
            values[0] = NULL;
            skipped = 1;
        } else {
            arguments[0] = Py_NewRef(Py_None);
        }
        n_arguments = 1;
    }
    PyObject *box = state_from_array(values + skipped, self->n_values - skipped);
    PyObject *result = NULL;
    if (box != NULL) {
        self->n_values = 0; /* all moved */
        arguments[n_arguments++] = box;
        result = PyObject_Vectorcall(function, arguments,
                                     (size_t)n_arguments | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    for (Py_ssize_t i = 0; i < n_arguments; i++) {
        Py_DECREF(arguments[i]);
    }
    Py_DECREF(function);
    return result;
}

/* The head of a loop is about to run: after many rounds without a graph, what runs the rest of the
 * loop at once becomes the target. 0, or -1 with an exception. */
static int
activation_count_round(Activation *self, CaptureThread *thread)
{
    Break *head = (Break *)self->target;
    if (head->graphs != counters.graphs) {
        head->graphs = counters.graphs;
        head->idle = 0;
    }
    if (LIKELY(++head->idle < IDLE_ROUNDS)) {
        return 0;
    }
    if (head->loop == NULL) {
        PyObject *make_loop = Py_NewRef(head->make_loop);
        Region *saved = thread_swap_region(thread, NULL);
        PyObject *loop = PyObject_CallNoArgs(make_loop);
        Py_XDECREF(thread_swap_region(thread, saved));
        Py_DECREF(make_loop);
        if (loop == NULL) {
            return -1;
        }
        if (!Py_IS_TYPE(loop, Break_Type)) {
            Py_DECREF(loop);
            Py_CLEAR(head->make_loop);
            return 0;
        }
        Py_XSETREF(head->loop, loop);
    }
    Py_SETREF(self->target, Py_NewRef(head->loop));
    return 0;
}

/* Take the (outcome, *values) of break code over and make its site the target. Steals `outcome`.
 * 0, or -1 with an exception, or 1 if the frame has ended: `result` is a new reference then. */
static int
activation_advance(Activation *self, PyObject *outcome, PyObject **result)
{
    PyObject *sites = ((Break *)self->target)->sites;
    Py_ssize_t number = -2;
    if (PyTuple_CheckExact(outcome) && PyTuple_GET_SIZE(outcome) > 0) {
        number = PyLong_AsSsize_t(PyTuple_GET_ITEM(outcome, 0));
        if (number == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            number = -2;
        }
    }
    if (number == -1 && PyTuple_GET_SIZE(outcome) == 2) {
        *result = Py_NewRef(PyTuple_GET_ITEM(outcome, 1));
        Py_DECREF(outcome);
        return 1;
    }
    if (number < 0 || number >= PyTuple_GET_SIZE(sites)) {
        PyErr_SetString(PyExc_SystemError, "break code returned no outcome of its break");
        Py_DECREF(outcome);
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(outcome) - 1;
    if (activation_reserve(self, n) < 0) {
        Py_DECREF(outcome);
        return -1;
    }
    bool mine = Py_REFCNT(outcome) == 1;
    PyObject **values = activation_values(self);
    for (Py_ssize_t i = 0; i < n; i++) {
        values[i] = PyTuple_GET_ITEM(outcome, i + 1);
        if (mine) {
            ((PyTupleObject *)outcome)->ob_item[i + 1] = NULL;
        } else {
            Py_INCREF(values[i]);
        }
    }
    self->n_values = n;
    Py_SETREF(self->target, Py_NewRef(PyTuple_GET_ITEM(sites, number)));
    Py_DECREF(outcome);
    return 0;
}

/* The site's resume code, asked for when missing, or the Break that runs the rest of the loop that
 * the site is in. Borrows or NULL. */
static PyObject *
activation_resume_code(const Activation *self, CaptureThread *thread)
{
    Site *site = (Site *)self->target;
    if (site->resume_code != NULL) {
        return site->resume_code;
    }
    Region *region = thread->region != NULL ? thread->region : self->region;
    if (region == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a resume site without resume code, and no region");
        return NULL;
    }
    Py_INCREF(region);
    Region *saved = thread_swap_region(thread, NULL);
    PyObject *arguments[2] = {(PyObject *)site, self->func};
    PyObject *code = PyObject_Vectorcall(region->make_resume, arguments, 2, NULL);
    Py_XDECREF(thread_swap_region(thread, saved));
    Py_DECREF(region);
    if (code == NULL) {
        return NULL;
    }
    if (!Py_IS_TYPE(code, Break_Type) && code_skip(code) < 0) {
        Py_DECREF(code);
        return NULL;
    }
    Py_XSETREF(site->resume_code, code);
    return site->resume_code;
}

/* Go on natively: run the rest of the frame (1, `result` is set), or aim at what runs the rest of
 * the loop that the site is in (0). -1 with an exception. */
static int
activation_resume(Activation *self, CaptureThread *thread, PyObject **result)
{
    PyObject *code = activation_resume_code(self, thread);
    if (code == NULL) {
        return -1;
    }
    counters.resumed++;
    Py_INCREF(code);
    if (Py_IS_TYPE(code, Break_Type)) {
        Py_SETREF(self->target, code);
        return 0;
    }
    *result = activation_call(self, code, ((PyCodeObject *)code)->co_argcount == 2,
                              ((Site *)self->target)->slot0);
    Py_DECREF(code);
    return *result == NULL ? -1 : 1;
}

/* Run the site's piece, compiling it on a miss. */
static PieceStatus
activation_piece(Activation *self, CaptureThread *thread, PyObject **result)
{
    Site *site = (Site *)self->target;
    Region *region = thread->region;
    if (region == NULL || !region->enabled) {
        return PIECE_MISS;
    }
    const PyObject *code = ((PyFunctionObject *)self->func)->func_code;
    if (UNLIKELY(frame_is_traced(PyThreadState_Get(), (const PyCodeObject *)code))) {
        return PIECE_MISS; /* traced from a break on: the resume code shows the user's lines */
    }
    PyObject **values = activation_values(self);
    Py_ssize_t n = self->n_cells + self->n_values;
    PieceStatus status =
        piece_run(thread, site, self->items, n, self->func, values, self->n_values, result);
    if (status != PIECE_MISS || thread->region == NULL) {
        return status;
    }
    int added = piece_convert(thread, site, self->items, n, self->func);
    if (added <= 0) {
        return added < 0 ? PIECE_RAISED : PIECE_MISS;
    }
    status = piece_run(thread, site, self->items, n, self->func, values, self->n_values, result);
    counters.stale += status == PIECE_MISS;
    return status;
}

PyObject *
drive(CaptureThread *thread, PyObject *continuation, PyObject *func)
{
    Activation self = {.items = self.small, .capacity = SMALL_VALUES, .func = Py_XNewRef(func)};
    PyObject *result = NULL;
    if (activation_load(&self, continuation) < 0) {
        goto done;
    }
    for (;;) {
        if (Py_IS_TYPE(self.target, Break_Type)) {
            if (((Break *)self.target)->make_loop != NULL &&
                activation_count_round(&self, thread) < 0) {
                break;
            }
            Break *instruction = (Break *)self.target;
            counters.breaks++;
            PyObject *outcome = activation_call(&self, instruction->code, instruction->takes_slot0,
                                                instruction->has_slot0);
            if (outcome == NULL || activation_advance(&self, outcome, &result) != 0) {
                break;
            }
            continue;
        }
        PieceStatus status = activation_piece(&self, thread, &result);
        if (status == PIECE_MISS || status == PIECE_RESTART) {
            if (activation_resume(&self, thread, &result) != 0) {
                break;
            }
            continue;
        }
        if (status == PIECE_RAISED || !Py_IS_TYPE(result, Continue_Type)) {
            break;
        }
        PyObject *next = result;
        result = NULL;
        if (activation_load(&self, next) < 0) {
            break;
        }
    }
done:
    if (result == NULL) {
        /* What the values' destructors do must not meet the exception. */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        activation_release(&self);
        PyErr_Restore(type, value, traceback);
    } else {
        activation_release(&self);
    }
    if (self.items != self.small) {
        PyMem_Free(self.items);
    }
    return result;
}

/* ---- module level ---------------------------------------------------------------------------------------------- */

static PyObject *
module_stats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:l,s:O}", "hits", counters.hits,
                         "misses", counters.misses, "converted", counters.converted, "refused",
                         counters.refused, "busy", counters.busy, "stale", counters.stale,
                         "restarts", counters.restarts, "breaks", counters.breaks, "resumed",
                         counters.resumed, "frames", counters.frames, "inside", hook_inside_count(),
                         "installed", hook_is_installed() ? Py_True : Py_False);
}

static PyMethodDef driver_functions[] = {
    {"stats", module_stats, METH_NOARGS, PyDoc_STR("Return the process's counters as a dict.")},
    {NULL, NULL, 0, NULL},
};

int
driver_init(PyObject *module)
{
    return PyModule_AddFunctions(module, driver_functions);
}

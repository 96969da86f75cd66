/* Holds the per-code cache: regions, sites and the extra that ties them to code objects.
 * Must not know frames or how a piece is run.
 *
 * A region owns its frame-start sites, and the garbage collector sees that; the extra of a code
 * object only points at them. So a code object keeps nothing alive that could keep it alive.
 */
#include "native.h"

PyTypeObject *Region_Type, *Site_Type;

static Py_ssize_t extra_index = -1;
static unsigned files_epoch = 1;
static PyObject *skip_prefixes, *skip_exceptions, *disabled_prefixes; /* tuples of str, or NULL */

/* ---- code extras --------------------------------------------------------------------------- */

CodeExtra *
code_extra_get(PyCodeObject *code)
{
    void *extra = NULL;
    if (UNLIKELY(Code_GetExtra((PyObject *)code, extra_index, &extra) < 0)) {
        PyErr_Clear();
        return NULL;
    }
    return extra;
}

static bool
code_is_eligible(const PyCodeObject *code)
{
    const int wanted = CO_OPTIMIZED | CO_NEWLOCALS;
    const int unwanted = CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR;
    return (code->co_flags & (wanted | unwanted)) == wanted && code_can_be_finished(code);
}

CodeExtra *
code_extra_ensure(PyCodeObject *code)
{
    CodeExtra *extra = code_extra_get(code);
    if (extra != NULL) {
        return extra;
    }
    extra = PyMem_Calloc(1, sizeof(CodeExtra));
    if (extra == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    extra->code = code;
    extra->eligible = code_is_eligible(code);
    extra->n_args = code->co_argcount + code->co_kwonlyargcount +
                    ((code->co_flags & CO_VARARGS) != 0) + ((code->co_flags & CO_VARKEYWORDS) != 0);
    if (Code_SetExtra((PyObject *)code, extra_index, extra) < 0) {
        PyMem_Free(extra);
        return NULL;
    }
    return extra;
}

/* Length of the longest of `prefixes` (borrowed, may be NULL) that `filename` starts with, or -1. */
static Py_ssize_t
longest_prefix(PyObject *filename, PyObject *prefixes)
{
    Py_ssize_t longest = -1;
    for (Py_ssize_t i = 0; prefixes != NULL && i < PyTuple_GET_SIZE(prefixes); i++) {
        PyObject *prefix = PyTuple_GET_ITEM(prefixes, i);
        Py_ssize_t length = PyUnicode_GET_LENGTH(prefix);
        if (length > longest && PyUnicode_Tailmatch(filename, prefix, 0, PY_SSIZE_T_MAX, -1) == 1) {
            longest = length;
        }
    }
    return longest;
}

bool
code_extra_skips(CodeExtra *extra)
{
    if (UNLIKELY(extra->files_epoch != files_epoch)) {
        PyObject *filename = extra->code->co_filename;
        /* Folders lie within each other: the most specific one decides. */
        extra->skipped_file = longest_prefix(filename, skip_prefixes) >
                              longest_prefix(filename, skip_exceptions);
        extra->disabled_file = longest_prefix(filename, disabled_prefixes) >= 0;
        extra->files_epoch = files_epoch;
    }
    return extra->skip || extra->skipped_file;
}

int
code_skip(PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "expected a code object, not %.100s", Py_TYPE(code)->tp_name);
        return -1;
    }
    CodeExtra *extra = code_extra_ensure((PyCodeObject *)code);
    if (extra == NULL) {
        return -1;
    }
    extra->skip = 1;
    return 0;
}

PyObject *
set_skip_files(PyObject *prefixes, PyObject *exceptions, PyObject *disabled)
{
    PyObject *all[3] = {prefixes, exceptions, disabled};
    for (int i = 0; i < 3; i++) {
        if (!PyTuple_CheckExact(all[i])) {
            PyErr_SetString(PyExc_TypeError, "skip_files() takes tuples of path prefixes");
            return NULL;
        }
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(all[i]); j++) {
            if (!PyUnicode_Check(PyTuple_GET_ITEM(all[i], j))) {
                PyErr_SetString(PyExc_TypeError, "a path prefix is a str");
                return NULL;
            }
        }
    }
    PyObject *none = PyTuple_New(0);
    PyObject *previous = none == NULL
                             ? NULL
                             : PyTuple_Pack(3, skip_prefixes != NULL ? skip_prefixes : none,
                                            skip_exceptions != NULL ? skip_exceptions : none,
                                            disabled_prefixes != NULL ? disabled_prefixes : none);
    Py_XDECREF(none);
    if (previous == NULL) {
        return NULL;
    }
    Py_XSETREF(skip_prefixes, Py_NewRef(prefixes));
    Py_XSETREF(skip_exceptions, Py_NewRef(exceptions));
    Py_XSETREF(disabled_prefixes, Py_NewRef(disabled));
    files_epoch++;
    return previous;
}

/* ---- ties between regions, sites and extras --------------------------------------------------- */

/* Take a site out of its region and its extra. The caller gets the region's reference. */
static void
site_untie(Site *site)
{
    CodeExtra *extra = site->extra;
    for (int i = 0; i < extra->n_slots; i++) {
        if (extra->slots[i].site == site) {
            extra->n_slots--;
            memmove(&extra->slots[i], &extra->slots[i + 1],
                    (size_t)(extra->n_slots - i) * sizeof(SiteSlot));
            break;
        }
    }
    if (site->previous != NULL) {
        site->previous->next = site->next;
    } else {
        site->region->sites = site->next;
    }
    if (site->next != NULL) {
        site->next->previous = site->previous;
    }
    site->region = NULL;
    site->extra = NULL;
    site->previous = site->next = NULL;
}

static void
region_drop_sites(Region *region)
{
    while (region->sites != NULL) {
        Site *site = region->sites;
        site_untie(site);
        Py_DECREF(site);
    }
}

static void
extra_drop_sites(CodeExtra *extra)
{
    while (extra->n_slots > 0) {
        Site *site = extra->slots[extra->n_slots - 1].site;
        site_untie(site);
        Py_DECREF(site);
    }
}

/* The code object is going. May run while an exception is set. */
static void
code_extra_free(void *memory)
{
    CodeExtra *extra = memory;
    if (extra == NULL) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    extra_drop_sites(extra);
    PyMem_Free(extra->slots);
    PyMem_Free(extra);
    PyErr_Restore(type, value, traceback);
}

/* Borrows; NULL without an exception when there is none. A region looked for often comes first. */
static Site *
code_site_find(CodeExtra *extra, const Region *region)
{
    SiteSlot *slots = extra->slots;
    for (int i = 0; i < extra->n_slots; i++) {
        if (slots[i].region == region) {
            if (i > 0) {
                SiteSlot found = slots[i];
                slots[i] = slots[0];
                slots[0] = found;
            }
            return slots[0].site;
        }
    }
    return NULL;
}

Site *
code_site(CodeExtra *extra, Region *region)
{
    Site *site = code_site_find(extra, region);
    if (LIKELY(site != NULL)) {
        return site;
    }
    site = (Site *)Site_Type->tp_alloc(Site_Type, 0);
    if (site == NULL) {
        return NULL;
    }
    /* Allocating may run the collector, and with it anything: look at the extra only now. */
    Site *made_meanwhile = code_site_find(extra, region);
    if (made_meanwhile != NULL) {
        Py_DECREF(site);
        return made_meanwhile;
    }
    if (extra->n_slots == extra->capacity) {
        int capacity = extra->capacity == 0 ? 1 : extra->capacity * 2;
        SiteSlot *slots = PyMem_Realloc(extra->slots, (size_t)capacity * sizeof(SiteSlot));
        if (slots == NULL) {
            Py_DECREF(site);
            PyErr_NoMemory();
            return NULL;
        }
        extra->slots = slots;
        extra->capacity = capacity;
    }
    site->layout = Py_NewRef(Py_None);
    site->data = Py_NewRef(Py_None);
    site->region = region;
    site->extra = extra;
    site->next = region->sites;
    if (site->next != NULL) {
        site->next->previous = site;
    }
    region->sites = site;
    extra->slots[extra->n_slots++] = (SiteSlot){region, site};
    return site;
}

/* ---- Region ------------------------------------------------------------------------------------ */

static PyObject *
region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"convert", "make_resume", "name", NULL};
    PyObject *convert, *make_resume, *name = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$U:Region", names, &convert, &make_resume,
                                     &name)) {
        return NULL;
    }
    Region *self = (Region *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->convert = Py_NewRef(convert);
    self->make_resume = Py_NewRef(make_resume);
    self->name = name != NULL ? Py_NewRef(name) : PyUnicode_FromString("");
    self->enabled = 1;
    if (self->name == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
region_traverse(Region *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->convert);
    Py_VISIT(self->make_resume);
    for (Site *site = self->sites; site != NULL; site = site->next) {
        Py_VISIT(site);
    }
    return 0;
}

static int
region_clear(Region *self)
{
    region_drop_sites(self);
    Py_CLEAR(self->convert);
    Py_CLEAR(self->make_resume);
    return 0;
}

static void
region_dealloc(Region *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    region_clear(self);
    Py_CLEAR(self->name);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
region_sites(Region *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    for (Site *site = self->sites; list != NULL && site != NULL; site = site->next) {
        PyObject *pair = PyTuple_Pack(2, (PyObject *)site->extra->code, (PyObject *)site);
        if (pair == NULL || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *
region_repr(Region *self)
{
    return PyUnicode_FromFormat("<Region %R at %p>", self->name, self);
}

static PyMethodDef region_methods[] = {
    {"sites", (PyCFunction)region_sites, METH_NOARGS,
     PyDoc_STR("Return the frame-start sites as (code, site) pairs.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef region_members[] = {
    {"convert", T_OBJECT, offsetof(Region, convert), READONLY, NULL},
    {"make_resume", T_OBJECT, offsetof(Region, make_resume), READONLY, NULL},
    {"name", T_OBJECT, offsetof(Region, name), READONLY, NULL},
    {"enabled", T_BOOL, offsetof(Region, enabled), 0, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Region, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot region_slots[] = {
    {Py_tp_doc, "Region(convert, make_resume, *, name='')\n\nHow a compiled function compiles."},
    {Py_tp_new, region_new},
    {Py_tp_dealloc, region_dealloc},
    {Py_tp_traverse, region_traverse},
    {Py_tp_clear, region_clear},
    {Py_tp_repr, region_repr},
    {Py_tp_methods, region_methods},
    {Py_tp_members, region_members},
    {0, NULL},
};

static PyType_Spec region_spec = {
    .name = "capture._native.Region",
    .basicsize = sizeof(Region),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = region_slots,
};

/* ---- Site ---------------------------------------------------------------------------------------- */

static PyObject *
site_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"index", "layout", "num_cells", "slot0", "data", NULL};
    PyObject *layout, *data = Py_None;
    Py_ssize_t index, num_cells;
    int slot0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nOnp|O:Site", names, &index, &layout,
                                     &num_cells, &slot0, &data)) {
        return NULL;
    }
    Site *self = (Site *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->index = index;
    self->layout = Py_NewRef(layout);
    self->num_cells = num_cells;
    self->slot0 = (char)slot0;
    self->data = Py_NewRef(data);
    return (PyObject *)self;
}

/* Steals `entries` (a tuple, or NULL for none). */
static void
site_set_entries(Site *self, PyObject *entries)
{
    PyObject *old = self->entries;
    self->entries = entries;
    Py_XDECREF(old);
}

static void
site_forget_entries(Site *self)
{
    for (Py_ssize_t i = 0; self->entries != NULL && i < PyTuple_GET_SIZE(self->entries); i++) {
        ((Entry *)PyTuple_GET_ITEM(self->entries, i))->site = NULL;
    }
    site_set_entries(self, NULL);
}

static int
site_traverse(Site *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->layout);
    Py_VISIT(self->data);
    Py_VISIT(self->resume_code);
    Py_VISIT(self->resume_sites);
    Py_VISIT(self->entries);
    return 0;
}

static int
site_clear_slot(Site *self)
{
    site_forget_entries(self);
    Py_CLEAR(self->layout);
    Py_CLEAR(self->data);
    Py_CLEAR(self->resume_code);
    Py_CLEAR(self->resume_sites);
    return 0;
}

static void
site_dealloc(Site *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    site_clear_slot(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The entries without those for which `entry` matches or, with `entry` NULL, that are dead.
 * `first` (may be NULL) comes in front. New reference; *same is set when nothing changed. */
static PyObject *
entries_without(Site *self, Entry *entry, Entry *first, bool *found)
{
    Py_ssize_t n = self->entries == NULL ? 0 : PyTuple_GET_SIZE(self->entries);
    PyObject *list = PyList_New(0);
    if (list == NULL || (first != NULL && PyList_Append(list, (PyObject *)first) < 0)) {
        Py_XDECREF(list);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Entry *each = (Entry *)PyTuple_GET_ITEM(self->entries, i);
        if (each == entry || !each->alive) {
            *found = *found || each == entry || entry == NULL;
        } else if (PyList_Append(list, (PyObject *)each) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    PyObject *tuple = PyList_AsTuple(list);
    Py_DECREF(list);
    return tuple;
}

static PyObject *
site_add_entry(Site *self, PyObject *argument)
{
    if (!Py_IS_TYPE(argument, Entry_Type)) {
        PyErr_SetString(PyExc_TypeError, "add_entry() takes an Entry");
        return NULL;
    }
    Entry *entry = (Entry *)argument;
    if (entry->site != NULL) {
        PyErr_SetString(PyExc_ValueError, "the entry is in a site already");
        return NULL;
    }
    bool found = false;
    PyObject *entries = entries_without(self, NULL, entry, &found);
    if (entries == NULL) {
        return NULL;
    }
    entry->site = self;
    site_set_entries(self, entries);
    Py_RETURN_NONE;
}

static PyObject *
site_remove_entry(Site *self, PyObject *argument)
{
    Entry *entry = (Entry *)argument;
    if (!Py_IS_TYPE(argument, Entry_Type) || entry->site != self) {
        PyErr_SetString(PyExc_ValueError, "the entry is not in this site");
        return NULL;
    }
    bool found = false;
    PyObject *entries = entries_without(self, entry, NULL, &found);
    if (entries == NULL) {
        return NULL;
    }
    entry->site = NULL;
    site_set_entries(self, entries);
    Py_RETURN_NONE;
}

static PyObject *
site_clear_method(Site *self, PyObject *Py_UNUSED(ignored))
{
    self->skip = 0;
    site_forget_entries(self);
    Py_CLEAR(self->resume_sites);
    Py_RETURN_NONE;
}

void
site_sweep(Site *self)
{
    bool found = false;
    PyObject *entries = entries_without(self, NULL, NULL, &found);
    if (entries == NULL) {
        PyErr_Clear();
        return;
    }
    site_set_entries(self, entries);
}

/* Move the entry at `position` to the front. Quietly does nothing when memory is short. */
void
site_promote(Site *self, Py_ssize_t position)
{
    Py_ssize_t n = PyTuple_GET_SIZE(self->entries);
    PyObject *entries = PyTuple_New(n);
    if (entries == NULL) {
        PyErr_Clear();
        return;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t from = i == 0 ? position : i <= position ? i - 1 : i;
        PyTuple_SET_ITEM(entries, i, Py_NewRef(PyTuple_GET_ITEM(self->entries, from)));
    }
    site_set_entries(self, entries);
}

static PyObject *
site_get_entries(Site *self, void *Py_UNUSED(closure))
{
    return self->entries != NULL ? Py_NewRef(self->entries) : PyTuple_New(0);
}

static PyObject *
site_get_resume_sites(Site *self, void *Py_UNUSED(closure))
{
    if (self->resume_sites == NULL) {
        self->resume_sites = PyDict_New();
    }
    return Py_XNewRef(self->resume_sites);
}

static PyObject *
site_get_resume_code(Site *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->resume_code != NULL ? self->resume_code : Py_None);
}

static int
site_set_resume_code(Site *self, PyObject *code, void *Py_UNUSED(closure))
{
    if (code == NULL || code == Py_None) {
        Py_CLEAR(self->resume_code);
        return 0;
    }
    if (code_skip(code) < 0) {
        return -1;
    }
    Py_XSETREF(self->resume_code, Py_NewRef(code));
    return 0;
}

static PyObject *
site_get_code(Site *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->extra != NULL ? (PyObject *)self->extra->code : Py_None);
}

static PyObject *
site_repr(Site *self)
{
    Py_ssize_t n = self->entries == NULL ? 0 : PyTuple_GET_SIZE(self->entries);
    return PyUnicode_FromFormat("<Site index=%zd entries=%zd at %p>", self->index, n, self);
}

static PyMethodDef site_methods[] = {
    {"add_entry", (PyCFunction)site_add_entry, METH_O,
     PyDoc_STR("Put an entry in front of the others.")},
    {"remove_entry", (PyCFunction)site_remove_entry, METH_O, PyDoc_STR("Take an entry out.")},
    {"clear", (PyCFunction)site_clear_method, METH_NOARGS,
     PyDoc_STR("Forget the entries, the skip mark and the resume sites.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef site_members[] = {
    {"index", T_PYSSIZET, offsetof(Site, index), READONLY, NULL},
    {"layout", T_OBJECT, offsetof(Site, layout), READONLY, NULL},
    {"num_cells", T_PYSSIZET, offsetof(Site, num_cells), READONLY, NULL},
    {"slot0", T_BOOL, offsetof(Site, slot0), READONLY, NULL},
    {"skip", T_BOOL, offsetof(Site, skip), 0, NULL},
    {"data", T_OBJECT, offsetof(Site, data), 0, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Site, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef site_getset[] = {
    {"entries", (getter)site_get_entries, NULL, NULL, NULL},
    {"resume_sites", (getter)site_get_resume_sites, NULL, NULL, NULL},
    {"resume_code", (getter)site_get_resume_code, (setter)site_set_resume_code, NULL, NULL},
    {"code", (getter)site_get_code, NULL,
     PyDoc_STR("The code object of a frame-start site, None otherwise."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot site_slots[] = {
    {Py_tp_doc, "Site(index, layout, num_cells, slot0, data=None)\n\n"
                "A point where a captured piece may start."},
    {Py_tp_new, site_new},
    {Py_tp_dealloc, site_dealloc},
    {Py_tp_traverse, site_traverse},
    {Py_tp_clear, site_clear_slot},
    {Py_tp_repr, site_repr},
    {Py_tp_methods, site_methods},
    {Py_tp_members, site_members},
    {Py_tp_getset, site_getset},
    {0, NULL},
};

static PyType_Spec site_spec = {
    .name = "capture._native.Site",
    .basicsize = sizeof(Site),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = site_slots,
};

/* ---- module level ----------------------------------------------------------------------------------- */

static PyObject *
module_skip_code(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (code_skip(code) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
module_disable_code(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (code_skip(code) < 0) {
        return NULL;
    }
    code_extra_get((PyCodeObject *)code)->disabled = 1;
    Py_RETURN_NONE;
}

static PyObject *
module_skip_files(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *prefixes, *exceptions, *disabled = NULL;
    if (!PyArg_ParseTuple(args, "OO|O:skip_files", &prefixes, &exceptions, &disabled)) {
        return NULL;
    }
    PyObject *none = PyTuple_New(0);
    if (none == NULL) {
        return NULL;
    }
    PyObject *result = set_skip_files(prefixes, exceptions, disabled != NULL ? disabled : none);
    Py_DECREF(none);
    return result;
}

static PyObject *
module_reset_code(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "reset_code() takes a code object");
        return NULL;
    }
    CodeExtra *extra = code_extra_get((PyCodeObject *)code);
    if (extra != NULL) {
        extra_drop_sites(extra);
    }
    Py_RETURN_NONE;
}

static PyMethodDef cache_functions[] = {
    {"skip_code", module_skip_code, METH_O,
     PyDoc_STR("Never capture frames of this code; their callees still are.")},
    {"disable_code", module_disable_code, METH_O,
     PyDoc_STR("Run frames of this code, and all that they call, with no region current.")},
    {"skip_files", module_skip_files, METH_VARARGS,
     PyDoc_STR("Never capture frames whose file starts with a prefix and with no excepted one; "
               "below files with a disabled prefix, no region is current. Return what was set.")},
    {"reset_code", module_reset_code, METH_O,
     PyDoc_STR("Drop what every region has compiled for this code.")},
    {NULL, NULL, 0, NULL},
};

int
cache_init(PyObject *module)
{
    if (extra_index < 0) {
        extra_index = Code_RequestExtraIndex(code_extra_free);
        if (extra_index < 0) {
            PyErr_SetString(PyExc_ImportError, "no code extra index is left in this process");
            return -1;
        }
    }
    if (module_add_type(module, &Region_Type, &region_spec) < 0 ||
        module_add_type(module, &Site_Type, &site_spec) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, cache_functions);
}

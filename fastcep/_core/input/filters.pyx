# cython: language_level=3
"""What queries of one engine share: which events each variable may be bound to.

A *filter* is a set of event types and the program of the conditions on one event alone. Variables of any queries with
the same filter share it: it runs once over a slice of the batch and lists the events that pass. A query then merges
the lists of its variables (``masks``), so that an event which none of them may bind costs it nothing.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from fastcep._core.input.batch cimport COLUMN_SEQ, COLUMN_TIME, COLUMN_TYPE, Batch, Events
from fastcep._core.program.code cimport code_free, code_new
from fastcep._core.program.predicate cimport CHUNK, Input, Kernel, machine_free, machine_new, run

cdef enum:
    MAX_INPUTS = 64          # of a program, at first


cdef class Filter:
    """The events of certain types that pass a program; made by :meth:`Filters.filter`."""

    def __dealloc__(self):
        code_free(&self.screen.program)
        free(self.screen.sources)
        free(self.screen.passed.found)

    @property
    def arithmetic_nulls(self):
        """Overflows and integer divisions by zero so far."""
        return self.screen.arithmetic_nulls

    @property
    def function_errors(self):
        """Exceptions in users' functions so far."""
        return self.screen.function_errors


cdef class Filters:
    """The filters of an engine.

    Parameters
    ----------
    type_names
        The event types, by id.
    """

    def __cinit__(self, type_names):
        self._known = {}
        self._type_sets = []
        self._type_names = tuple(type_names)
        self.n_types = len(self._type_names)
        self.vm = machine_new()
        self.inputs = <Input*>calloc(MAX_INPUTS, sizeof(Input))
        self.codes = <int64_t*>calloc(max(1, self.n_types), sizeof(int64_t))
        self.numbers = <int64_t*>calloc(CHUNK, sizeof(int64_t))
        self.types = <int64_t*>calloc(CHUNK, sizeof(int64_t))
        if self.inputs == NULL or self.codes == NULL or self.numbers == NULL or self.types == NULL:
            raise MemoryError("no memory for the filters")

    def __dealloc__(self):
        self._free_tables()
        machine_free(self.vm)
        free(self.inputs)
        free(self.codes)
        free(self.numbers)
        free(self.types)

    cdef void _free_tables(self) noexcept:
        cdef int i
        for i in range(self.n_sets):
            free(self.sets[i].takes)
        free(self.sets)
        free(self.screens)
        self.sets = NULL
        self.screens = NULL
        self.n_sets = self.n_filters = 0

    # ------------------------------------------------------------------ which there are

    def of_plan(self, plan, intern):
        """Take the filters of a plan, one per member, those that are there already or new ones.

        ``intern`` gives the word of a constant. What was taken must be given to :meth:`release`. A plan that cannot
        share, because a program has too many inputs, gets None.
        """
        if any(program is not None and len(program.inputs) > MAX_INPUTS for program in plan.locals):
            return None
        taken = [self._filter(plan, member, intern) for member in range(len(plan.locals))]
        self._list()
        return taken

    cdef Filter _filter(self, plan, int member, intern):
        cdef Filter made
        cdef Py_ssize_t i
        program = plan.locals[member]
        types = tuple([number for number, members in enumerate(plan.type_members) if members >> member & 1])
        sources, words, code = (), (), ()
        if program is not None:
            sources = tuple([plan.columns[number].column for _, number in program.inputs])
            words = tuple([_word(constant, intern) for constant in program.constants])
            code = program.code
        key = (types, code, sources, words)
        known = self._known.get(key)
        if known is not None:
            made = known
            made.uses += 1
            return made
        made = Filter.__new__(Filter)
        made.key, made.program, made.uses = key, program, 1
        if program is not None:
            code_new(&made.screen.program, program, intern)
            made.screen.has_program = True
            made.screen.sources = <int32_t*>calloc(len(sources) + 1, sizeof(int32_t))
            if made.screen.sources == NULL:
                raise MemoryError("no memory for the filters")
            for i, source in enumerate(sources):
                made.screen.sources[i] = source
                if source == COLUMN_TYPE:
                    for number, name in enumerate(self._type_names):
                        self.codes[<int>number] = intern(name)
        self._known[key] = made
        return made

    def release(self, filters):
        """Give back what :meth:`of_plan` gave; a filter that nobody uses any more is gone."""
        cdef Filter one
        for one in filters:
            one.uses -= 1
            if one.uses == 0:
                del self._known[one.key]
        self._list()

    cdef int _list(self) except -1:
        """Set the tables that `run` walks."""
        cdef Filter one
        cdef int i
        self._free_tables()
        self._type_sets = list(dict.fromkeys([key[0] for key in self._known]))
        self.sets = <TypeRows*>calloc(len(self._type_sets) + 1, sizeof(TypeRows))
        self.screens = <Screen**>calloc(len(self._known) + 1, sizeof(void*))
        if self.sets == NULL or self.screens == NULL:
            raise MemoryError("no memory for the filters")
        for types in self._type_sets:
            self.sets[self.n_sets].takes = <uint8_t*>calloc(self.n_types + 1, 1)
            if self.sets[self.n_sets].takes == NULL:
                raise MemoryError("no memory for the filters")
            for number in types:
                self.sets[self.n_sets].takes[<int>number] = 1
            self.n_sets += 1
        self.reads_number = self.reads_type = False
        for one in self._known.values():
            one.screen.types = self._type_sets.index(one.key[0])
            self.screens[self.n_filters] = &one.screen
            self.n_filters += 1
            self.reads_number |= COLUMN_SEQ in one.key[2]
            self.reads_type |= COLUMN_TYPE in one.key[2]
        return 0

    def __len__(self):
        return len(self._known)

    @property
    def tasks(self):
        """The programs and how each is called, for :mod:`fastcep.kernels`."""
        return [(one.program, "column") for one in self._known.values() if one.program is not None]

    def use_kernels(self, kernels):
        """Run the programs of ``kernels``, ``{(program, role): address}``, by generated code."""
        cdef Filter one
        for one in self._known.values():
            address = None if one.program is None else kernels.get((one.program, "column"))
            if address is not None:
                one.screen.program.kernel = <Kernel><size_t>address

    @property
    def nbytes(self):
        """Bytes of the lists."""
        cdef int64_t total = 0
        cdef int i
        for i in range(self.n_filters):
            total += self.screens[i].capacity * sizeof(int32_t)
        return total

    def bytes_with(self, int64_t events):
        """Bytes of the lists when a slice has so many events."""
        cdef int64_t total = 0
        cdef int i
        for i in range(self.n_filters):
            total += max(self.screens[i].capacity, events + 1 if events else 0) * sizeof(int32_t)
        return total

    # ------------------------------------------------------------------ use

    def run(self, Batch batch not None, Py_ssize_t first, Py_ssize_t last):
        """List the events ``first:last`` of a batch that pass each filter; False if there is no memory for it."""
        return self.look_through(&batch.events, first, last, True)

    cdef bint look_through(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint release):
        """:meth:`run`; ``release``: it is worth while to give the GIL back meanwhile."""
        if last >= INT32_MAX or not self._reserve(last - first):
            return False
        if release:
            with nogil:
                self._look(events, first, last)
        else:
            self._look(events, first, last)
        return True

    cdef void _look(self, const Events* events, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        cdef Py_ssize_t base = first
        cdef int m
        while base < last:
            m = <int>min(<Py_ssize_t>CHUNK, last - base)
            self._chunk(events, base, m)
            base += m
        for m in range(self.n_filters):
            self.screens[m].passed.found[self.screens[m].passed.size] = INT32_MAX

    cdef bint _reserve(self, int64_t events) noexcept:
        cdef int32_t* grown
        cdef int i
        for i in range(self.n_filters):
            self.screens[i].passed.size = 0
            if self.screens[i].capacity < events + 1:
                grown = <int32_t*>realloc(self.screens[i].passed.found, (events + 1) * sizeof(int32_t))
                if grown == NULL:
                    return False
                self.screens[i].passed.found = grown
                self.screens[i].capacity = events + 1
        return True

    cdef void _chunk(self, const Events* events, Py_ssize_t base, int m) noexcept nogil:
        cdef int i, k, n
        cdef TypeRows* of
        cdef Screen* screen
        cdef int32_t* to
        cdef uint8_t keep[CHUNK]
        cdef int64_t nulls, errors
        for i in range(self.n_sets):
            of = self.sets + i
            n = 0
            for k in range(m):
                of.rows[n] = k
                n += of.takes[events.types[base + k]]
            of.n = n
        if self.reads_number and events.sequence == NULL:
            for k in range(m):
                self.numbers[k] = events.position + base + k
        if self.reads_type:
            for k in range(m):
                self.types[k] = self.codes[events.types[base + k]]
        for i in range(self.n_filters):
            screen = self.screens[i]
            of = self.sets + screen.types
            if of.n == 0:
                continue
            to = screen.passed.found + screen.passed.size
            if not screen.has_program:
                for k in range(of.n):
                    to[k] = <int32_t>base + of.rows[k]
                screen.passed.size += of.n
                continue
            self._point(screen, events, base)
            memset(keep, 1, of.n)
            nulls, errors = self.vm.arithmetic_nulls, self.vm.function_errors
            n = 0
            if run(self.vm, &screen.program, self.inputs, of.rows, of.n, keep, NULL, NULL, 0) > 0:
                for k in range(of.n):
                    to[n] = <int32_t>base + of.rows[k]
                    n += keep[k] != 0
            screen.passed.size += n
            screen.arithmetic_nulls += self.vm.arithmetic_nulls - nulls
            screen.function_errors += self.vm.function_errors - errors

    cdef void _point(self, const Screen* screen, const Events* events, Py_ssize_t base) noexcept nogil:
        """The inputs of a program, as columns of the chunk."""
        cdef int j, source
        cdef Input* to
        for j in range(screen.program.n_inputs):
            source = screen.sources[j]
            to = self.inputs + j
            to.nulls = NULL
            to.bits = NULL
            to.stride = 1
            if source >= 0:
                to.data = events.data[source] + base
                if events.null[source] != NULL:
                    to.nulls = events.null[source] + base
            elif source == COLUMN_TIME:
                to.data = events.time + base
            elif source == COLUMN_TYPE:
                to.data = self.types
            else:
                to.data = self.numbers if events.sequence == NULL else events.sequence + base


def _word(constant, intern):
    """What tells a constant from others: of a text or a function its word, for numbers 1, 1.0 and -0.0 differ."""
    if constant is None or isinstance(constant, (int, float)):
        return type(constant).__name__, repr(constant)
    if hasattr(constant, "values"):
        return "set", repr(constant)
    return "word", intern(constant)

# cython: language_level=3
"""Filters that the queries of an engine share: they list the events that each variable may bind.

A *filter* is a set of event types and the program of the conditions on a single event. Variables with equal filters
share one, also across queries. A filter runs once over a slice of the batch and lists the events that pass. A query
then merges the lists of its variables (``masks``), so that it spends no time on events that none of its variables may
bind.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from fastcep._core.input.batch cimport COLUMN_SEQ, COLUMN_TIME, COLUMN_TYPE, Batch, Events
from fastcep._core.program.code cimport code_free, code_new, find_comparisons
from fastcep._core.program.event_sets cimport SET_WORDS, compare_events, fc_list, fc_of_types, is_empty, type_set_new
from fastcep._core.program.predicate cimport CHUNK, Input, Kernel, machine_free, machine_new, run

cdef enum:
    MAX_INPUTS = 64          # inputs of a program


cdef class Filter:
    """A set of event types and a program that selects events; made by :meth:`Filters.of_plan`."""

    def __dealloc__(self):
        code_free(&self.screen.program)
        free(self.screen.sources)
        free(self.screen.passed.rows)

    @property
    def arithmetic_nulls(self):
        """Overflows and integer divisions by zero so far."""
        return self.screen.arithmetic_nulls

    @property
    def function_errors(self):
        """Exceptions in user functions so far."""
        return self.screen.function_errors


cdef class Filters:
    """The filters of an engine.

    Parameters
    ----------
    type_names
        Names of the event types, by type id.
    """

    def __cinit__(self, type_names):
        self._by_key = {}
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
            free(self.sets[i].types.has)
        free(self.sets)
        free(self.screens)
        self.sets = NULL
        self.screens = NULL
        self.n_sets = self.n_filters = 0

    # ------------------------------------------------------------------ the set of filters

    def of_plan(self, plan, intern):
        """Return the filters of a plan, one per variable; filters that exist already are shared.

        ``intern`` returns the word of a constant. The caller must pass the filters to :meth:`release` later. Returns
        None if a program has too many inputs to be shared.
        """
        if any(program is not None and len(program.inputs) > MAX_INPUTS for program in plan.locals):
            return None
        filters = [self._filter(plan, variable, intern) for variable in range(len(plan.locals))]
        self._update_tables()
        return filters

    cdef Filter _filter(self, plan, int variable, intern):
        cdef Filter shared, created
        cdef Py_ssize_t i
        program = plan.locals[variable]
        types = tuple([number for number, variables in enumerate(plan.type_variables) if variables >> variable & 1])
        sources, words, code = (), (), ()
        if program is not None:
            sources = tuple([plan.columns[number].column for _, number in program.inputs])
            words = tuple([_constant_key(constant, intern) for constant in program.constants])
            code = program.code
        key = (types, code, sources, words)
        existing = self._by_key.get(key)
        if existing is not None:
            shared = existing
            shared.uses += 1
            return shared
        created = Filter.__new__(Filter)
        created.key, created.program, created.uses = key, program, 1
        if program is not None:
            code_new(&created.screen.program, program, intern)
            find_comparisons(&created.screen.program)
            created.screen.has_program = True
            created.screen.sources = <int32_t*>calloc(len(sources) + 1, sizeof(int32_t))
            if created.screen.sources == NULL:
                raise MemoryError("no memory for the filters")
            for i, source in enumerate(sources):
                created.screen.sources[i] = source
                if source == COLUMN_TYPE:
                    for number, name in enumerate(self._type_names):
                        self.codes[<int>number] = intern(name)
        self._by_key[key] = created
        return created

    def release(self, filters):
        """Release the filters that :meth:`of_plan` returned; filters without users are deleted."""
        cdef Filter item
        for item in filters:
            item.uses -= 1
            if item.uses == 0:
                del self._by_key[item.key]
        self._update_tables()

    cdef int _update_tables(self) except -1:
        """Rebuild the C tables that `run` iterates over."""
        cdef Filter item
        cdef int i
        self._free_tables()
        self._type_sets = list(dict.fromkeys([key[0] for key in self._by_key]))
        self.sets = <TypeEvents*>calloc(len(self._type_sets) + 1, sizeof(TypeEvents))
        self.screens = <Screen**>calloc(len(self._by_key) + 1, sizeof(void*))
        if self.sets == NULL or self.screens == NULL:
            raise MemoryError("no memory for the filters")
        for types in self._type_sets:
            self.n_sets += 1
            type_set_new(&self.sets[self.n_sets - 1].types, types, self.n_types)
        self.reads_number = self.reads_type = False
        for item in self._by_key.values():
            item.screen.types = self._type_sets.index(item.key[0])
            self.screens[self.n_filters] = &item.screen
            self.n_filters += 1
            self.reads_number |= COLUMN_SEQ in item.key[2]
            self.reads_type |= COLUMN_TYPE in item.key[2]
        return 0

    def __len__(self):
        return len(self._by_key)

    @property
    def tasks(self):
        """The programs with their calling convention, for :mod:`fastcep.kernels`."""
        return [(item.program, "column") for item in self._by_key.values() if item.program is not None]

    def use_kernels(self, kernels):
        """Run programs by generated code: ``kernels`` is ``{(program, role): address}``."""
        cdef Filter item
        for item in self._by_key.values():
            address = None if item.program is None else kernels.get((item.program, "column"))
            if address is not None:
                item.screen.program.kernel = <Kernel><size_t>address

    @property
    def nbytes(self):
        """Bytes of the lists of events."""
        cdef int64_t total = 0
        cdef int i
        for i in range(self.n_filters):
            total += self.screens[i].capacity * sizeof(int32_t)
        return total

    def bytes_with(self, int64_t events):
        """Return the bytes of the lists for slices of ``events`` events."""
        cdef int64_t total = 0
        cdef int i
        for i in range(self.n_filters):
            total += max(self.screens[i].capacity, events + 1 if events else 0) * sizeof(int32_t)
        return total

    # ------------------------------------------------------------------ run

    def run(self, Batch batch not None, Py_ssize_t first, Py_ssize_t last):
        """List the events ``first:last`` of a batch that pass each filter; False without memory."""
        return self.look_through(&batch.events, first, last, True)

    cdef bint look_through(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint release):
        """:meth:`run` for C code; ``release``: release the GIL meanwhile."""
        if last >= INT32_MAX or not self._reserve(last - first):
            return False
        if release:
            with nogil:
                self._scan(events, first, last)
        else:
            self._scan(events, first, last)
        return True

    cdef void _scan(self, const Events* events, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        cdef Py_ssize_t base = first
        cdef int m
        while base < last:
            m = <int>min(<Py_ssize_t>CHUNK, last - base)
            self._scan_chunk(events, base, m)
            base += m
        for m in range(self.n_filters):
            self.screens[m].passed.rows[self.screens[m].passed.size] = INT32_MAX

    cdef bint _reserve(self, int64_t events) noexcept:
        cdef int32_t* grown
        cdef int i
        for i in range(self.n_filters):
            self.screens[i].passed.size = 0
            if self.screens[i].capacity < events + 1:
                grown = <int32_t*>realloc(self.screens[i].passed.rows, (events + 1) * sizeof(int32_t))
                if grown == NULL:
                    return False
                self.screens[i].passed.rows = grown
                self.screens[i].capacity = events + 1
        return True

    cdef void _scan_chunk(self, const Events* events, Py_ssize_t base, int m) noexcept nogil:
        cdef int i, k, n, passed
        cdef Screen* screen
        cdef int32_t* to
        cdef uint64_t selected[SET_WORDS]
        cdef int32_t rows[CHUNK]
        cdef uint8_t keep[CHUNK]
        cdef int64_t nulls, errors
        for i in range(self.n_sets):
            fc_of_types(&self.sets[i].types, events.types + base, m, self.sets[i].events)
        if self.reads_number and events.sequence == NULL:
            for k in range(m):
                self.numbers[k] = events.position + base + k
        if self.reads_type:
            for k in range(m):
                self.types[k] = self.codes[events.types[base + k]]
        for i in range(self.n_filters):
            screen = self.screens[i]
            if is_empty(self.sets[screen.types].events, m):
                continue
            memcpy(selected, self.sets[screen.types].events, sizeof(selected))
            if screen.has_program:
                self._set_inputs(screen, events, base)
                compare_events(&screen.program, self.inputs, m, selected)
            n = fc_list(selected, m, rows)
            if n == 0:
                continue
            to = screen.passed.rows + screen.passed.size
            if not screen.has_program or screen.program.only_compares:
                for k in range(n):
                    to[k] = <int32_t>base + rows[k]
                screen.passed.size += n
                continue
            memset(keep, 1, n)
            nulls, errors = self.vm.arithmetic_nulls, self.vm.function_errors
            passed = 0
            if run(self.vm, &screen.program, self.inputs, rows, n, keep, NULL, NULL, 0) > 0:
                for k in range(n):
                    to[passed] = <int32_t>base + rows[k]
                    passed += keep[k] != 0
            screen.passed.size += passed
            screen.arithmetic_nulls += self.vm.arithmetic_nulls - nulls
            screen.function_errors += self.vm.function_errors - errors

    cdef void _set_inputs(self, const Screen* screen, const Events* events, Py_ssize_t base) noexcept nogil:
        """Point the inputs of a program at the columns of the chunk."""
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


def _constant_key(constant, intern):
    """Return a hashable key that distinguishes a constant: the word of a text or function; 1, 1.0 and -0.0 differ."""
    if constant is None or isinstance(constant, (int, float)):
        return type(constant).__name__, repr(constant)
    if hasattr(constant, "values"):
        return "set", repr(constant)
    return "word", intern(constant)

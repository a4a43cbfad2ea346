# cython: language_level=3
"""A plan's tuples as C structs: made once per matcher, owned here, never written by the run except where a comment says so.

(``Column.data``/``null`` and ``ForAll.data``/``null`` point into the current batch and ring.)
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from fastcep._core.predicate cimport CHUNK, Code, Kernel, code_free, code_new

COLUMN_TYPE = -3


cdef int32_t* ints(object values) except NULL:
    """A C copy of a tuple of ints."""
    cdef int32_t* out = <int32_t*>calloc(max(1, len(values)), sizeof(int32_t))
    cdef Py_ssize_t i
    if out == NULL:
        raise MemoryError("no memory for the plan")
    for i, value in enumerate(values):
        out[i] = value
    return out


cdef int _use(Code* code, object program, str role, object kernels) except -1:
    address = kernels.get((program, role))
    if address is not None:
        code.kernel = <Kernel><size_t>address
    return 0


def tasks_of(plan):
    """The programs of ``plan`` and how the matcher calls each, ``[(program, role)]`` (roles: fastcep.kernels)."""
    tasks = [(program, "column") for program in plan.locals] + [(column.program, "column") for column in plan.columns]
    for edge in plan.edges:
        tasks += [(edge.predicate, "predicate"), (edge.outputs, "outputs")]
    tasks += [(forall.program, "predicate") for forall in plan.foralls]
    return [(program, role) for program, role in tasks if program is not None]


cdef class Tables:
    """C form of ``plan`` (``fastcep.plan.Plan``); ``intern`` gives the int64 code of a string."""

    def __cinit__(self, plan, intern):
        cdef Py_ssize_t i
        self.n_types = len(plan.type_members)
        self.n_members = len(plan.states)
        self.n_edges = len(plan.edges)
        self.n_indexes = len(plan.indexes)
        self.n_columns = len(plan.columns)
        self.n_foralls = len(plan.foralls)
        self.type_members = <uint64_t*>calloc(self.n_types, sizeof(uint64_t))
        self.type_codes = <int64_t*>calloc(self.n_types, sizeof(int64_t))
        reads_type = any(c.column == COLUMN_TYPE for c in plan.columns) or COLUMN_TYPE in plan.ring_columns
        for i, name in enumerate(plan.query.schema.type_names):
            self.type_members[i] = plan.type_members[i]
            if reads_type:
                self.type_codes[i] = intern(name)
        self._take_columns(plan, intern)
        self._take_states(plan)
        self._take_edges(plan, intern)
        self._take_foralls(plan, intern)
        self.infos = <IndexInfo*>calloc(max(1, self.n_indexes), sizeof(IndexInfo))
        for i, item in enumerate(plan.indexes):
            self.infos[i].n_keys = len(item.keys)
            self.infos[i].keys = ints(item.keys)
            self.infos[i].guard = item.guard
            self.infos[i].n_forall = len(item.forall)
            self.infos[i].forall = ints(item.forall)
        programs = [p for e in plan.edges for p in (e.predicate, e.outputs)] + [f.program for f in plan.foralls]
        programs += list(plan.locals) + [c.program for c in plan.columns]
        self.n_inputs = max(len(p.inputs) for p in [*programs, None] if p is not None) if any(programs) else 0

    def _take_columns(self, plan, intern):
        cdef Py_ssize_t i
        self.locals = <Code*>calloc(self.n_members, sizeof(Code))
        self.has_local = <uint8_t*>calloc(self.n_members, 1)
        for i, program in enumerate(plan.locals):
            if program is not None:
                code_new(self.locals + i, program, intern)
                self.has_local[i] = 1
        self.columns = <Column*>calloc(max(1, self.n_columns), sizeof(Column))
        for i, column in enumerate(plan.columns):
            self.columns[i].source = column.column
            self.columns[i].members = column.members
            if column.program is not None:
                code_new(&self.columns[i].program, column.program, intern)
            if column.column < 0:
                self.columns[i].values = <int64_t*>calloc(CHUNK, sizeof(int64_t))
                self.columns[i].nulls = <uint8_t*>calloc(CHUNK, 1)

    def _take_foralls(self, plan, intern):
        cdef Py_ssize_t i
        self.foralls = <ForAll*>calloc(max(1, self.n_foralls), sizeof(ForAll))
        for i, forall in enumerate(plan.foralls):
            self.foralls[i].guard = forall.guard
            code_new(&self.foralls[i].program, forall.program, intern)
            self.foralls[i].n_elements = len(forall.elements)
            self.foralls[i].member = ints([e[0] for e in forall.elements])
            self.foralls[i].offset = ints([e[1] for e in forall.elements])
            self.foralls[i].column = ints([e[2] for e in forall.elements])
            self.foralls[i].data = <const int64_t**>calloc(max(1, len(forall.elements)), sizeof(void*))
            self.foralls[i].null = <const uint8_t**>calloc(max(1, len(forall.elements)), sizeof(void*))
            self.foralls[i].values = <int64_t*>calloc(max(1, len(forall.elements)) * CHUNK, sizeof(int64_t))
            self.foralls[i].nulls = <uint8_t*>calloc(max(1, len(forall.elements)) * CHUNK, 1)

    def _take_states(self, plan):
        cdef Py_ssize_t i
        cdef State* state
        self.states = <State*>calloc(self.n_members, sizeof(State))
        self.bound = not plan.states[0].repeated and all(e.target == 0 for e in plan.edges if e.source < 0)
        for i, item in enumerate(plan.states):
            state = self.states + i
            state.repeated = item.repeated
            state.accepting = item.accepting
            state.registers = item.registers
            state.outputs = item.outputs
            state.accept_guard = item.accept_guard
            state.n_indexes = len(item.indexes)
            state.indexes = ints(item.indexes)
            state.n_accept_forall = len(item.accept_forall)
            state.accept_forall = ints(item.accept_forall)
            state.birth = 1 if item.needs_birth else -1
            state.bind = 1 + item.needs_birth
            state.fixed = state.bind + i + 1 - self.bound
            state.columns = item.registers + 1 if item.registers else 0
            self.n_outputs = max(self.n_outputs, item.outputs)

    def _take_edges(self, plan, intern):
        cdef Py_ssize_t i
        cdef Edge* edge
        self.edges = <Edge*>calloc(max(1, self.n_edges), sizeof(Edge))
        for i, item in enumerate(plan.edges):
            edge = self.edges + i
            edge.source = item.source
            edge.target = item.target
            edge.index = item.index
            edge.n_probe = len(item.probe)
            edge.probe = ints(item.probe)
            if item.predicate is not None:
                code_new(&edge.predicate, item.predicate, intern)
                edge.has_predicate = True
            edge.n_copies = len(item.copies)
            edge.copy_output = ints([output for output, _, _ in item.copies])
            edge.copy_from_row = ints([kind == "row" for _, kind, _ in item.copies])
            edge.copy_number = ints([number for _, _, number in item.copies])
            copied = [output for output, _, _ in item.copies]
            computed = [n for n in range(plan.states[item.target].outputs) if n not in copied]
            edge.n_computed = len(computed)
            edge.computed = ints(computed)
            if item.outputs is not None:
                code_new(&edge.outputs, item.outputs, intern)
                edge.has_outputs = True
            edge.n_forall = len(item.forall)
            edge.forall = ints(item.forall)
            if self.states[item.target].end_edge == 0:
                self.states[item.target].first_edge = i
            self.states[item.target].end_edge = i + 1
        single = not any(item.repeated for item in plan.states)
        for i, item in enumerate(plan.states):
            into = [e for e in plan.edges if e.target == i]
            self.states[i].first = all(e.source < 0 for e in into)
            simple = not item.repeated and len(into) == 1 and not into[0].forall
            self.states[i].only_accepts = (
                single and simple and item.accepting and not item.indexes
                and item.accept_guard < 0 and not item.accept_forall)
            self.states[i].only_stores = (
                simple and not item.accepting and len(item.indexes) == 1
                and all(plan.indexes[n].guard < 0 and not plan.indexes[n].forall for n in item.indexes))

    def use_kernels(self, plan, kernels):
        """Point the programs of ``plan`` at generated code: ``{(program, role): address}``, see fastcep.kernels."""
        cdef Py_ssize_t i
        for i, program in enumerate(plan.locals):
            _use(self.locals + i, program, "column", kernels)
        for i, column in enumerate(plan.columns):
            _use(&self.columns[i].program, column.program, "column", kernels)
        for i, edge in enumerate(plan.edges):
            _use(&self.edges[i].predicate, edge.predicate, "predicate", kernels)
            _use(&self.edges[i].outputs, edge.outputs, "outputs", kernels)
        for i, forall in enumerate(plan.foralls):
            _use(&self.foralls[i].program, forall.program, "predicate", kernels)

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_members if self.states != NULL else 0):
            code_free(self.locals + i)
            free(self.states[i].indexes)
            free(self.states[i].accept_forall)
        for i in range(self.n_columns if self.columns != NULL else 0):
            code_free(&self.columns[i].program)
            free(self.columns[i].values)
            free(self.columns[i].nulls)
        for i in range(self.n_edges if self.edges != NULL else 0):
            code_free(&self.edges[i].predicate)
            code_free(&self.edges[i].outputs)
            free(self.edges[i].probe)
            free(self.edges[i].copy_output)
            free(self.edges[i].copy_from_row)
            free(self.edges[i].copy_number)
            free(self.edges[i].computed)
            free(self.edges[i].forall)
        for i in range(self.n_indexes if self.infos != NULL else 0):
            free(self.infos[i].keys)
            free(self.infos[i].forall)
        for i in range(self.n_foralls if self.foralls != NULL else 0):
            code_free(&self.foralls[i].program)
            free(self.foralls[i].member)
            free(self.foralls[i].offset)
            free(self.foralls[i].column)
            free(<void*>self.foralls[i].data)
            free(<void*>self.foralls[i].null)
            free(self.foralls[i].values)
            free(self.foralls[i].nulls)
        free(self.type_members)
        free(self.type_codes)
        free(self.locals)
        free(self.has_local)
        free(self.columns)
        free(self.edges)
        free(self.states)
        free(self.infos)
        free(self.foralls)

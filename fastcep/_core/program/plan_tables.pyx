# cython: language_level=3
"""Convert the tuples of a plan to C structs, once per matcher.
 `Tables` owns the structs. A running matcher changes only ``data`` and ``null`` of ``Column`` and ``ForAll``, which
point into the current batch and the event ring, and the buffers marked as scratch.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from collections import Counter

from fastcep._core.program.code cimport code_free, code_new, find_comparisons
from fastcep._core.program.event_sets cimport selections_free, selections_new
from fastcep._core.program.predicate cimport CHUNK, Code, Kernel
from fastcep._core.program.window_relevance cimport relevance_free, relevance_new

COLUMN_TYPE = -3


cdef int32_t* int_array(object values, int32_t* n = NULL) except NULL:
    """Return a C copy of a tuple of ints; writes its length to ``n``."""
    cdef int32_t* out = <int32_t*>calloc(max(1, len(values)), sizeof(int32_t))
    cdef Py_ssize_t i
    if out == NULL:
        raise MemoryError("no memory for the plan")
    if n != NULL:
        n[0] = len(values)
    for i, value in enumerate(values):
        out[i] = value
    return out


cdef int _set_kernel(Code* code, object program, str role, object kernels) except -1:
    address = kernels.get((program, role))
    if address is not None:
        code.kernel = <Kernel><size_t>address
    return 0


def _tuple_with(tuples, variable):
    """Return the number of the tuple that contains a variable, or -1."""
    for number, variables in enumerate(tuples):
        if variable in variables:
            return number
    return -1


def tasks_of(plan):
    """Return the programs of ``plan`` with their calling convention, ``[(program, role)]`` (roles: fastcep.kernels)."""
    tasks = [(program, "column") for program in plan.locals] + [(column.program, "column") for column in plan.columns]
    for edge in plan.edges:
        tasks += [(edge.predicate, "predicate"), (edge.outputs, "outputs"), (edge.features, "outputs")]
    tasks += [(check.program, "predicate") for check in (*plan.foralls, *plan.absences)]
    tasks += [(step.predicate, "predicate") for step in plan.steps]
    return [(program, role) for program, role in tasks if program is not None]


cdef class Tables:
    """C structs of ``plan`` (a ``fastcep.plan.Plan``); ``intern`` returns the int64 code of a string."""

    def __cinit__(self, plan, intern):
        cdef Py_ssize_t i
        self.n_types = len(plan.type_variables)
        self.n_variables = len(plan.negated)
        self.n_groups = len(plan.groups)
        self.n_slots = self.n_variables + self.n_groups
        self.n_states = len(plan.states)
        self.n_negations = len(plan.negations)
        self.n_absences = len(plan.absences)
        self.n_sets = len(plan.sets)
        self.n_edges = len(plan.edges)
        self.n_indexes = len(plan.indexes)
        self.n_columns = len(plan.columns)
        self.n_foralls = len(plan.foralls)
        self.type_variables = <uint64_t*>calloc(self.n_types, sizeof(uint64_t))
        self.type_codes = <int64_t*>calloc(self.n_types, sizeof(int64_t))
        reads_type = any(c.column == COLUMN_TYPE for c in plan.columns) or COLUMN_TYPE in plan.ring_columns
        for i, name in enumerate(plan.query.schema.type_names):
            self.type_variables[i] = plan.type_variables[i]
            if reads_type:
                self.type_codes[i] = intern(name)
        self._build_columns(plan, intern)
        self._build_variables(plan)
        self._build_states(plan)
        self._build_edges(plan, intern)
        self._build_foralls(plan, intern)
        self._build_negations(plan, intern)
        self._build_steps(plan, intern)
        self.infos = <IndexInfo*>calloc(max(1, self.n_indexes), sizeof(IndexInfo))
        for i, item in enumerate(plan.indexes):
            self.infos[i].state = item.state
            self.infos[i].keys = int_array(item.keys, &self.infos[i].n_keys)
            self.infos[i].guard = item.guard
            self.infos[i].latest = item.latest
            self.infos[i].partition = int_array(item.partition)
            self.infos[i].forall = int_array(item.forall, &self.infos[i].n_forall)
        self._build_partition(plan.partition)
        relevance_new(&self.relevance, plan)
        self.n_inputs = max([len(program.inputs) for program, _ in tasks_of(plan)], default=0)

    def _build_columns(self, plan, intern):
        cdef Py_ssize_t i
        self.locals = <Code*>calloc(self.n_variables, sizeof(Code))
        self.local_variables = <uint64_t*>calloc(self.n_variables, sizeof(uint64_t))
        first_uses = {}
        for i, program in enumerate(plan.locals):
            if program is not None:
                code_new(self.locals + i, program, intern)
                find_comparisons(self.locals + i)
                # ``repr`` distinguishes 0.0 from -0.0
                first_use = first_uses.setdefault((program, repr(program.constants)), i)
                self.local_variables[<int>first_use] |= <uint64_t>1 << i
        self.local_all = <uint8_t*>calloc(self.n_variables, 1)
        for i in range(self.n_variables):
            self.local_all[i] = all(bits == 0 or bits & self.local_variables[i] for bits in plan.type_variables)
        selections_new(&self.selections, plan.type_variables, self.locals, self.local_variables, self.n_variables)
        self.columns = <Column*>calloc(max(1, self.n_columns), sizeof(Column))
        for i, column in enumerate(plan.columns):
            self.columns[i].source = column.column
            self.columns[i].variables = column.variables
            if column.program is not None:
                code_new(&self.columns[i].program, column.program, intern)
            if column.column < 0:
                self.columns[i].values = <int64_t*>calloc(CHUNK, sizeof(int64_t))
                self.columns[i].nulls = <uint8_t*>calloc(CHUNK, 1)

    def _build_partition(self, item):
        if item is None:
            return
        no_columns = (-1,) * len(item.floats)
        self.partition = int_array([column for columns in item.columns for column in columns or no_columns])
        self.partition_floats = <uint8_t*>calloc(len(item.floats), 1)
        for i, is_float in enumerate(item.floats):
            self.partition_floats[<int>i] = is_float

    def _build_foralls(self, plan, intern):
        cdef Py_ssize_t i
        self.foralls = <ForAll*>calloc(max(1, self.n_foralls), sizeof(ForAll))
        for i, forall in enumerate(plan.foralls):
            self.foralls[i].guard = forall.guard
            self.foralls[i].earlier = forall.earlier
            code_new(&self.foralls[i].program, forall.program, intern)
            self.foralls[i].n_elements = len(forall.elements)
            self.foralls[i].variable = int_array([e[0] for e in forall.elements])
            self.foralls[i].offset = int_array([e[1] for e in forall.elements])
            self.foralls[i].column = int_array([e[2] for e in forall.elements])
            self.foralls[i].data = <const int64_t**>calloc(max(1, len(forall.elements)), sizeof(void*))
            self.foralls[i].null = <const uint8_t**>calloc(max(1, len(forall.elements)), sizeof(void*))
            self.foralls[i].values = <int64_t*>calloc(max(1, len(forall.elements)) * CHUNK, sizeof(int64_t))
            self.foralls[i].nulls = <uint8_t*>calloc(max(1, len(forall.elements)) * CHUNK, 1)

    def _build_variables(self, plan):
        cdef Py_ssize_t i
        cdef Variable* variable
        self.variables = <Variable*>calloc(self.n_variables, sizeof(Variable))
        for i in range(self.n_variables):
            variable = self.variables + i
            variable.negated = plan.negated[i]
            variable.repeated = plan.repeated[i]
            variable.group = _tuple_with(plan.groups, i)
            variable.slot = i if variable.group < 0 else self.n_variables + variable.group
            number = _tuple_with(plan.sets, i)
            variable.set = -1 if number < 0 else plan.sets[number][0]
            variable.partition = self._columns(plan.per_partition[i]) if plan.per_partition else NULL
        for i, item in enumerate(plan.edges):  # the edges of a variable are adjacent
            variable = self.variables + <int>item.variable
            if variable.end_edge == 0:
                variable.first_edge = i
            variable.end_edge = i + 1
        starts = [edge.variable for edge in plan.edges if edge.source < 0] or [0]
        variable = self.variables + <int>starts[0]
        self.implied = starts[0] if len(set(starts)) == 1 and variable.group < 0 and not variable.repeated else -1

    def _build_states(self, plan):
        # If partial matches that time out are an output, every row stores its birth and whether it was a match.
        cdef bint births = plan.timed_out
        cdef Py_ssize_t i
        cdef State* state
        self.states = <State*>calloc(self.n_states, sizeof(State))
        for i, item in enumerate(plan.states):
            state = self.states + i
            state.accepting = item.accepting
            state.deferred = item.deferred
            state.due = item.due
            state.first = not (plan.removes or births)
            state.registers = item.registers
            state.outputs = item.outputs
            state.accept_guard = item.accept_guard
            state.indexes = int_array(item.indexes, &state.n_indexes)
            state.accept_forall = int_array(item.accept_forall, &state.n_accept_forall)
            state.accept_absent = int_array(item.accept_absences, &state.n_accept_absent)
            state.at_end = int_array(item.at_end, &state.n_at_end)
            state.partition = int_array(item.partition)
            slots = self._slots(item)
            state.slots = int_array(slots, &state.n_bind)
            state.has = <uint8_t*>calloc(self.n_slots, 1)
            for slot in item.bindings:
                state.has[<int>slot] = True
            state.birth = 1 if item.needs_birth or births else -1
            state.match_flag = 2 if births else -1
            state.bind = 3 if births else 1 + item.needs_birth
            state.n_features = len(item.features)
            has_class = bool(item.features or ((plan.weighed or plan.observed) and item.indexes))
            state.class_word = state.bind + state.n_bind if has_class else -1
            state.fixed = state.bind + state.n_bind + has_class
            state.columns = item.registers + 1 if item.registers else 0
            self.n_outputs = max(self.n_outputs, item.outputs)

    def _slots(self, state):
        """Return the slots for which the rows of a state have a word."""
        return [slot for slot in state.bindings if slot != self.implied]

    def _build_edges(self, plan, intern):
        cdef Py_ssize_t i, j
        cdef Edge* edge
        cdef Variable* variable
        self.edges = <Edge*>calloc(max(1, self.n_edges), sizeof(Edge))
        for i, item in enumerate(plan.edges):
            edge = self.edges + i
            variable = self.variables + <int>item.variable
            edge.source = item.source
            edge.target = item.target
            edge.variable = item.variable
            if edge.source >= 0:
                self.states[edge.target].first = False
            edge.index = item.index
            edge.slot = variable.slot
            edge.chained = variable.repeated
            edge.keeps = item.keeps
            if variable.group >= 0:
                edge.mark = <int64_t>item.variable << VARIABLE_AT | <int64_t>bool(item.round) << ROUND_AT
            self._build_bindings(plan, edge, item)
            edge.n_probe = len(item.probe)
            edge.probe = self._columns(item.probe)
            if item.predicate is not None:
                code_new(&edge.predicate, item.predicate, intern)
                edge.has_predicate = True
            edge.n_copies = len(item.copies)
            edge.copy_output = int_array([output for output, _, _ in item.copies])
            edge.copy_from_row = int_array([kind == "row" for _, kind, _ in item.copies])
            edge.copy_number = int_array([number for _, _, number in item.copies])
            edge.copy_column = self._columns([number if kind == "event" else -1 for _, kind, number in item.copies])
            copied = [output for output, _, _ in item.copies]
            computed = [n for n in range(plan.states[item.target].outputs) if n not in copied]
            edge.computed = int_array(computed, &edge.n_computed)
            if item.outputs is not None:
                code_new(&edge.outputs, item.outputs, intern)
                edge.has_outputs = True
            edge.born = bool(plan.states[item.target].indexes)
            if item.features is not None:
                code_new(&edge.features, item.features, intern)
                edge.has_features = True
            edge.forall = int_array(item.forall, &edge.n_forall)
            edge.absent = int_array(item.absences, &edge.n_absent)
        self._find_fast_paths(plan)

    cdef const Column** _columns(self, numbers) except NULL:
        """Return pointers to event columns; NULL for a negative number."""
        cdef const Column** pointers = <const Column**>calloc(max(1, len(numbers)), sizeof(void*))
        cdef Py_ssize_t i
        if pointers == NULL:
            raise MemoryError("no memory for a query")
        for i, number in enumerate(numbers):
            pointers[i] = NULL if number < 0 else self.columns + <int>number
        return pointers

    cdef int _build_bindings(self, plan, Edge* edge, item) except -1:
        """Set the sources of the bindings of new rows."""
        cdef int i
        source_words, by_binding, by_variable = {}, [], []
        if item.source >= 0:
            for i, slot in enumerate(self._slots(plan.states[item.source])):
                source_words[slot] = self.states[edge.source].bind + i
        for slot in self._slots(plan.states[item.target]):
            by_binding.append(source_words.get(slot, THIS if slot == edge.slot else ABSENT))
        for i in range(self.n_variables):
            if self.variables[i].slot == self.implied:
                by_variable.append(FIRST)
            else:
                by_variable.append(THIS if i == item.variable else source_words.get(self.variables[i].slot, ABSENT))
        edge.bind_from = int_array(by_binding)
        edge.variable_from = int_array(by_variable)
        return 0

    def _find_fast_paths(self, plan):
        """Mark the edges whose children need not be staged (``only_accepts``, ``only_stores``)."""
        cdef Py_ssize_t i
        plain = not plan.sets
        variables = Counter(item.variable for item in plan.edges)
        targets = Counter(item.target for item in plan.edges)
        for i in range(self.n_variables):
            plain = plain and not self.variables[i].repeated
        for i, item in enumerate(plan.edges):
            target = plan.states[item.target]
            simple = (
                not self.edges[i].chained and not item.forall and not item.absences
                and variables[item.variable] == targets[item.target] == 1)
            self.edges[i].only_accepts = (
                plain and simple and not plan.must_advance and target.accepting and not target.indexes and not target.deferred
                and target.accept_guard < 0 and not target.accept_forall and not target.accept_absences)
            self.edges[i].only_stores = (
                simple and not plan.must_advance and not plan.longest and not target.accepting and len(target.indexes) == 1
                and plan.indexes[target.indexes[0]].guard < 0 and not plan.indexes[target.indexes[0]].forall)
            if item.source < 0 and self.edges[i].only_stores and item.outputs is None:
                columns = {output: number for output, _, number in item.copies}
                self.edges[i].start_key = self._columns([columns[o] for o in plan.indexes[target.indexes[0]].keys])

    def _build_negations(self, plan, intern):
        cdef Py_ssize_t i
        cdef Absence* absence
        self.negations = <Negation*>calloc(max(1, self.n_negations), sizeof(Negation))
        for i, item in enumerate(plan.negations):
            self.negations[i].variable = item.variable
            self.negations[i].n_keys = len(item.keys)
            self.negations[i].keys = self._columns(item.keys)
            self.negations[i].n_registers = len(item.registers)
            self.negations[i].registers = self._columns(item.registers)
            self.negations[i].by_time = item.by_time
        self.absences = <Absence*>calloc(max(1, self.n_absences), sizeof(Absence))
        for i, item in enumerate(plan.absences):
            absence = self.absences + i
            absence.negation = item.negation
            absence.group = -1 if item.group < 0 else item.group - self.n_variables
            absence.latest = item.latest
            absence.until = item.until
            absence.guard = item.guard
            absence.before = int_array(item.before, &absence.n_before)
            absence.after = int_array(item.after, &absence.n_after)
            absence.keys = int_array(item.keys)
            if item.program is not None:
                code_new(&absence.program, item.program, intern)
                absence.has_program = True
            absence.forall = int_array(item.forall, &absence.n_forall)

    def _build_steps(self, plan, intern):
        cdef Py_ssize_t i, j
        cdef Step* step
        cdef Term* term
        kinds = {"event": 0, "row": 1, "out": 2, "const": 3}
        self.n_kept, self.n_steps = len(plan.kept), len(plan.steps)
        self.kept = <Kept*>calloc(max(1, self.n_kept), sizeof(Kept))
        self.steps = <Step*>calloc(max(1, self.n_steps), sizeof(Step))
        self.first_kept = int_array([sum(item.variable < i for item in plan.kept) for i in range(self.n_variables + 1)])
        for i, item in enumerate(plan.kept):
            self.kept[i].n_keys = len(item.keys)
            self.kept[i].keys = self._columns(item.keys)
            self.kept[i].n_registers = len(item.registers)
            self.kept[i].registers = self._columns(item.registers)
            self.kept[i].held_register = int_array([register for register, _ in item.held], &self.kept[i].n_held)
            self.kept[i].held_place = int_array([place for _, place in item.held])
            self.kept[i].predecessor = -1
            if item.predecessor is not None:
                store, keys = item.predecessor
                self.kept[i].counts = item.counts
                self.kept[i].predecessor, self.kept[i].predecessor_kept = item.n_columns, store
                self.kept[i].n_predecessor_keys, self.kept[i].predecessor_keys = len(keys), self._columns(keys)
            self.n_held += len(item.held)
        for i, item in enumerate(plan.steps):
            step = self.steps + i
            step.variable, step.kept, step.same = item.variable, item.kept, item.same
            words = [list(word) for word in item.words]
            step.compares = len(words) > len(plan.kept[item.kept].keys)
            if step.compares:
                self.kept[<int>item.kept].compares = True
                compared = next(operand for operand in words[len(words) - 1] if operand.kind == "row")
                words[len(words) - 1].remove(compared)
                step.compared, step.sign = compared.number, compared.sign
            hashed_words = words[: len(plan.kept[item.kept].keys)]
            hashed = [operand for word in hashed_words for operand in word]
            step.is_of_event = all(operand.kind in ("event", "const") for operand in hashed)
            step.n_columns = -1
            if all(len(word) == 1 and word[0].kind == "event" and word[0].sign > 0 for word in hashed_words):
                step.columns = self._columns([operand.number for operand in hashed])
                step.n_columns = len(hashed)
            step.n_terms = int_array([len(word) for word in words], &step.n_words)
            operands = [operand for word in words for operand in word]
            step.terms = <Term*>calloc(max(1, len(operands)), sizeof(Term))
            if step.terms == NULL:
                raise MemoryError("no memory for the plan")
            for j, (kind, number, sign) in enumerate(operands):
                term = step.terms + j
                term.kind, term.sign = kinds[kind], sign
                if kind == "const":
                    term.value = number
                else:
                    term.number = number
                if kind == "event":
                    term.column = self.columns + <int>number
            if item.predicate is not None:
                code_new(&step.predicate, item.predicate, intern)
                step.has_predicate = True
        join_sources = [item.source for item in plan.steps if item.joins]
        for i, item in enumerate(plan.steps):
            self.steps[i].joins = item.variable in join_sources

    def use_kernels(self, plan, kernels):
        """Run the programs of ``plan`` by generated code: ``{(program, role): address}``, see fastcep.kernels."""
        cdef Py_ssize_t i
        for i, program in enumerate(plan.locals):
            _set_kernel(self.locals + i, program, "column", kernels)
        for i, column in enumerate(plan.columns):
            _set_kernel(&self.columns[i].program, column.program, "column", kernels)
        for i, edge in enumerate(plan.edges):
            _set_kernel(&self.edges[i].predicate, edge.predicate, "predicate", kernels)
            _set_kernel(&self.edges[i].outputs, edge.outputs, "outputs", kernels)
            _set_kernel(&self.edges[i].features, edge.features, "outputs", kernels)
        for i, forall in enumerate(plan.foralls):
            _set_kernel(&self.foralls[i].program, forall.program, "predicate", kernels)
        for i, step in enumerate(plan.steps):
            _set_kernel(&self.steps[i].predicate, step.predicate, "predicate", kernels)
        for i, absence in enumerate(plan.absences):
            _set_kernel(&self.absences[i].program, absence.program, "predicate", kernels)

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_variables if self.locals != NULL else 0):
            code_free(self.locals + i)
        selections_free(&self.selections)
        for i in range(self.n_states if self.states != NULL else 0):
            free(self.states[i].indexes)
            free(self.states[i].accept_forall)
            free(self.states[i].accept_absent)
            free(self.states[i].at_end)
            free(self.states[i].partition)
            free(self.states[i].slots)
            free(self.states[i].has)
        for i in range(self.n_negations if self.negations != NULL else 0):
            free(self.negations[i].keys)
            free(self.negations[i].registers)
        for i in range(self.n_kept if self.kept != NULL else 0):
            free(self.kept[i].keys)
            free(self.kept[i].predecessor_keys)
            free(self.kept[i].registers)
            free(self.kept[i].held_register)
            free(self.kept[i].held_place)
        for i in range(self.n_steps if self.steps != NULL else 0):
            code_free(&self.steps[i].predicate)
            free(self.steps[i].n_terms)
            free(self.steps[i].terms)
            free(self.steps[i].columns)
        free(self.kept)
        free(self.steps)
        free(self.first_kept)
        for i in range(self.n_absences if self.absences != NULL else 0):
            code_free(&self.absences[i].program)
            free(self.absences[i].before)
            free(self.absences[i].after)
            free(self.absences[i].keys)
            free(self.absences[i].forall)
        for i in range(self.n_columns if self.columns != NULL else 0):
            code_free(&self.columns[i].program)
            free(self.columns[i].values)
            free(self.columns[i].nulls)
        for i in range(self.n_edges if self.edges != NULL else 0):
            code_free(&self.edges[i].predicate)
            code_free(&self.edges[i].outputs)
            code_free(&self.edges[i].features)
            free(self.edges[i].probe)
            free(self.edges[i].copy_output)
            free(self.edges[i].copy_from_row)
            free(self.edges[i].copy_number)
            free(self.edges[i].copy_column)
            free(self.edges[i].start_key)
            free(self.edges[i].computed)
            free(self.edges[i].forall)
            free(self.edges[i].absent)
            free(self.edges[i].bind_from)
            free(self.edges[i].variable_from)
        for i in range(self.n_indexes if self.infos != NULL else 0):
            free(self.infos[i].keys)
            free(self.infos[i].partition)
            free(self.infos[i].forall)
        for i in range(self.n_foralls if self.foralls != NULL else 0):
            code_free(&self.foralls[i].program)
            free(self.foralls[i].variable)
            free(self.foralls[i].offset)
            free(self.foralls[i].column)
            free(<void*>self.foralls[i].data)
            free(<void*>self.foralls[i].null)
            free(self.foralls[i].values)
            free(self.foralls[i].nulls)
        free(self.type_variables)
        free(self.type_codes)
        free(self.partition)
        free(self.partition_floats)
        free(self.locals)
        free(self.local_variables)
        free(self.local_all)
        free(self.columns)
        free(self.edges)
        free(self.states)
        free(self.infos)
        free(self.foralls)
        for i in range(self.n_variables if self.variables != NULL else 0):
            free(<void*>self.variables[i].partition)
        free(self.variables)
        free(self.negations)
        free(self.absences)
        relevance_free(&self.relevance)

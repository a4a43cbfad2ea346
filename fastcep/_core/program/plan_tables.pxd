# A plan as C structs, which are read-only while matchers run. See plan_tables.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.program.event_sets cimport Selections
from fastcep._core.program.predicate cimport Code
from fastcep._core.program.window_relevance cimport WindowRelevance


cdef struct Column:         # an event column: the values of one chunk
    int32_t source          # column of the schema, or a built-in column as in batch.pxd
    uint64_t variables      # bit set of the variables that read it
    Code program            # computes the column, if source is COLUMN_COMPUTED
    int64_t* values         # buffer [CHUNK] for a column that is not a view of the batch
    uint8_t* nulls          # buffer [CHUNK] for its null flags
    const int64_t* data     # values of the current chunk
    const uint8_t* null     # null flags of the current chunk, or NULL


cdef enum:              # bits of the word of a chain node; the position is below VARIABLE_AT
    VARIABLE_AT = 48        # number of the variable
    ROUND_AT = 56           # 1: the event begins a round of the group


cdef enum:
    HOME = 1 << 8           # mark in a class word: this index is the first one that has the row


cdef enum:                  # source of a binding of a new row, if it is not a word of the old row
    ABSENT = -1
    THIS = -2               # the event, or the chain node made for it
    FIRST = -3              # the event of the start of the row


cdef struct Variable:       # a variable of the pattern
    bint negated
    bint repeated           # may bind several events; its output is a list
    int32_t group           # number of its group, or -1
    int32_t slot            # number of its binding; the variables of a group share one
    int32_t set             # first variable of its ANY, if the ANY may bind the same events in several ways; or -1
    int32_t first_edge      # edges [first_edge, end_edge) bind it
    int32_t end_edge
    const Column** partition  # key words of the partition of its event, or NULL


cdef struct Edge:
    int32_t source
    int32_t target
    int32_t variable         # that it binds
    int32_t index            # the index that it probes
    int32_t n_probe
    const Column** probe    # key words for the probe
    int32_t slot            # the binding that it changes
    bint keeps              # with must_advance: the old row stays as well
    bint chained            # binds a chain node; the word of the node is position | mark
    int64_t mark
    int32_t* bind_from      # per binding of the target's rows: word of the old row, ABSENT or THIS
    int32_t* variable_from  # per variable: word of the old row, ABSENT, THIS or FIRST
    bint only_accepts       # fast path: every child is a match and is not stored; the only edge of its variable
    bint only_stores        # fast path: every child goes to one index; the only edge of its variable
    const Column** start_key    # only_stores, from START, all outputs are columns: the key words of the row; or NULL
    bint has_predicate
    bint has_outputs
    bint has_features
    bint born                # children are partial matches, which the shedder may refuse
    Code predicate
    Code features            # computes the features by which children are classified
    int32_t n_copies         # outputs that are copies of a register of the row or of an event column
    int32_t* copy_output
    int32_t* copy_from_row   # 1: register, 0: event column
    int32_t* copy_number
    const Column** copy_column   # the event column, or NULL
    Code outputs             # computes the other outputs, whose numbers are in ``computed``
    int32_t n_computed
    int32_t* computed
    int32_t n_forall
    int32_t* forall
    int32_t n_absent
    int32_t* absent


cdef struct State:
    bint accepting
    bint deferred            # a match waits for the end of its window,
    int32_t due              # or for the time in this output, if it is not -1
    bint first               # only edges from START lead here, so the rows of a bucket expire in order
    int32_t registers        # number of registers, which are the first outputs
    int32_t outputs          # number of outputs
    int32_t accept_guard     # output that must be true for a match; -1: none
    int32_t n_indexes
    int32_t* indexes
    int32_t n_accept_forall
    int32_t* accept_forall
    int32_t n_accept_absent
    int32_t* accept_absent
    int32_t n_at_end
    int32_t* at_end
    int32_t* partition       # deferred: the outputs that are the key words of its partition
    int32_t fixed            # fixed words of a row: start, birth (optional), match flag (optional), bindings, class (optional)
    int32_t birth            # word of the birth, or -1
    int32_t match_flag       # word that is 1 if the partial match has been a match already, or -1
    int32_t bind             # word of the first binding
    int32_t n_bind           # bindings with a word; the binding that the start implies has none
    int32_t* slots           # slots of these bindings
    int32_t n_features       # features by which rows are classified
    int32_t class_word       # word of the class, or -1
    uint8_t* has             # per slot: 1 if the rows bind it
    int32_t columns          # columns of a row: null bits of the registers and the registers; 0 without registers


cdef struct IndexInfo:
    int32_t latest           # key word that must be the position of the last event (of the partition), or -1
    int32_t* partition       # which key words are those of the partition
    int32_t state
    int32_t n_keys
    int32_t* keys            # outputs that are the key words
    int32_t guard            # output that must be true for a row of the index; -1: none
    int32_t n_forall
    int32_t* forall


cdef struct ForAll:
    int32_t guard
    bint earlier             # for all elements except the last
    Code program
    int32_t n_elements
    int32_t* variable
    int32_t* offset
    int32_t* column          # column of the schema or built-in column
    const int64_t** data     # per element: the event ring of its column
    const uint8_t** null
    int64_t* values          # scratch: elements of one chunk, [n_elements][CHUNK]
    uint8_t* nulls
    uint8_t one_null[64]     # scratch: null flags of the registers of the event of a negated variable


cdef struct Negation:       # a negated variable; its events are in an index after those of the states
    int32_t variable
    int32_t n_keys
    const Column** keys
    int32_t n_registers
    const Column** registers
    bint by_time             # events are kept for the length of the window


cdef struct Absence:        # a check that no event of a negated variable lies between ``before`` and ``after``
    int32_t negation
    int32_t group            # the check is made for each round of this group; -1: no group
    bint latest              # with a group: only for the latest round
    bint until               # UNTIL: no event before the last event of ``after``, checked at each
    int32_t guard            # output; the check is made if it is true; -1: always
    int32_t n_before
    int32_t* before          # variables
    int32_t n_after
    int32_t* after           # variables
    int32_t* keys            # outputs that are the key words
    bint has_program
    Code program
    int32_t n_forall
    int32_t* forall


cdef struct Kept:           # events of a variable that the factorised store keeps
    int32_t n_keys
    const Column** keys
    int32_t n_registers
    const Column** registers
    bint compares            # a join compares the first register; an event for which it is null is not kept
    int32_t n_held           # registers that are copied to ``Core.held`` when the event is chosen
    int32_t* held_register
    int32_t* held_place      # their positions in ``Core.held``
    int32_t predecessor      # column with what precedes an event, see factorised/chunk.pyx; -1: there is none. INT64_MAX in it:
                             # unknown, because the event comes from a snapshot
    bint counts              # its value is a number of rows, not a position
    int32_t predecessor_kept  # the store of the variable before,
    int32_t n_predecessor_keys
    const Column** predecessor_keys  # and the key in it


cdef struct Term:           # an operand of a key word, which is a sum
    int32_t kind             # see kept_events.pxd
    int32_t number
    int32_t sign             # 1 or -1
    const Column* column
    int64_t value


cdef struct Step:           # from a chosen event to an earlier event of another variable
    int32_t variable
    int32_t kept             # the store that is searched
    int32_t n_words
    int32_t* n_terms         # per key word
    Term* terms              # terms of all words
    bint same                # see StepPlan
    bint is_of_event         # the key in the store depends on the last event alone,
    int32_t n_columns        # and has these columns; -1: it is more than columns
    const Column** columns
    bint joins               # the step before it is to the first variable and handles many rows at once; see join.pyx
    bint compares            # the last word is not a key word of the store; it is compared with its first register
    int32_t compared         # register of the source's rows that is one more operand of the last word,
    int32_t sign             # and its sign: 1 or -1
    bint has_predicate
    Code predicate


cdef class Tables:
    cdef int n_types, n_variables, n_slots, n_states, n_edges, n_indexes, n_columns, n_foralls, n_outputs, n_inputs
    cdef int n_groups, n_negations, n_absences, n_sets
    cdef int implied              # slot that every match binds first, to one event, the event of the start; or -1
    cdef int n_kept, n_steps, n_held
    cdef Kept* kept
    cdef Step* steps
    cdef int32_t* first_kept      # [n_variables + 1] per variable: its stores begin here
    cdef Variable* variables
    cdef Negation* negations
    cdef Absence* absences

    cdef int _build_bindings(self, plan, Edge* edge, item) except -1
    cdef const Column** _columns(self, numbers) except NULL
    cdef uint64_t* type_variables  # per type id: bit set of the variables that may bind its events
    cdef int64_t* type_codes      # per type id: string code of its name
    cdef Code* locals             # per variable: the conditions on its event alone
    cdef uint8_t* local_all       # per program: 1 if some variable that may bind an event uses it, for every such event
    cdef uint64_t* local_variables  # per program: bit set of the variables that use it; 0 for a copy of an earlier one
    cdef Selections selections
    cdef int32_t* partition       # per type id and attribute: its column, or -1
    cdef uint8_t* partition_floats  # per attribute: 1 for float64
    cdef Column* columns
    cdef Edge* edges
    cdef State* states
    cdef IndexInfo* infos
    cdef ForAll* foralls
    cdef WindowRelevance relevance

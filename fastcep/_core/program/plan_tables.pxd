# A plan as C structs, read-only while matchers run. See plan_tables.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.program.predicate cimport Code
from fastcep._core.program.window_relevance cimport WindowRelevance


cdef struct Column:         # an event column: where a chunk's values are
    int32_t source
    uint64_t members
    Code program
    int64_t* values         # own buffer [CHUNK], unless it is a view of the batch
    uint8_t* nulls
    const int64_t* data     # current chunk
    const uint8_t* null     # or NULL


cdef enum:              # a chain node's word: position, member << MEMBER_AT, and whether a round of the group begins
    MEMBER_AT = 48
    ROUND_AT = 56


cdef enum:
    HOME = 1 << 8           # beside a class


cdef enum:                  # where a binding of a new row comes from, if not from a word of the old row
    ABSENT = -1
    THIS = -2               # the event, or the node made for it
    FIRST = -3              # the event of the row's start


cdef struct Leaf:           # a variable
    bint negated
    bint repeated           # its output is a list
    int32_t group           # number of its group, or -1
    int32_t slot            # its binding's; members of a group share one
    int32_t set             # the ANY that may bind the same events in several ways, by its first member; or -1
    int32_t first_edge      # edges that bind it
    int32_t end_edge
    const Column** partition  # the words of its event's partition


cdef struct Edge:
    int32_t source
    int32_t target
    int32_t member           # the variable that it binds
    int32_t index
    int32_t n_probe
    const Column** probe    # the words of the key under which its index is searched
    int32_t slot            # the binding that it changes
    bint keeps              # a run that must advance stays as well
    bint chained            # by a node, which has the mark beside the position
    int64_t mark
    int32_t* bind_from      # per binding of the target's rows: word of the old row, ABSENT or THIS
    int32_t* leaf_from      # per variable: the same, or FIRST
    bint only_accepts       # children are matches and nothing else, without a condition; the member's only edge
    bint only_stores        # children go to one index, without a condition; the member's only edge
    const Column** start_key    # of the row of a start that is only stored, whose outputs are all columns; or NULL
    bint has_predicate
    bint has_outputs
    bint has_features
    bint born                # children are partial matches, whose birth may be refused
    Code predicate
    Code features            # computes the values by which children are classified
    int32_t n_copies         # outputs that are a register of the row or a column of the event
    int32_t* copy_output
    int32_t* copy_from_row   # 1 register, 0 event column
    int32_t* copy_number
    const Column** copy_column   # the event column, or NULL
    Code outputs             # computes the other outputs:
    int32_t n_computed
    int32_t* computed
    int32_t n_forall
    int32_t* forall
    int32_t n_absent
    int32_t* absent


cdef struct State:
    bint accepting
    bint deferred            # a match waits for the end of its window
    bint first               # rows only begin here, so that in a bucket they expire in order
    int32_t registers
    int32_t outputs
    int32_t accept_guard
    int32_t n_indexes
    int32_t* indexes
    int32_t n_accept_forall
    int32_t* accept_forall
    int32_t n_accept_absent
    int32_t* accept_absent
    int32_t n_at_end
    int32_t* at_end
    int32_t* partition       # deferred: the outputs that are the words of its partition
    int32_t fixed            # the row's fixed words: start, birth and told (if there), bindings, class (if there)
    int32_t birth            # its place, or -1
    int32_t told             # that of whether it was a match already, or -1
    int32_t bind             # the place of the first binding
    int32_t n_bind           # bindings, but that which its start tells
    int32_t* slots           # of the bindings
    int32_t n_features       # values by which rows are classified
    int32_t classed          # the place of the class, or -1; with the mark HOME in the first index that has the row
    uint8_t* has             # per slot: whether the rows bind it
    int32_t columns          # the row's columns: null bits of the registers and the registers, if there are any


cdef struct IndexInfo:
    int32_t latest           # the key word that must be the position of the last event (of the partition), or -1
    int32_t* partition       # the key words of the partition
    int32_t state
    int32_t n_keys
    int32_t* keys            # outputs
    int32_t guard
    int32_t n_forall
    int32_t* forall


cdef struct ForAll:
    int32_t guard
    bint earlier             # for all elements but the last
    Code program
    int32_t n_elements
    int32_t* member
    int32_t* offset
    int32_t* column          # physical column or built-in
    const int64_t** data     # ring buffers
    const uint8_t** null
    int64_t* values          # scratch: elements of one chunk, [n_elements][CHUNK]
    uint8_t* nulls
    uint8_t one_null[64]     # scratch: null flags of the registers of a negated variable's event


cdef struct Negation:       # events of a negated variable, in the index after those of the states
    int32_t member
    int32_t n_keys
    const Column** keys
    int32_t n_registers
    const Column** registers
    bint by_time             # kept for the window's length


cdef struct Absence:        # a check that there is none
    int32_t negation
    int32_t group
    bint latest              # in a group: for the latest round only
    int32_t guard            # output; the check is made if it is true; -1 = always
    int32_t n_before
    int32_t* before          # members
    int32_t n_after
    int32_t* after
    int32_t* keys            # outputs
    bint has_program
    Code program
    int32_t n_forall
    int32_t* forall


cdef struct Kept:           # events of a variable that the factorised store keeps
    int32_t n_keys
    const Column** keys
    int32_t n_registers
    const Column** registers
    bint compares            # a join compares the first register, so that it must not be null
    int32_t n_held           # registers that stay at hand when the event is chosen, and their places
    int32_t* held_register
    int32_t* held_place


cdef struct Term:           # an operand of a word of a key
    int32_t kind
    int32_t number
    int32_t sign
    const Column* column
    int64_t value


cdef struct Step:           # from an event that is chosen to one of another variable before it
    int32_t member
    int32_t kept             # where it is looked for
    int32_t n_words
    int32_t* n_terms
    Term* terms              # of all words
    bint same                # see StepPlan
    bint joins               # the first variable is before it, and found for many at once: see join.pyx
    bint compares            # the last word is no part of the store's key but compared with its first register:
    int32_t compared         # a register of the source's rows, which is not among its terms,
    int32_t sign             # added to these or taken from them
    bint has_predicate
    Code predicate


cdef class Tables:
    cdef int n_types, n_members, n_slots, n_states, n_edges, n_indexes, n_columns, n_foralls, n_outputs, n_inputs
    cdef int n_groups, n_negations, n_absences, n_sets
    cdef int implied              # the slot that every match binds first, to one event: its start tells it; or -1
    cdef int n_kept, n_steps, n_held
    cdef Kept* kept
    cdef Step* steps
    cdef int32_t* first_kept      # per member the first of its stores; one more
    cdef Leaf* leaves
    cdef Negation* negations
    cdef Absence* absences

    cdef int _take_bindings(self, plan, Edge* edge, item) except -1
    cdef const Column** _columns(self, numbers) except NULL
    cdef uint64_t* type_members   # per type id: members that may bind it
    cdef int64_t* type_codes      # per type id: string code of its name
    cdef Code* locals             # per member
    cdef uint8_t* local_all       # per program whether it is for some member of each event that may be bound at all
    cdef uint64_t* local_members  # per program the members that it is for, as bits; none but for the first of equal ones
    cdef int32_t* partition       # per type id and attribute: its column, or -1
    cdef uint8_t* partition_floats
    cdef Column* columns
    cdef Edge* edges
    cdef State* states
    cdef IndexInfo* infos
    cdef ForAll* foralls
    cdef WindowRelevance able

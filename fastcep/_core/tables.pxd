# A plan as C structs, read-only while matchers run. See tables.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.predicate cimport Code


cdef struct Column:         # an event column: where a chunk's values are
    int32_t source
    uint64_t members
    Code program
    int64_t* values         # own buffer [CHUNK], unless it is a view of the batch
    uint8_t* nulls
    const int64_t* data     # current chunk
    const uint8_t* null     # or NULL


cdef struct Edge:
    int32_t source
    int32_t target
    int32_t index
    int32_t n_probe
    int32_t* probe
    bint has_predicate
    bint has_outputs
    Code predicate
    int32_t n_copies         # outputs that are a register of the row or a column of the event
    int32_t* copy_output
    int32_t* copy_from_row   # 1 register, 0 event column
    int32_t* copy_number
    Code outputs             # computes the other outputs:
    int32_t n_computed
    int32_t* computed
    int32_t n_forall
    int32_t* forall


cdef struct State:
    bint repeated
    bint accepting
    bint only_accepts        # one edge; children are matches and nothing else, without a condition
    bint only_stores         # one edge; children go to one index, without a condition
    bint first               # rows only begin here, so that in a bucket they expire in order
    int32_t registers
    int32_t outputs
    int32_t accept_guard
    int32_t n_indexes
    int32_t* indexes
    int32_t n_accept_forall
    int32_t* accept_forall
    int32_t first_edge       # edges into the state
    int32_t end_edge
    int32_t fixed            # the row's fixed words: start, birth (its place, or -1), bindings from Tables.bound on
    int32_t birth
    int32_t bind
    int32_t columns          # the row's columns: null bits of the registers and the registers, if there are any


cdef struct IndexInfo:
    int32_t n_keys
    int32_t* keys            # outputs
    int32_t guard
    int32_t n_forall
    int32_t* forall


cdef struct ForAll:
    int32_t guard
    Code program
    int32_t n_elements
    int32_t* member
    int32_t* offset
    int32_t* column          # physical column or built-in
    const int64_t** data     # ring buffers
    const uint8_t** null
    int64_t* values          # scratch: elements of one chunk, [n_elements][CHUNK]
    uint8_t* nulls


cdef class Tables:
    cdef int n_types, n_members, n_edges, n_indexes, n_columns, n_foralls, n_outputs, n_inputs
    cdef int bound                # 1 if every match binds member 0 first, to one event: its start tells the event; else 0
    cdef uint64_t* type_members   # per type id: members that may bind it
    cdef int64_t* type_codes      # per type id: string code of its name
    cdef Code* locals             # per member
    cdef uint8_t* has_local
    cdef Column* columns
    cdef Edge* edges
    cdef State* states
    cdef IndexInfo* infos
    cdef ForAll* foralls

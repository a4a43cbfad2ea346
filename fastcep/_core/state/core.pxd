# The state of one running query: plain buffers without Python objects. See matcher.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from fastcep._core.input.filters cimport Passed
from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.match_set cimport MatchSet
from fastcep._core.memory.open_windows cimport Part, Windows
from fastcep._core.memory.pending_matches cimport Pending
from fastcep._core.memory.row_store cimport Bucket, Index, Source, column_of
from fastcep._core.memory.starts cimport Starts
from fastcep._core.memory.vectors cimport Vec
from fastcep._core.program.event_sets cimport Selections
from fastcep._core.program.plan_tables cimport (
    VARIABLE_AT, Absence, Column, Edge, ForAll, IndexInfo, Kept, Negation, State, Step, Variable,
)
from fastcep._core.program.predicate cimport Code, Input, Machine
from fastcep._core.program.window_relevance cimport WindowRelevance
from fastcep._core.state.lineage_tables cimport LineageTables
from fastcep._core.state.shedding_tables cimport Prices, Shed
from fastcep._core.state.stage cimport Stage

cdef enum:              # kinds of program inputs, as in code.code_new
    ROW
    EVENT
    OUT
    ELEM


cdef struct Core:
    int n_variables          # the plan; see plan_tables.pxd
    int n_slots
    int n_states
    int n_indexes            # indexes of the states, which come first; those of the negations follow
    int n_negations
    int n_counts             # 1: a last index counts matches by partition; otherwise 0
    int n_columns
    int n_foralls
    int n_sets
    int implied
    bint must_advance        # a partial match that an event extends is replaced
    bint removes             # partial matches may end before their window does
    bint is_shared           # explicit windows share their rows
    bint is_isolated         # explicit windows have rows of their own
    bint longest             # SELECT longest: a match waits until no longer one can come; see longest.pyx
    bint visits_all          # every event is visited, because it may end a partial match
    bint follows             # contiguity: a partial match ends at the next event
    Vec touched              # SELECT longest: starts whose matches the event may end
    int previous_column      # event column with the previous event of the partition, or -1: that of the stream
    bint has_policy          # a policy selects among the matches of an event, or a match removes partial matches
    int window_kind          # see starts.pxd
    Variable* variables
    Negation* negations
    Absence* absences
    int64_t period           # of PERIODIC, in ns; 0: none
    int64_t window           # length of the window: ns or events
    uint64_t* type_variables
    int64_t* type_codes
    Code* locals
    uint64_t* local_variables  # see Tables
    uint8_t* local_all
    const Selections* selections
    Column* columns
    Edge* edges
    State* states
    IndexInfo* infos
    ForAll* foralls
    Index* indexes           # the indexes of the rows; with windows of their own, those of the window that is entered
    bint factorised          # the indexes hold kept events instead of rows; see factorised/chunk.pyx
    Kept* kept               # factorised: per index
    int32_t* first_kept      # factorised: per variable its first index
    Index hashed             # factorised: events of the first variable by the whole key of a join; see join.pyx
    Step** back              # factorised: per variable the step to it from the variable after it,
    Step** again             # and for a Kleene variable the step from itself; otherwise NULL
    int64_t* held            # factorised: values of the chosen events that later steps read
    uint8_t* held_null
    Vec frames               # factorised: stack of the search through a Kleene variable
    uint8_t* zeros           # factorised: a column of zeros, of one chunk
    bint has_pairs           # factorised: a key has two words
    bint has_nulls           # factorised: a register of a stored event may be null
    bint is_moved            # factorised: a new bucket is the first one, or has moved the others or the slots
    int32_t joined           # factorised: bucket of the join for the current event, if its key depends on it alone
    int64_t since            # factorised: position of the oldest start that is live for the current event
    Starts starts
    Stage stage
    Machine* vm
    Input* inputs            # scratch: inputs of a program
    int64_t* key             # scratch: the words of one key
    Source* outputs          # scratch: sources of the outputs of new rows,
    Source* words            # of the words of their keys,
    Source* row              # and of all words of the rows
    int64_t ring_mask        # event ring, for for-all conditions
    const uint16_t* ring_type
    Vec* out_values          # output: per variable the events that it binds in each match
    Vec* out_lengths         # output: per variable the number of events in each match
    Vec detected             # output: positions of events that complete matches (-1: a decision),
    Vec detected_times       # their times,
    Vec detected_counts      # and their numbers of matches
    Vec* chains              # scratch: elements of a Kleene variable; in a group, its event in each round, -1 for none
    int64_t emitted          # matches of the current event
    int64_t events           # counters; see Engine.metrics
    int64_t relevant
    int64_t rows_visited
    int64_t rows_created
    int64_t matches
    int64_t peak
    int64_t lost             # live partial matches dropped because memory ran out
    int64_t next_birth
    int64_t event_birth      # next_birth when the current event arrived
    int64_t sweep_at         # bytes of the indexes at which the next sweep runs
    int64_t swept            # bytes left by the last sweep
    Budget budget
    bint failed              # out of memory; see recover_from_failure
    Pending pending          # matches that wait for the end of their window
    int64_t due              # the first time at which one of them is decided
    int64_t now              # time of the event, or of the decision
    int64_t last_missed      # time of the last event that was lost because memory ran out
    MatchSet seen            # sets of events that the matches of the current event bind
    int select
    bint consumes
    int after_match
    uint64_t skip_to         # SKIP TO FIRST and LAST: the variables whose events count (bit set)
    Vec horizons             # scratch: per match the position to which it skips, -1: to the next start
    int64_t limit            # matches per window; 0: no limit
    int64_t reported         # matches reported in the window
    int n_partition          # key words of a partition, if policies act in each partition separately; otherwise 0
    uint64_t current         # variables that may bind the current event (bit set),
    int current_place        # and its row in the chunk; -1: there is no event
    Windows windows          # explicit windows
    Part outside             # isolated windows: starts, indexes and pending matches while no window is entered
    int64_t window_id        # isolated windows: id of the window that is entered,
    int64_t window_time      # its time,
    int64_t window_birth     # and next_birth when it was entered
    uint64_t bindable        # variables that may bind the event, before windows restrict them (bit set)
    WindowRelevance relevance
    bint reports_timeouts    # partial matches that time out are an output
    Vec* timed_values        # output: like out_values, for partial matches that have timed out
    Vec* timed_lengths       # output: like out_lengths
    Vec timed                # output: state, time and window id of each
    Vec timed_rows           # scratch: time, birth, index, bucket and row of each
    int64_t live_in_windows  # live partial matches in windows that are not entered
    Vec out_windows          # output: window id of each match; shared, until the event ends: last window it may be in
    Vec advanced             # partial matches that the event has extended: index, bucket, birth
    Vec bound                # scratch: events of each match of the current event, ascending, concatenated
    Vec ends                 # per match: its end in ``bound``
    Vec chosen               # per match: 1 if it is reported
    int64_t* cursor          # scratch: per variable
    Vec leaving              # events whose partial matches are removed, ascending
    int32_t* partition       # per type id: columns of the attributes, -1 for a type without; NULL: no partitions
    uint8_t* partition_floats
    Index partitions         # last event of each partition; see previous_events.pyx
    bint cuts                # contiguity makes some rows dead early; see drop_cut_off
    int64_t last             # position of the last event
    bint shared              # the masks come from shared filters
    const Passed** passed    # shared: per variable the events that it may bind,
    int64_t* next_passed     # and the index of the next one
    const uint8_t* foreign   # per event of the batch: 1 if another engine owns its key group; NULL: none
    int parts                # number of matchers that share the events of the query by key; see key_partition.pyx
    int part                 # number of this one
    const int32_t* part_columns  # per type id: column of the key, or -1
    int32_t part_column      # the key column if all types have the same one and it has integers; otherwise -1
    bint part_floats         # the key is float64
    uint32_t part_first      # first hash of the keys of this part,
    uint32_t part_size       # and number of hashes
    int64_t place            # several parts: where the window closes (see key_partition.pyx),
    int64_t opened           # and position of the event that opened it
    Shed shed
    LineageTables observed
    int event_type           # type id of the current event, if events are kept out of windows
    int64_t event_position   # position of the current event
    Prices prices
    int64_t chunks           # chunks of events processed
    int64_t before_spent     # when the current event arrived: cost of all operations,
    int64_t before_visited   # rows visited,
    int64_t before_yielded   # and rows and matches made
    int64_t* costs           # output: cost of each event that is processed; or NULL
    Vec places               # output: ``place`` and ``opened`` of each decision of an explicit window
    Vec timed_places         # output: the same of each partial match that has timed out


cdef inline void event_inputs(Core* core, const Code* program) noexcept nogil:
    """Set the inputs of a program over event columns to the columns of the chunk."""
    cdef int j
    cdef Column* column
    for j in range(program.n_inputs):
        column = core.columns + program.input_number[j]
        core.inputs[j].data = column.data
        core.inputs[j].nulls = column.null
        core.inputs[j].bits = NULL
        core.inputs[j].stride = 1


cdef inline void row_inputs(Core* core, const Code* program, int number_of_index, const Bucket* bucket, int first,
                            int k) noexcept nogil:
    """Set the inputs of an edge program: registers of the rows from ``first`` on, values of event ``k`` broadcast."""
    cdef int j, number
    cdef Column* column
    cdef Index* index = core.indexes + number_of_index
    for j in range(program.n_inputs):
        number = program.input_number[j]
        if program.input_kind[j] == EVENT:
            column = core.columns + number
            core.inputs[j].data = column.data + k
            core.inputs[j].nulls = NULL if column.null == NULL else column.null + k
            core.inputs[j].bits = NULL
            core.inputs[j].stride = 0
        else:
            core.inputs[j].data = column_of(index, bucket, 1 + number) + first
            core.inputs[j].nulls = NULL
            core.inputs[j].bits = column_of(index, bucket, 0) + first
            core.inputs[j].bit = number
            core.inputs[j].stride = 1


cdef inline int stores_of(const Core* core) noexcept nogil:
    """Return the number of indexes: those of the states, of the negations, and of the counted matches."""
    return core.n_indexes + core.n_negations + core.n_counts


cdef inline int64_t position_of(int64_t word) noexcept nogil:
    """Return the position of the event of a chain node."""
    return word & ((<int64_t>1 << VARIABLE_AT) - 1)


cdef inline bint read_key(const Column** columns, int n, int k, int64_t* key) noexcept nogil:
    """Write the ``n`` words of a key, the event ``columns`` of event ``k`` of the chunk; False if one is null."""
    cdef const Column* column
    cdef int c
    for c in range(n):
        column = columns[c]
        if column.null != NULL and column.null[k]:
            return False
        key[c] = column.data[k]
    return True


cdef inline void copy_event(const Index* index, const Bucket* bucket, int64_t row, const Column** columns, int n,
                            int k) noexcept nogil:
    """Write the registers of a row and their null bits: the ``n`` event ``columns`` of event ``k`` of the chunk."""
    cdef int64_t* to = column_of(index, bucket, 0) + row
    cdef int64_t* null_bits = to
    cdef const Column* column
    cdef int64_t nulls = 0, capacity = bucket.capacity
    cdef int c
    for c in range(n):
        column = columns[c]
        to += capacity
        to[0] = column.data[k]
        if column.null != NULL:
            nulls |= <int64_t>(<uint64_t>column.null[k] << c)
    if n > 0:
        null_bits[0] = nulls


cdef inline void count_row(Core* core, int64_t start) noexcept nogil:
    """Count a new live partial match of a start."""
    core.next_birth += 1
    core.rows_created += 1
    core.starts.rows[start & core.starts.mask] += 1
    core.starts.live += 1
    if core.starts.live > core.peak:
        core.peak = core.starts.live

# The state of one query while it runs: plain buffers, without Python objects. See matcher.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from fastcep._core.input.filters cimport Passed
from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.match_set cimport MatchSet
from fastcep._core.memory.open_windows cimport Part, Windows
from fastcep._core.memory.pending_matches cimport Pending
from fastcep._core.memory.row_store cimport Bucket, Index, Source, column_of
from fastcep._core.memory.starts cimport Starts
from fastcep._core.memory.vectors cimport Vec
from fastcep._core.program.plan_tables cimport (
    MEMBER_AT, Absence, Column, Edge, ForAll, IndexInfo, Kept, Leaf, Negation, State, Step,
)
from fastcep._core.program.predicate cimport Code, Input, Machine
from fastcep._core.program.window_relevance cimport WindowRelevance
from fastcep._core.state.lineage_tables cimport LineageTables
from fastcep._core.state.shedding_tables cimport Prices, Shed
from fastcep._core.state.stage cimport Stage

cdef enum:              # kinds of program inputs, as in predicate.code_new
    ROW
    EVENT
    OUT
    ELEM


cdef struct Core:
    int n_members            # the plan, see plan_tables.pxd
    int n_slots
    int n_states
    int n_indexes            # of the states; those of the negations follow
    int n_negations
    int n_counts             # 1: matches are counted by partition, in an index behind these
    int n_columns
    int n_foralls
    int n_sets
    int implied
    bint must_advance        # a partial match that an event extends is replaced
    bint removes             # partial matches may end before their window does
    bint is_shared           # explicit windows share their rows,
    bint is_isolated         # or have their own
    bint has_policy          # not every match of an event is reported, or more follows from one
    int window_kind
    Leaf* leaves
    Negation* negations
    Absence* absences
    int64_t period
    int64_t window
    uint64_t* type_members
    int64_t* type_codes
    Code* locals
    uint64_t* local_members  # see Tables
    uint8_t* local_all
    Column* columns
    Edge* edges
    State* states
    IndexInfo* infos
    ForAll* foralls
    Index* indexes           # rows, and the first events under which they live
    bint factorised          # the indexes hold kept events, see factorised.pyx:
    Kept* kept               # one each,
    int32_t* first_kept      # and per member the first of its own
    Index hashed             # the events of the first variable by the whole key of a join, see join.pyx
    Step** back              # per member the step that chooses it from the member behind it,
    Step** again             # and of a Kleene variable from itself, else NULL
    int64_t* held            # values at hand of the events that are chosen
    uint8_t* held_null
    Vec frames               # of the search through a Kleene variable
    Starts starts
    Stage stage
    Machine* vm
    Input* inputs            # scratch: of a program
    int64_t* key             # scratch: the words of one key
    Source* outputs          # scratch: where the outputs of new rows are,
    Source* words            # the words of their keys
    Source* row              # and all words of the rows
    int64_t ring_mask        # event ring, for for-all conditions
    const uint16_t* ring_type
    Vec* out_values          # output, per member
    Vec* out_lengths
    Vec detected             # output: events that complete matches (-1: a decision), their times, how many each
    Vec detected_times
    Vec detected_counts
    Vec* chains              # scratch: elements of a Kleene member; rounds' events of one in a group, -1 for none
    int64_t emitted          # matches of the current event
    int64_t events           # counters, see Engine.metrics
    int64_t relevant
    int64_t rows_visited
    int64_t rows_created
    int64_t matches
    int64_t peak
    int64_t lost             # live partial matches dropped for want of memory
    int64_t next_birth
    int64_t event_birth      # next_birth when the current event came
    int64_t sweep_at         # bytes of the indexes
    int64_t swept            # bytes left by the last sweep
    Budget budget
    bint failed              # out of memory, see give_up
    Pending pending          # matches that wait for the end of their window
    int64_t due              # the first time at which one is decided
    int64_t now              # time of the event, or of the decision
    int64_t blind            # time of the last event that was not taken, for want of memory
    MatchSet seen                # sets of events that the event's matches bind
    int select
    bint consumes
    int after_match
    int64_t limit            # matches per window, 0 for no limit
    int64_t reported         # of the window
    int n_partition          # words of the key of a partition, if policies act in each for itself; else 0
    uint64_t current         # members to which the event that is matched may be bound,
    int current_place        # and its place in the chunk; -1: there is none
    Windows windows          # explicit ones
    Part outside             # isolated: what stands here while no window is entered
    int64_t window_id        # of the window that is entered,
    int64_t window_time
    int64_t window_birth     # next_birth when it was
    uint64_t asked           # members to which the event may be bound in any window
    WindowRelevance able
    bint tells               # partial matches that have timed out are an output
    Vec* timed_values        # output of partial matches that have timed out, as out_values and out_lengths
    Vec* timed_lengths
    Vec timed                # and per one: state, time, window id
    Vec found                # scratch: time, birth, index, bucket, row of each
    int64_t elsewhere        # live partial matches in windows that are not entered
    Vec out_windows          # output: the window of each match; shared, before the event ends: the last one it may be in
    Vec advanced             # partial matches that the event has extended: index, bucket, birth
    Vec bound                # scratch of the policies: events of the event's matches, each ascending, one after the other
    Vec ends                 # where they end
    Vec chosen               # whether each is reported
    int64_t* cursor          # scratch: per member
    Vec leaving              # events that leave, ascending
    int32_t* partition       # per type id the columns of the attributes, -1 for a type that is in none; NULL: no partitions
    uint8_t* partition_floats
    Index partitions         # the last event of each, see previous_events.pyx
    bint cuts                # some rows can be seen to be cut off
    int64_t last             # position of the last event that was taken
    bint shared              # the masks come from filters: per member the events that it may be bound to,
    const Passed** passed
    int64_t* next_passed     # and the next of them
    const uint8_t* foreign   # per event of the batch whether its key group is another engine's; NULL: none is
    int parts                # matchers that share the query's events by key, see key_partition.pyx,
    int part                 # and which of them this is
    const int32_t* part_columns  # per type id the column of the key, or -1,
    int32_t part_column      # the only one, if it is of integers; or -1
    bint part_floats
    uint32_t part_first      # hashes of keys that are its own: from here on so many
    uint32_t part_size
    int64_t place            # more than one part: where a window closes, and the position of the event that opened it,
    int64_t opened
    Shed shed
    LineageTables observed
    int event_type           # of the event that is matched: its type's number, if events are kept out of windows,
    int64_t event_position   # and its position
    Prices prices
    int64_t chunks           # of events that were taken
    int64_t before_spent     # when the event came: what operations had cost,
    int64_t before_visited   # rows visited,
    int64_t before_yielded   # and what had come of events
    int64_t* costs           # output: what each event has cost, from the first one that is processed; or NULL
    Vec places               # output: of each decision of an explicit window,
    Vec timed_places         # of each partial match that has timed out in one


cdef inline void event_inputs(Core* core, const Code* program) noexcept nogil:
    """Inputs of a program over event columns, as columns of the chunk."""
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
    """Inputs of an edge program: row registers from row ``first`` on, values of event ``k`` broadcast."""
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
    """How many indexes there are: of states, of negations, and of counted matches."""
    return core.n_indexes + core.n_negations + core.n_counts


cdef inline int64_t position_of(int64_t word) noexcept nogil:
    """The event of a chain node."""
    return word & ((<int64_t>1 << MEMBER_AT) - 1)


cdef inline bint read_key(const Column** columns, int n, int k, int64_t* key) noexcept nogil:
    """Write the ``n`` words of a key, event ``columns`` of event ``k`` of the chunk; False if one is null."""
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
    """Write the registers of a row, and their null bits: the ``n`` event ``columns`` of event ``k`` of the chunk."""
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
    """Account for a new live partial match under a start."""
    core.next_birth += 1
    core.rows_created += 1
    core.starts.rows[start & core.starts.mask] += 1
    core.starts.live += 1
    if core.starts.live > core.peak:
        core.peak = core.starts.live

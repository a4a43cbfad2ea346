# Tables of drop probabilities, and the prices of operations. See drop.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

cdef enum:
    MOST_SLICES = 64         # slices of the time of a window
    MOST_FEATURES = 64       # features by which the partial matches of a state are classified
    PARENT_WEIGHT_AT = 16    # bits of a class word above class and mark: weight that the row has from its parents,
    ROW_WEIGHT_AT = 32       # weight of the row because it was not dropped itself (log2 * 256, see flows.pyx),
    MOST_WEIGHT = 0xFFFF     # (the largest value of each weight)
    DRAWN_AT = 48            # and the draw for the row + 1; 0: not drawn yet
    DRAWN_BITS = 14          # bits of a draw

cdef enum:                   # how the probability of keeping an event out of a window depends on its bin, by type
    NEVER                    # it is 0 in all bins
    SAME                     # it is the same in all bins
    BY_BIN


cdef struct Node:            # a node of a decision tree
    int32_t feature          # the feature that it tests
    int32_t child[2]         # next nodes: for values up to the threshold, and for larger ones; of a leaf, the leaf itself
    int32_t own              # class of a leaf
    double threshold


cdef struct Axis:            # a feature of a decision tree that has become a table; see tree_grid.py
    double* thresholds       # ascending
    int64_t n_thresholds
    int64_t* offsets         # per interval between thresholds: offset in the table
    int64_t low              # for an integer feature: the integer at which ``ranks`` begins,
    int64_t n_ranks          # and how many there are; 0: search the thresholds
    uint16_t* ranks          # per integer from ``low`` on: offset in the table; smaller and larger ones use the ends


cdef struct Classifier:      # classifies the partial matches of a state, or the events of a variable
    int n_features           # 0: everything is in class 0
    Node* tree               # NULL: there is only a table
    Axis* axes               # per feature, of a tree that has become a table; otherwise NULL
    uint64_t floats          # bit set of the features that are float64; a table without a tree rounds them down
    int64_t* low             # table without a tree: per feature the smallest value,
    int64_t* size            # and the number of values
    uint8_t* table           # class of each combination of values or intervals, in row-major order
    uint8_t other            # class if a value is null, NaN or not in the table


cdef struct Prices:          # cost of each operation, in picoseconds of the virtual clock
    int64_t event
    int64_t relevant
    int64_t visited
    int64_t created
    int64_t refused
    int64_t match
    int64_t purged


cdef struct Flow:            # an entry of the hash table
    uint64_t key             # 0: free
    double count             # sum of weights,
    double square            # and sum of their squares
    double unused            # padding, so that an entry does not cross a cache line


cdef struct Flows:           # counts of children by the classes of their parents; see flows.pyx
    bint on
    bint sampled             # the children of the current event are counted
    int64_t chance           # probability that the children of an event are counted, in 2^-32,
    double weight            # and its inverse, the weight of an event
    int64_t capacity         # capacity of the table, a power of two
    int64_t used             # entries in use
    double lost              # children that were not counted because the table was full
    Flow* table
    double* tried            # per variable and class: events that the variable may bind


cdef struct Found:           # matches made while ``weighs`` is set
    double count             # number of matches,
    double weight            # sum of their weights,
    double square            # and sum of the squares


cdef struct Tried:           # counters of one edge
    double visited           # partial matches that were visited; events, for an edge from START
    double made              # children
    double passed_over       # partial matches that were not visited because of the work limit
    double lost              # children that these would have had


cdef struct Yield:           # visits of one half of the partial matches of a bucket, most of them recent
    double visited           # partial matches that were visited
    double made              # children before births are refused


cdef struct Yields:          # visits along one edge by events that the work limit did not affect
    Yield older
    Yield younger


cdef enum:
    COSTS = 33               # entries of ``Cut.by_cost``: quarters of powers of two of the limit


cdef struct Cut:             # the limit of the work for one event; see work_limit.pyx
    int64_t most             # largest cost of an event, without that of being relevant; 0: no limit
    uint64_t completing      # bit set of the variables whose binding only makes matches; these are tried first
    int64_t share            # share of the events that may exceed the limit, in 2^-32
    int64_t credit           # events that may exceed the limit now, in 2^-32,
    int64_t enough           # and the credit from which on all events may
    int64_t ran_on           # number of events that exceeded the limit so far because they were allowed to
    int64_t last             # position of the event at which ``credit`` was updated
    uint64_t beginning       # bit set of the variables whose binding may begin a partial match,
    int64_t begin_price      # and the largest cost of what one of them may begin
    bint reached             # the current event has reached the limit,
    bint runs_on             # and may exceed it
    int64_t beyond           # cost so far of what it does beyond the limit
    int64_t staged           # cost of the staged children of the current event,
    int64_t staged_beyond    # and the part of it beyond the limit
    int64_t reserve          # cost reserved for partial matches that the current event may begin
    int64_t beyond_weight    # weight of what it does beyond the limit; see flows.pyx
    int64_t weight           # weight of what it does now: 0, or ``beyond_weight``
    int64_t largest          # largest ``beyond_weight`` so far
    double mean              # mean number of matches that an event has beyond the limit that it reaches; see work_limit.pyx
    Tried* tried             # per edge
    Yields* yields           # per edge
    int64_t reaching         # number of events that reached the limit so far,
    double[COSTS] by_cost    # and as an estimate, by cost without a limit; see work_limit.pyx


cdef struct Within:          # rows of a bucket that an event is tried with before it reaches its limit
    int first
    int end


cdef struct Shed:            # drop probabilities are in 2^-32
    bint on                  # the tables are allocated
    uint64_t seed
    bint events              # events of some type are dropped
    bint births              # some births are refused
    bint binds               # some events are withheld from some variable
    int n_types
    int stride               # largest number of classes of a state
    int64_t* by_type         # per type: probability that an event is dropped,
    int64_t* type_weights    # and weight of an event that is not dropped; see flows.pyx
    int64_t* in_windows      # per type and bin: probability that an event is kept out of an isolated window; or NULL
    int64_t* in_windows_weights  # and weight of an event that is not kept out; see flows.pyx
    uint8_t* in_windows_above  # per type and bin: 1 if the probability is above 0; a row of it is in one cache line or two
    uint8_t* in_windows_rows  # per type: NEVER, SAME or BY_BIN
    int64_t bins             # bins of a window
    int64_t bin              # events per bin
    int event_row            # of the current event: NEVER, SAME or BY_BIN,
    int64_t event_cell       # first cell of its type in ``in_windows``,
    int64_t event_chance     # and the probability there
    int64_t window_weight    # weight of the current event, which was not dropped from the current window
    int64_t whole            # probability that an isolated window is dropped with all of its events,
    int64_t whole_weight     # and weight of a window that is not dropped
    int slices               # slices of the window, for the tables below
    int64_t* refuse          # per state, class and slice: probability that a birth is refused,
    int64_t* refuse_weights  # and weight of a birth that is not refused; see flows.pyx
    uint8_t* ages            # per state: 1 if some probability grows with the slice; its rows are then dropped with age
    int64_t* bounds          # per slice: the oldest start in this slice or an earlier one,
    int64_t bounds_at        # for the event at this position
    Classifier* classifiers  # per state
    int variables            # number of variables
    int variable_stride      # largest number of classes of the events of a variable
    Classifier* by_variable  # per variable: classifier of the events that it may bind,
    int32_t** features_of    # and their features, as event columns
    int64_t* withhold        # per variable and class: probability that an event is withheld from the variable,
    int64_t* withhold_weights  # and weight of an event that is not withheld
    int64_t* withheld        # counter, per variable and class: events withheld
    int64_t* values          # scratch: features of the children of a chunk, [feature][CHUNK]
    uint8_t* nulls
    double* numbers          # scratch: the features as float64, for decision trees
    int64_t* classes         # scratch: their class words, negative for a child that is refused
    Flows flows
    bint weighs              # rows and matches are weighed; see flows.pyx
    Found found
    Cut cut
    int64_t n_refused        # counters: births refused
    int64_t n_aged           # partial matches dropped with age
    int64_t n_in_windows     # events kept out of a window
    int64_t n_windows        # windows dropped with all of their events
    int64_t* dropped_events  # per type: events dropped that some variable may bind
    int64_t* tried           # per type: partial matches visited for an event, the event itself as a beginning included
    int64_t* yielded         # per type: partial matches and matches that events made
    int64_t* seen            # per type: estimate of the events that some variable may bind, dropped or not, in 1/256
    int64_t* born            # per state and class: partial matches stored
    int64_t* refused         # per state and class: births refused
    int64_t* dropped         # per state and class: live partial matches dropped

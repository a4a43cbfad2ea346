# What is dropped, as tables; and what operations cost. See drop.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    MOST_SLICES = 64         # of a window's time
    MOST_FEATURES = 64       # values by which partial matches of a state are classified
    FROM_AT = 16             # a row's class word holds for how many it stands above its class and mark, see flows.pyx: what
    OWN_AT = 32              # it has from its parents, and as it was not dropped itself
    STANDS = 0xFFFF          # the most of both
    DRAWN_AT = 48            # and what was drawn for it and 1, or 0
    DRAWN_BITS = 14
    CREDITS = 64             # events that may be let run on one behind the other, see work_limit.pyx


cdef struct Node:            # of a decision tree
    int32_t feature          # that it asks for, or -1: a leaf
    int32_t left             # where a value goes that is at most the threshold,
    int32_t right            # and where the others go
    int32_t own              # the class of a leaf
    double threshold


cdef struct Classifier:      # of the partial matches of a state, or the events of a variable
    int n_features           # 0: all are of class 0
    Node* tree               # or NULL: by a table
    uint64_t floats          # which features are float64, of which the whole part counts
    int64_t* low             # per feature its smallest value that the table knows, and how many it knows
    int64_t* size
    uint8_t* table           # the class of each combination, the last feature's values side by side
    uint8_t other            # the class if a value is null, or the table does not know it


cdef struct Prices:          # picoseconds on the virtual clock
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
    double square            # and of their squares
    double unused            # so that it lies in one line of the cache


cdef struct Flows:           # how many children came of what, see flows.pyx
    bint on
    bint here                # whether the children of the event that is matched are counted:
    int64_t chance           # by this one, in 2^32,
    double stands            # so that an event stands for so many
    int64_t capacity         # of the table, a power of two
    int64_t used
    double lost              # children that were not counted, as it was full
    Flow* table
    double* asked            # per variable and class: events that were tried for it


cdef struct Tried:           # an edge, with partial matches, or a beginning once
    int64_t looks
    int64_t made             # children that came of it
    int64_t passed_over      # looks that were cut off


cdef struct Cut:             # the work for one event, see work_limit.pyx
    int64_t most             # what it may cost, beside being relevant; 0: nothing is cut off
    uint64_t completing      # variables whose binding makes matches only: they come first
    int64_t share            # of the events that may run on, in 2^32,
    int64_t credit           # and for how many there is credit,
    int64_t last             # since the event at this position
    bint runs_on             # the event is let
    double mean              # looks for a match that events lose where they are cut off
    Tried* tried             # counters, by edge


cdef struct Shed:            # chances are counted in 2^32
    bint on                  # the rest is there
    uint64_t seed
    bint events              # some type's events are dropped
    bint births              # some births are refused
    bint binds               # some events are not tried for some variable
    int n_types
    int stride               # classes of the state that has most
    int64_t* by_type         # chance that an event of the type is dropped
    int64_t* in_windows      # chance by type and place in an isolated window, or NULL
    int64_t bins             # of a window,
    int64_t bin              # each of so many events
    int slices               # of the window, in what follows
    int64_t* refuse          # chance by state, class and slice that a birth is refused,
    int64_t* refuse_stands   # and for how many one stands that is not, see flows.pyx
    uint8_t* ages            # by state whether some chance grows with the slices: then partial matches fall with age
    int64_t* bounds          # per slice the oldest start that is in no later one,
    int64_t bounds_at        # when the event at this position comes
    Classifier* classifiers  # per state
    int members              # variables, and classes of the one whose events have most
    int member_stride
    Classifier* by_member    # of the events that may be bound to each,
    int32_t** features_of    # by these event columns
    int64_t* withhold        # chance by variable and class that an event is not tried for it,
    int64_t* withhold_stands # and for how many one stands that is
    int64_t* withheld        # counter: of these
    int64_t* values          # scratch: features of the children of a chunk, [feature][CHUNK]
    uint8_t* nulls
    int64_t* classes         # scratch: their class words, -1 for one that is refused
    Flows flows
    Cut cut
    int64_t n_refused        # counters: births refused
    int64_t n_fell           # partial matches that fell with age
    int64_t n_in_windows     # events that were kept out of a window
    int64_t* dropped_events  # per type: dropped although some variable may bind it,
    int64_t* tried           # bound or tried to: partial matches that were looked at for it, itself as a beginning,
    int64_t* yielded         # partial matches and matches that came of it,
    int64_t* seen            # and events that some variable may bind, dropped ones too, by estimate: in 256ths
    int64_t* born            # per state and class: partial matches that were stored,
    int64_t* refused         # whose birth was refused,
    int64_t* dropped         # that were dropped while they lived

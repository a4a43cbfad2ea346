# A record of all partial matches: where they came from, where they were stored and looked at. See lineage.pyx.
from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.vectors cimport Vec

cdef enum:
    LISTS = 15               # of the record
    CLASS_BITS = 8
    EDGE_BITS = 32
    RECORD_AT = 16           # a row's class word holds the number of its record above its class and mark


cdef struct LineageTables:
    bint on
    Budget budget
    Vec parents              # per record: that of the partial match that it extends, or -1,
    Vec events               # the position of the event that it binds last,
    Vec edges                # the edge that it came by,
    Vec classes              # its class, and that of the event << CLASS_BITS
    Vec placed               # per row of an index: its record,
    Vec places               # and the name of its bucket
    Vec probes               # per look into a bucket that holds live rows: the name of the bucket,
    Vec probed               # the position of the event,
    Vec asked                # the edge, and the class of the event above it << EDGE_BITS,
    Vec visited              # and how many live rows there were
    Vec matches              # per match its record
    Vec values               # per record of a state with features: a bit for each that is null, and the features
    Vec tried                # per event and variable that it is tried for: its position,
    Vec members              # the variable,
    Vec event_values         # and, if there are some, the features, as above

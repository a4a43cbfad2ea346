# The lineage of partial matches: parents, buckets and probes. See lineage.pyx.
from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.vectors cimport Vec

cdef enum:
    LISTS = 15               # lists of LineageTables
    CLASS_BITS = 8
    EDGE_BITS = 32
    RECORD_AT = 16           # first bit of the number of the record in the class word of a row, above class and mark


cdef struct LineageTables:
    bint on
    Budget budget
    Vec parents              # per record: record of the partial match that it extends, or -1,
    Vec events               # position of the event that it binds last,
    Vec edges                # number of its edge,
    Vec classes              # its class | class of the event << CLASS_BITS
    Vec placed               # per row of an index: its record,
    Vec places               # and the name of its bucket
    Vec probes               # per probe of a bucket with live rows: name of the bucket,
    Vec probed               # position of the event,
    Vec probe_edges          # number of the edge | class of the event << EDGE_BITS,
    Vec visited              # and number of live rows
    Vec matches              # per match: its record
    Vec values               # per record of a state with features: null bits, then the features
    Vec tried                # per event and variable that may bind it: position of the event,
    Vec variables            # number of the variable,
    Vec event_values         # and, if the variable has features: null bits, then the features

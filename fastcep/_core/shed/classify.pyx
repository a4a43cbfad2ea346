# cython: language_level=3
"""Classes of partial matches at their birth, and of events.

A class is found from the features that the plan makes every edge compute at a birth (`EdgePlan.features`): in a table,
or by a decision tree. A tree becomes a table too, with an axis for each feature (`grid_of`), if that is not too large.
Otherwise the children of a chunk go down the tree together, one level at a time and without branches, so that the
processor works on several of them at once: an engine with trees of 14 levels then takes 0.6 of the time that it takes if
each child goes down alone.

Invariant: a child has the class that `Classes.classify` and `Tree.classify` give for its features.
"""
from libc.math cimport floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memset

import numpy as np

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Column, Edge
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.state.core cimport Core, row_inputs
from fastcep._core.state.shedding_tables cimport MOST_FEATURES, Axis, Classifier, Node, Shed

#: Node of a decision tree: the feature that it tests, the node for values up to the threshold (``left``), the node for
#: greater values (``right``), and the class of a leaf (``own``). Both children of a leaf are the leaf itself.
NODE = np.dtype([("feature", np.int32), ("left", np.int32), ("right", np.int32), ("own", np.int32), ("threshold", np.float64)])


# ---------------------------------------------------------------------- set-up

cdef object set_classifier(Classifier* classifier, item, str dtypes):
    """Set a decision tree or a table of classes, see `Shedding.begin`; ``dtypes`` are those of its features in the plan.

    Returns an object that must live as long as the classifier, as must ``item``.
    """
    assert 0 < len(dtypes) <= MOST_FEATURES
    classifier.n_features = len(dtypes)
    classifier.floats = sum(1 << f for f, dtype in enumerate(dtypes) if dtype == "f")
    classifier.other = item[len(item) - 1]
    if len(item) == 3:
        return _set_tree(classifier, item[0], item[1])
    _set_table(classifier, item[0], item[1], item[2])
    return None


cdef int _set_table(Classifier* classifier, const int64_t[::1] low, const int64_t[::1] size, const uint8_t[::1] table) except -1:
    """Set a table of classes."""
    assert low.shape[0] == size.shape[0] == classifier.n_features
    assert table.shape[0] == np.prod(size)
    classifier.low, classifier.size, classifier.table = <int64_t*>&low[0], <int64_t*>&size[0], <uint8_t*>&table[0]
    return 0


cdef object _set_tree(Classifier* classifier, const uint8_t[::1] nodes, grid):
    """Set a decision tree and its table; returns the memory of the axes."""
    cdef uint8_t[::1] memory
    cdef const uint8_t[::1] cells
    cdef const double[::1] thresholds
    cdef const int64_t[::1] offsets
    cdef const uint16_t[::1] ranks
    cdef Axis* axis
    cdef int f
    assert nodes.shape[0] % sizeof(Node) == 0
    classifier.tree = <Node*>&nodes[0]
    if grid is None:
        return None
    axes, cells = grid
    assert len(axes) == classifier.n_features
    held = np.zeros(len(axes) * sizeof(Axis), np.uint8)
    memory = held
    classifier.axes, classifier.table = <Axis*>&memory[0], <uint8_t*>&cells[0]
    for f, (thresholds, offsets, low, ranks) in enumerate(axes):
        axis = classifier.axes + f
        assert offsets.shape[0] == thresholds.shape[0] + 1
        axis.offsets, axis.low, axis.n_thresholds = <int64_t*>&offsets[0], low, thresholds.shape[0]
        if thresholds.shape[0] > 0:
            axis.thresholds = <double*>&thresholds[0]
        if ranks.shape[0] > 0 and not classifier.floats >> f & 1:
            axis.n_ranks, axis.ranks = ranks.shape[0], <uint16_t*>&ranks[0]
    return held


cdef int largest_class(item) except -1:
    """Return the largest class number of a classifier."""
    classes = item[0].view(NODE)["own"] if len(item) == 3 else item[2]
    return max(int(classes.max()), item[len(item) - 1])


# ---------------------------------------------------------------------- look-up

cdef void classify_features(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                            int k) noexcept nogil:
    """Do `classify` for children that have features."""
    cdef Shed* shed = &core.shed
    cdef const Classifier* classifier = shed.classifiers + edge.target
    cdef int64_t* outputs[MOST_FEATURES]
    cdef uint8_t* output_nulls[MOST_FEATURES]
    cdef uint8_t missing[CHUNK]
    cdef int i, f
    for f in range(classifier.n_features):
        outputs[f] = shed.values + f * CHUNK
        output_nulls[f] = shed.nulls + f * CHUNK
    row_inputs(core, &edge.features, edge.index if bucket != NULL else 0, bucket, first, k)
    run(core.vm, &edge.features, core.inputs, rows, n, NULL, outputs, output_nulls, 0)
    memset(missing, 0, n)
    for f in range(classifier.n_features):
        for i in range(n):
            missing[i] |= output_nulls[f][i]
    if classifier.axes != NULL:
        for i in range(n):
            shed.classes[i] = classifier.other if missing[i] else _look_up_grid(classifier, shed.values + i, CHUNK)
    elif classifier.tree != NULL:
        _descend(shed, classifier, missing, n)
    else:
        for i in range(n):
            shed.classes[i] = classifier.other if missing[i] else _look_up(classifier, shed.values + i, CHUNK)


cdef int64_t class_of_features(const Core* core, int variable, int k) noexcept nogil:
    """Do `class_of_event` for a variable whose events have features."""
    cdef const Classifier* classifier = core.shed.by_variable + variable
    cdef const Column* column
    cdef int64_t features[MOST_FEATURES]
    cdef int f
    for f in range(classifier.n_features):
        column = core.columns + core.shed.features_of[variable][f]
        if column.null != NULL and column.null[k]:
            return classifier.other
        features[f] = column.data[k]
    if classifier.axes != NULL:
        return _look_up_grid(classifier, features, 1)
    return _leaf(classifier, features) if classifier.tree != NULL else _look_up(classifier, features, 1)


cdef inline void _descend(Shed* shed, const Classifier* classifier, uint8_t* missing, int n) noexcept nogil:
    """Write to ``shed.classes`` the classes that a tree gives for ``n`` children, whose features are in ``shed.values``.

    ``missing``: children with a null; those with a NaN are added.
    """
    cdef int32_t at[CHUNK]
    cdef const Node* node
    cdef double* numbers
    cdef const int64_t* words
    cdef int32_t below, moved = 1
    cdef int i, f
    for f in range(classifier.n_features):
        numbers, words = shed.numbers + f * CHUNK, shed.values + f * CHUNK
        if classifier.floats >> f & 1:
            for i in range(n):
                numbers[i] = (<const double*>words)[i]
                missing[i] |= numbers[i] != numbers[i]  # also in a feature that the path does not test
        else:
            for i in range(n):
                numbers[i] = <double>words[i]
    memset(at, 0, n * sizeof(int32_t))
    while moved:  # a leaf is its own child
        moved = 0
        for i in range(n):
            node = classifier.tree + at[i]
            below = node.child[not shed.numbers[node.feature * CHUNK + i] <= node.threshold]
            moved |= below ^ at[i]
            at[i] = below
    for i in range(n):
        shed.classes[i] = classifier.other if missing[i] else classifier.tree[at[i]].own


cdef inline int64_t _leaf(const Classifier* classifier, const int64_t* features) noexcept nogil:
    """Return the class that a tree gives for these features."""
    cdef double numbers[MOST_FEATURES]
    cdef const Node* node
    cdef int32_t at = -1, below = 0
    cdef int f
    for f in range(classifier.n_features):
        if classifier.floats >> f & 1:
            numbers[f] = (<const double*>features)[f]
            if numbers[f] != numbers[f]:
                return classifier.other
        else:
            numbers[f] = <double>features[f]
    while below != at:
        at = below
        node = classifier.tree + at
        below = node.child[not numbers[node.feature] <= node.threshold]
    return classifier.tree[at].own


cdef inline int64_t _look_up(const Classifier* classifier, const int64_t* features, int step) noexcept nogil:
    """Return the class that a table gives for these features, which are ``step`` words apart."""
    cdef int64_t cell = 0, value
    cdef int f
    for f in range(classifier.n_features):
        value = _value_index(classifier, f, features[f * step])
        if value < 0:
            return classifier.other
        cell = cell * classifier.size[f] + value
    return classifier.table[cell]


cdef inline int64_t _value_index(const Classifier* classifier, int feature, int64_t word) noexcept nogil:
    """Return the index of a value in the table of a classifier; -1 if the table does not have it."""
    cdef double number
    if classifier.floats >> feature & 1:
        number = floor((<double*>&word)[0])
        if not -9e18 < number < 9e18:
            return -1
        word = <int64_t>number
    word -= classifier.low[feature]
    return word if <uint64_t>word < <uint64_t>classifier.size[feature] else -1


cdef inline int64_t _look_up_grid(const Classifier* classifier, const int64_t* features, int step) noexcept nogil:
    """Return the class that the table of a tree gives for these features, which are ``step`` words apart."""
    cdef const Axis* axis = classifier.axes
    cdef int64_t cell = 0, word
    cdef double number
    cdef int f
    for f in range(classifier.n_features):
        word = features[f * step]
        if axis.n_ranks > 0:
            word = min(max(word, axis.low), axis.low + axis.n_ranks - 1)
            cell += axis.ranks[word - axis.low]
        else:
            number = (<double*>&word)[0] if classifier.floats >> f & 1 else <double>word
            if number != number:
                return classifier.other
            cell += axis.offsets[_interval(axis, number)]
        axis += 1
    return classifier.table[cell]


cdef inline int64_t _interval(const Axis* axis, double number) noexcept nogil:
    """Return how many thresholds of a feature are below a number."""
    cdef int64_t below = 0, n = axis.n_thresholds, half
    while n > 0:
        half = (n + 1) >> 1
        below += half * (axis.thresholds[below + half - 1] < number)
        n -= half
    return below

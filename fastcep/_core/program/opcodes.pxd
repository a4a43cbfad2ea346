# The operations of the bytecode. ``predicate.OPCODES`` has their names, in the same order.

cdef enum:
    END, LOAD, CONST, STORE, FILTER
    I2F, NOT, AND, OR, GUARD, SELECT, KNOWN_I, KNOWN_F, KEY_F
    ADD_I, SUB_I, MUL_I, FLOORDIV_I, MOD_I, NEG_I, ABS_I, MIN_I, MAX_I
    ADD_F, SUB_F, MUL_F, FLOORDIV_F, MOD_F, NEG_F, ABS_F, MIN_F, MAX_F
    DIV_F, POW_F, SQRT, EXP, LOG, FLOOR
    EQ_I, NE_I, LT_I, LE_I, EQ_F, NE_F, LT_F, LE_F
    AGG_KNOWN, AGG_SUM_I, AGG_SUM_F, AGG_MIN_I, AGG_MIN_F, AGG_MAX_I, AGG_MAX_F
    AGG_MEAN, AGG_M2, STDDEV, CALL, IN_I, IN_F, TEXT, ZONE
    N_OPCODES

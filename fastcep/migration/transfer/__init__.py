"""Move the state of an operator to another process over TCP, the most useful partial states first.

Phases, with the frames of the old host on the left and those of the new host on the right::

    HELLO (nonce, versions)     ──▶
                                ◀──  CHALLENGE (nonce, versions)
    PROOF (of the key)          ──▶
                                ◀──  WELCOME (proof of the key)
    OFFER, BASE                 ──▶
                                ◀──  READY, or REFUSED with the reason
    PAD, STATES …, EVENTS …     ──▶
                                ◀──  ACK of each frame: bytes and states so far
    END (number, digest)        ──▶       the new host builds the operator
                                ◀──  BUILT
    COMMIT                      ──▶       the new host owns the state from here
                                ◀──  DONE

Layers, each of which imports only those above it: ``frames`` (format and codes), ``handshake`` (keys), ``link`` (a
connection with time-outs), ``pacing`` and ``schedule`` (which states to send when), ``old_host`` and ``new_host`` (the
two sides of the protocol), ``running`` (a migration in a thread, with the events that arrive meanwhile), ``sending``
and ``receiving`` (the public calls).
"""

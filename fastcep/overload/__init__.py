"""The runtime of load shedding: clocks, latencies, the input queue, and the control that carries out what is shed."""

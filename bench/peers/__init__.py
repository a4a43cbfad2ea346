"""fastcep and its peers on the same events: ``python -m bench.peers``, see ``docs/peers.md``."""

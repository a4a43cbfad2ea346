"""Cut the state of an operator into partial states, and build an operator from some of them."""

"""How one turn is decided: from one reply, or from several among which somebody chooses."""

"""Doctor: what this machine can do, and what to install or do about the rest."""

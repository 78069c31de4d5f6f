"""Agents: how a turn is decided, from one reply or from several among which verifiers, votes or the model choose.

Holds an agent a module, the votes and other wordings that they use, and the `verifiers` that score candidate moves. May
import the rooms below: dialogue, questions, scenes, observation and engines, never what runs them. Start with `base`,
then `single`, the shortest agent.
"""

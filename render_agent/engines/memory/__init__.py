"""Memory of the devices that models lie on, for the in-process engine, the verifiers that hold a model, and measurements.

Holds how much there is and was taken (`device`), and what goes wrong where it runs out (`faults`). Imports torch, and
the room `system`. Start with `device`.
"""

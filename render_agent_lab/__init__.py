"""What trains and measures the parts of render_agent: none of it is needed to run, score or report a benchmark.

`verifier_training` is the command `train-verifier`, `verifier_benchmark` the command `bench verifiers`. It may
import all of render_agent, which imports nothing of it but for its commands.
"""

"""Mutation testing: small faults are put into the code, and tests must notice them.

``python -m tests.mutants`` draws mutants of a package by a seed, runs the tests that are closest
to each, and shows those that no test noticed. A survivor gets a test; one that nothing can notice
is written into ``judged.toml`` with the reason, and is not shown again. ``--planted`` plants the
faults of ``planted.toml`` instead: each of them must be noticed by the tests that stand beside it.

Why not a tool that there is: mutmut puts all mutants of a function beside it, which values and
schemas that are made from signatures do not survive, and runs all tests once to learn which of
them reach a function; cosmic-ray changes the checkout while it runs. Neither draws by a seed.
"""

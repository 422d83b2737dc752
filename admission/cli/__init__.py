"""Command lines ``gpu-admission`` and ``kubectl-gpu``: arguments in, human or JSON output out."""

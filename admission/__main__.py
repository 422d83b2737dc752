"""``python -m admission`` is ``gpu-admission``."""

from admission.cli.main import main

if __name__ == "__main__":
    main()

"""The guides hold: their manifests and commands are run, and print what the guides show."""

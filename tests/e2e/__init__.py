"""End to end on a whole cluster: real scheduler and controllers, fake GPU nodes."""

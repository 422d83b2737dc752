"""Laws that hold for all inputs, checked with hypothesis."""

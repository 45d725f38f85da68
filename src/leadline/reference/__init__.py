"""The mathematics spelled out: explicit loops, plain numbers. For readers, and the oracle of the tests."""

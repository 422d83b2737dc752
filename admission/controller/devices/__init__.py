"""GPUs that exist and who holds them, the capacity guard, and what changes how pods are counted.

The latter are ResourceClaims, DeviceClasses, LimitRanges and RuntimeClasses.
"""

"""Settings of the compiler that the host changes."""

automatic_dynamic_shapes = True
recompile_limit = 8
accumulated_recompile_limit = 256

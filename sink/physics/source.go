package physics

import "embed"

// Source is the code of this package. Checkpoints of stages that use it become stale when it changes.
var Source embed.FS

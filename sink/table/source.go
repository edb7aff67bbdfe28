package table

import "embed"

// Source is the code of this package: checkpoints of what follows from it are
// stale when it changes.
//
//go:embed *.go
var Source embed.FS

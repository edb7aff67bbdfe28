package catalog

import "embed"

// Source is the code of this package: checkpoints of what follows from it are
// stale when it changes.
//
//go:embed *.go catalog.json
var Source embed.FS

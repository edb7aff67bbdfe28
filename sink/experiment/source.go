package experiment

import "embed"

// Source is the code of this package. Checkpoints of stages that use it are stale if it changes.
//
//go:embed *.go card.yaml
var Source embed.FS

package runtimes

// Beside lists what of a runtime's block does not change what its rows mean,
// with the reason, by the paths of stage.RuntimeValues; options say it of
// themselves (stage.Option). What is in neither this list nor Told sets
// measurements apart.
var Beside = map[string]string{
	"devices": "which of the devices; rows name theirs, and the journal the kind of device",
}

// Told lists what of a runtime's block the journal of measurements does not
// repeat, because it holds what that leads to.
var Told = map[string]string{
	"address":        "the same runtime may have another name in another plan",
	"kind":           "the journal has it",
	"framework":      "the journal has it",
	"package":        "the journal has it, with the version that was found",
	"workers":        "the journal has it where several share a device",
	"requires":       "it judges the version that was found",
	"python":         "the journal has the interpreter's version and the package's",
	"collector_root": "the journal has a digest of the collector and what it imports",
	"path":           "the journal has a digest of the op's file and what it imports",
	"launcher":       "what it starts says what it is; image and image_digest tell images apart",
	"image":          "the journal has it",
	"image_digest":   "the journal has it",
}

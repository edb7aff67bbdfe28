package runtimes

// Beside maps the attributes of a runtime block that do not change the meaning of its rows to the
// reason. Attribute paths are those of stage.RuntimeValues. Options declare this themselves; see
// stage.Option. Attributes that are neither here nor in Told distinguish measurements.
var Beside = map[string]string{
	"devices": "which of the devices; rows name theirs, and the journal the kind of device",
}

// Told maps the attributes of a runtime block that the journal does not repeat, because it contains a
// value derived from them.
var Told = map[string]string{
	"address":        "the same runtime may have another name in another plan",
	"kind":           "the journal has it",
	"framework":      "the journal has it",
	"package":        "the journal has it, with the version that was found",
	"workers":        "the journal has it if several share a device",
	"requires":       "it judges the version that was found",
	"python":         "the journal has its version and those of the distributions that the op imports",
	"collector_root": "the journal has a digest of the collector and of what it imports",
	"path":           "the journal has a digest of the op's file and of what it imports",
	"image":          "the journal has it",
	"image_digest":   "the journal has it",
}

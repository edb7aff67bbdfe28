package model

// Watched is one metric of one device over time, as telemetry saw it during the
// cases of the report's tables.
type Watched struct {
	// Device names the GPU: where it is, its index, its MIG instance.
	Device string
	// Metric is the name that readers know: "GPU power".
	Metric, Unit string
	// At are seconds since 1970, ascending; Value are what was read then.
	At, Value []float64
}

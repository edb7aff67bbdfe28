package model

// Watched is one metric of one device over time, recorded by telemetry during the
// cases of the report's tables.
type Watched struct {
	// Device names the GPU by its host, index and MIG instance.
	Device string
	// Metric is the name for people, such as "GPU power".
	Metric, Unit string
	// At are seconds since 1970, ascending. Value are the readings.
	At, Value []float64
}

// Requests are the completed requests of one load point, in order of their start.
type Requests struct {
	// Table is the address of the table, and Row the row of the load point in it.
	Table string
	Row   int
	// Start, First and End are seconds since the first request started. First is the time of the first token,
	// NaN if it is unknown.
	Start, First, End []float64
}

package results

import (
	"encoding/json"

	"aicplan/engine/stage"
)

// Prediction is the detail of the check "prediction": what was predicted of
// workloads and what was measured.
type Prediction struct {
	Kind      string             `json:"kind"` // "prediction"
	Predicted string             `json:"predicted"`
	Tables    []string           `json:"tables,omitempty"` // versions and digests of what was predicted from
	Traces    string             `json:"traces,omitempty"`
	Key       []string           `json:"key"`
	Columns   []PredictionColumn `json:"columns"`
	Workloads []Workload         `json:"workloads"`
	// Queue is nil where no server said how long its requests waited.
	Queue *QueueCompare `json:"queue,omitempty"`
	// Warned counts the workloads whose prediction comes with a warning of the package,
	// such as of a batch that does not fit; Warning is the first one.
	Warned  int    `json:"warned,omitempty"`
	Warning string `json:"warning,omitempty"`
	// More counts workloads beyond those that are listed.
	More int `json:"more,omitempty"`
}

// PredictionColumn sums up one column over the workloads.
type PredictionColumn struct {
	Name     string  `json:"name"`
	Compared int     `json:"compared"`
	P50      float64 `json:"p50"` // of |predicted / measured - 1|
	P95      float64 `json:"p95"`
	Median   float64 `json:"median_ratio"`
	LimitP50 float64 `json:"limit_p50"`
	LimitP95 float64 `json:"limit_p95"`
}

// QueueCompare says how much of the measured ttft was spent in the server's queue, and
// how far off the predictions are from what is left. It is not judged: predictions
// may have a queue of their own.
type QueueCompare struct {
	Compared int     `json:"compared"`
	Share    float64 `json:"share_of_ttft"` // median
	P50      float64 `json:"p50"`           // of |predicted / (measured - queue) - 1|
	P95      float64 `json:"p95"`
}

// Workload is one that was measured.
type Workload struct {
	Key    []string       `json:"key"` // values of the key's columns, as text
	Values []Compared     `json:"values"`
	Phases []PhaseCompare `json:"phases,omitempty"`
	// QueueMs and PrefillMs are the server's own: until a request first ran, and from
	// then until its first token.
	QueueMs   *float64 `json:"server_queue_ms,omitempty"`
	PrefillMs *float64 `json:"server_prefill_ms,omitempty"`
	// ClockMHz and PowerW are what telemetry saw while it was measured.
	ClockMHz *float64 `json:"sm_clock_mhz,omitempty"`
	PowerW   *float64 `json:"power_w,omitempty"`
}

// Compared is a column of a workload. What is not known is nil, and Why says why.
type Compared struct {
	Column    string   `json:"column"`
	Measured  *float64 `json:"measured"`
	Predicted *float64 `json:"predicted"`
	Why       string   `json:"why,omitempty"`
}

// Error is predicted / measured - 1; nil where either is not known.
func (c Compared) Error() *float64 {
	if c.Measured == nil || c.Predicted == nil || *c.Measured == 0 {
		return nil
	}
	e := *c.Predicted / *c.Measured - 1
	return &e
}

// PhaseCompare is a phase by classes of ops: times in ms of the whole prefill, or of
// one decode step.
type PhaseCompare struct {
	Name string `json:"name"`
	// Predicted is the sum of the parts, Measured the column that the phase is seen
	// in, and Gap what is left of it beside its kernels: launches, host, scheduler.
	Predicted *float64    `json:"predicted"`
	Measured  *float64    `json:"measured"`
	Kernels   *float64    `json:"kernels"`
	Gap       *float64    `json:"gap"`
	Parts     []ClassPart `json:"parts"`
	Why       string      `json:"why,omitempty"` // why the kernels are not known
}

// ClassPart is a class of ops.
type ClassPart struct {
	Class     string   `json:"class"`
	Predicted *float64 `json:"predicted"`
	Measured  *float64 `json:"measured"`
	Source    string   `json:"source,omitempty"` // where the prediction has it from
}

// PredictionOf is the detail of a check that compared predictions.
func PredictionOf(c stage.CheckResult) (*Prediction, bool) {
	if len(c.Detail) == 0 {
		return nil, false
	}
	var p Prediction
	if err := json.Unmarshal(c.Detail, &p); err != nil || p.Kind != "prediction" {
		return nil, false
	}
	return &p, true
}

package results

import (
	"encoding/json"

	"aicplan/engine/stage"
)

// Prediction is the detail of the check "prediction": predicted and measured values of workloads.
type Prediction struct {
	Kind      string             `json:"kind"` // "prediction"
	Predicted string             `json:"predicted"`
	Tables    []string           `json:"tables,omitempty"` // versions and digests of the tables that were used
	Traces    string             `json:"traces,omitempty"`
	Key       []string           `json:"key"`
	Columns   []PredictionColumn `json:"columns"`
	Workloads []Workload         `json:"workloads"`
	// Queue is nil if no server reported how long its requests waited.
	Queue *QueueCompare `json:"queue,omitempty"`
	// Warned counts the workloads whose prediction has a warning of the package, such as a batch that
	// does not fit. Warning is the first one.
	Warned  int    `json:"warned,omitempty"`
	Warning string `json:"warning,omitempty"`
	// More counts the workloads that are not listed.
	More int `json:"more,omitempty"`
}

// PredictionColumn summarizes one column over the workloads.
type PredictionColumn struct {
	Name     string  `json:"name"`
	Compared int     `json:"compared"`
	P50      float64 `json:"p50"` // of |predicted / measured - 1|
	P95      float64 `json:"p95"`
	Median   float64 `json:"median_ratio"`
	LimitP50 float64 `json:"limit_p50"`
	LimitP95 float64 `json:"limit_p95"`
}

// QueueCompare is the share of the measured ttft that was spent in the server's queue, and the error of
// the predictions against the rest. No limit applies to it, because a prediction may model its own
// queue.
type QueueCompare struct {
	Compared int     `json:"compared"`
	Share    float64 `json:"share_of_ttft"` // median
	P50      float64 `json:"p50"`           // of |predicted / (measured - queue) - 1|
	P95      float64 `json:"p95"`
}

// Workload is one measured workload.
type Workload struct {
	Key    []string       `json:"key"` // values of the key columns, as text
	Values []Compared     `json:"values"`
	Phases []PhaseCompare `json:"phases,omitempty"`
	// QueueMs and PrefillMs are reported by the server: the time until a request first ran, and from
	// then until its first token.
	QueueMs   *float64 `json:"server_queue_ms,omitempty"`
	PrefillMs *float64 `json:"server_prefill_ms,omitempty"`
	// ClockMHz and PowerW are telemetry means over the measurement.
	ClockMHz *float64 `json:"sm_clock_mhz,omitempty"`
	PowerW   *float64 `json:"power_w,omitempty"`
}

// Compared is one column of a workload. Unknown values are nil, and Why gives the reason.
type Compared struct {
	Column    string   `json:"column"`
	Measured  *float64 `json:"measured"`
	Predicted *float64 `json:"predicted"`
	Why       string   `json:"why,omitempty"`
}

// Error returns predicted / measured - 1, or nil if either is unknown.
func (c Compared) Error() *float64 {
	if c.Measured == nil || c.Predicted == nil || *c.Measured == 0 {
		return nil
	}
	e := *c.Predicted / *c.Measured - 1
	return &e
}

// PhaseCompare compares one phase by class of ops. Times are in ms, of the whole prefill or of one
// decode step.
type PhaseCompare struct {
	Name string `json:"name"`
	// Predicted is the sum of the parts and Measured the column that measures the phase. Gap is Measured
	// without the kernels: launches, host, scheduler.
	Predicted *float64    `json:"predicted"`
	Measured  *float64    `json:"measured"`
	Kernels   *float64    `json:"kernels"`
	Gap       *float64    `json:"gap"`
	Parts     []ClassPart `json:"parts"`
	Why       string      `json:"why,omitempty"` // reason why the kernels are unknown
}

// ClassPart is the time of one class of ops.
type ClassPart struct {
	Class     string   `json:"class"`
	Predicted *float64 `json:"predicted"`
	Measured  *float64 `json:"measured"`
	Source    string   `json:"source,omitempty"` // source of the predicted value
}

// PredictionOf decodes the detail of a prediction check. It returns false for other checks.
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

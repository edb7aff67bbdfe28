package stage

import (
	"fmt"
	"math"
)

// Request is what a stage asks of a cluster.
type Request struct {
	Executor string `json:"executor"`
	// Jobs are the tasks of the array, each a job of its own.
	Jobs int `json:"jobs"`
	// AtOnce are those that may run at the same time.
	AtOnce      int `json:"at_once"`
	Nodes       int `json:"nodes"`         // of each job
	GPUsPerNode int `json:"gpus_per_node"` // 0 where none are asked for
	GPUs        int `json:"gpus"`          // of all jobs that run at the same time
	// NodeHours and GPUHours are what is charged at most: every job up to its time
	// limit. 0 where the block has no time.
	NodeHours float64 `json:"node_hours,omitempty"`
	GPUHours  float64 `json:"gpu_hours,omitempty"`
}

// Text is the request in one line.
func (r Request) Text() string {
	text := fmt.Sprintf("%s: %s of %s", r.Executor, some(r.Jobs, "job"), some(r.Nodes, "node"))
	if r.GPUsPerNode > 0 {
		text += fmt.Sprintf(" with %s each", some(r.GPUsPerNode, "GPU"))
	}
	if r.AtOnce < r.Jobs {
		text += fmt.Sprintf(", %d at a time", r.AtOnce)
	}
	if r.GPUs > 0 {
		text += fmt.Sprintf("; %s at once", some(r.GPUs, "GPU"))
	}
	switch {
	case r.GPUHours > 0:
		text += fmt.Sprintf(", at most %s GPU hours", hoursText(r.GPUHours))
	case r.NodeHours > 0:
		text += fmt.Sprintf("; at most %s node hours", hoursText(r.NodeHours))
	default:
		text += "; no time limit is given, so the partition's holds"
	}
	return text
}

func some(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func hoursText(h float64) string {
	if h >= 100 || h == math.Trunc(h) {
		return fmt.Sprintf("%.0f", h)
	}
	return fmt.Sprintf("%.1f", h)
}

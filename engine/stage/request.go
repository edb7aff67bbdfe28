package stage

import (
	"fmt"
	"math"
	"strings"

	"aicplan/sink/base/textutil"
)

// Request is the request of a stage to a cluster.
type Request struct {
	Executor string `json:"executor"`
	// Jobs is the number of tasks of all arrays. Each task is one job.
	Jobs int `json:"jobs"`
	// AtOnce is the number of tasks that may run at the same time.
	AtOnce      int `json:"at_once"`
	Nodes       int `json:"nodes"`         // of the largest job
	GPUsPerNode int `json:"gpus_per_node"` // of the largest job; 0 if it requests none
	GPUs        int `json:"gpus"`          // of all jobs that run at the same time
	// NodeHours and GPUHours are the maximum charge, if every job runs until its time limit. They are 0 if the
	// block has no time.
	NodeHours float64 `json:"node_hours,omitempty"`
	GPUHours  float64 `json:"gpu_hours,omitempty"`
	// TaskCases is the number of cases of the largest task, TaskSeconds its estimated duration, and TaskLimit the
	// time in which a task starts cases. They are 0 if unknown.
	TaskCases   int     `json:"task_cases,omitempty"`
	TaskSeconds float64 `json:"task_seconds,omitempty"`
	TaskLimit   float64 `json:"task_limit,omitempty"`
	// Arrays groups the jobs by what they request.
	Arrays []RequestArray `json:"arrays,omitempty"`
}

// RequestArray is a group of jobs with the same request.
type RequestArray struct {
	Jobs        int `json:"jobs"`
	AtOnce      int `json:"at_once"`
	Nodes       int `json:"nodes"`
	GPUsPerNode int `json:"gpus_per_node"`
}

// Text describes what the jobs request.
func (a RequestArray) Text() string {
	text := fmt.Sprintf("%s of %s", textutil.Some(a.Jobs, "job"), textutil.Some(a.Nodes, "node"))
	if a.GPUsPerNode > 0 {
		text += fmt.Sprintf(" with %s each", textutil.Some(a.GPUsPerNode, "GPU"))
	}
	if a.AtOnce < a.Jobs {
		text += fmt.Sprintf(", %d at a time", a.AtOnce)
	}
	return text
}

// Text describes the request in one line.
func (r Request) Text() string {
	var arrays []string
	for _, a := range r.Arrays {
		arrays = append(arrays, a.Text())
	}
	text := r.Executor + ": " + strings.Join(arrays, "; ")
	if len(r.Arrays) > 1 && r.AtOnce < r.Jobs {
		text += fmt.Sprintf("; %d jobs at a time", r.AtOnce)
	}
	if r.GPUs > 0 {
		text += fmt.Sprintf("; %s at once", textutil.Some(r.GPUs, "GPU"))
	}
	switch {
	case r.GPUHours > 0:
		text += fmt.Sprintf(", at most %s GPU hours", hoursText(r.GPUHours))
	case r.NodeHours > 0:
		text += fmt.Sprintf("; at most %s node hours", hoursText(r.NodeHours))
	default:
		text += "; the time limit is that of the partition, because none is given"
	}

	return text
}

func hoursText(h float64) string {
	if h >= 100 || h == math.Trunc(h) {
		return fmt.Sprintf("%.0f", h)
	}
	return fmt.Sprintf("%.1f", h)
}

package stage

import (
	"fmt"
	"math"
	"strings"

	"aicplan/sink/base/textutil"
)

// Request is what a stage asks of a cluster.
type Request struct {
	Executor string `json:"executor"`
	// Jobs are the tasks of all arrays, each a job of its own.
	Jobs int `json:"jobs"`
	// AtOnce are those that may run at the same time.
	AtOnce      int `json:"at_once"`
	Nodes       int `json:"nodes"`         // of each job, of the largest
	GPUsPerNode int `json:"gpus_per_node"` // 0 where none are asked for; of the largest
	GPUs        int `json:"gpus"`          // of all jobs that run at the same time
	// NodeHours and GPUHours are what is charged at most: every job up to its time
	// limit. 0 where the block has no time.
	NodeHours float64 `json:"node_hours,omitempty"`
	GPUHours  float64 `json:"gpu_hours,omitempty"`
	// TaskCases are the cases of the task that has the most, TaskSeconds how long
	// they are estimated to take, TaskLimit how long a task takes cases before its
	// time is over. 0 where it is not known.
	TaskCases   int     `json:"task_cases,omitempty"`
	TaskSeconds float64 `json:"task_seconds,omitempty"`
	TaskLimit   float64 `json:"task_limit,omitempty"`
	// Arrays are the jobs by what they ask for.
	Arrays []RequestArray `json:"arrays,omitempty"`
}

// RequestArray are jobs that ask for the same.
type RequestArray struct {
	Jobs        int `json:"jobs"`
	AtOnce      int `json:"at_once"`
	Nodes       int `json:"nodes"`
	GPUsPerNode int `json:"gpus_per_node"`
}

// Text is what the jobs ask for.
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

// Text is the request in one line.
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
		text += "; no time limit is given, so the partition's holds"
	}

	return text
}

func hoursText(h float64) string {
	if h >= 100 || h == math.Trunc(h) {
		return fmt.Sprintf("%.0f", h)
	}
	return fmt.Sprintf("%.1f", h)
}

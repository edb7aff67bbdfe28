package executors

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"aicplan/engine/stage"
)

// Request is what shards ask for, given how many there are of each number of
// GPUs; 0 where all jobs are alike.
func (c *Config) Request(shards map[int]int) *stage.Request {
	r := &stage.Request{Executor: c.Address}
	var tasks []int
	sizes := slices.Sorted(maps.Keys(shards))
	for _, gpus := range sizes {
		tasks = append(tasks, shards[gpus])
	}
	parallel := parallels(c.Parallel, tasks)
	for i, gpus := range sizes {
		n, job := tasks[i], c.Sized(gpus)
		a := stage.RequestArray{Jobs: n, AtOnce: n, Nodes: job.Nodes, GPUsPerNode: job.GPUsPerNode}
		if parallel[i] > 0 {
			a.AtOnce = min(n, parallel[i])
		}
		r.Arrays = append(r.Arrays, a)
		r.Jobs, r.AtOnce, r.GPUs = r.Jobs+n, r.AtOnce+a.AtOnce, r.GPUs+a.AtOnce*a.Nodes*a.GPUsPerNode
		r.Nodes, r.GPUsPerNode = max(r.Nodes, a.Nodes), max(r.GPUsPerNode, a.GPUsPerNode)
		hours := c.Limit.Hours() * float64(n*a.Nodes)
		r.NodeHours += hours
		r.GPUHours += hours * float64(a.GPUsPerNode)
	}
	return r
}

func some(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// slurmTime writes a time as messages have it.
func slurmTime(d time.Duration) string {
	return d.Round(time.Second).String()
}

package executors

import (
	"cmp"
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
	most := slices.Max(append(tasks, 0))
	if c.Parallel > 0 {
		most = c.Parallel
	}
	for i, gpus := range sizes {
		n, job := tasks[i], c.Sized(gpus)
		a := stage.RequestArray{Jobs: n, AtOnce: min(n, most), Nodes: job.Nodes, GPUsPerNode: job.GPUsPerNode}
		r.Arrays = append(r.Arrays, a)
		r.Jobs += n
		r.Nodes, r.GPUsPerNode = max(r.Nodes, a.Nodes), max(r.GPUsPerNode, a.GPUsPerNode)
		hours := c.Limit.Hours() * float64(n*a.Nodes)
		r.NodeHours += hours
		r.GPUHours += hours * float64(a.GPUsPerNode)
	}
	// The most GPUs are in use when the largest jobs run together.
	r.AtOnce = r.Jobs
	if c.Parallel > 0 {
		r.AtOnce = min(r.Jobs, c.Parallel)
	}
	left := r.AtOnce
	largest := slices.SortedFunc(slices.Values(r.Arrays), func(a, b stage.RequestArray) int { return cmp.Compare(b.Nodes*b.GPUsPerNode, a.Nodes*a.GPUsPerNode) })
	for _, a := range largest {
		n := min(left, a.Jobs)
		r.GPUs, left = r.GPUs+n*a.Nodes*a.GPUsPerNode, left-n
	}
	return r
}

// rounded writes how long something took.
func rounded(d time.Duration) string {
	return d.Round(time.Second).String()
}

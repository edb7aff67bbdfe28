package executors

import (
	"maps"
	"slices"

	"aicplan/engine/stage"
)

// Request returns the resources that the jobs request. shards maps the number of GPUs per case, or 0 if
// all jobs are alike, to the number of shards.
func (c *Config) Request(shards map[int]int) *stage.Request {
	r := &stage.Request{Executor: c.Address}
	for _, gpus := range slices.Sorted(maps.Keys(shards)) {
		n, job := shards[gpus], c.Sized(gpus)
		a := stage.RequestArray{Jobs: n, AtOnce: n, Nodes: job.Nodes, GPUsPerNode: job.GPUsPerNode}
		if c.Parallel > 0 {
			a.AtOnce = min(n, c.Parallel)
		}

		r.Arrays = append(r.Arrays, a)
		r.Jobs += n
		r.AtOnce += a.AtOnce
		r.GPUs += a.AtOnce * a.Nodes * a.GPUsPerNode
		r.Nodes, r.GPUsPerNode = max(r.Nodes, a.Nodes), max(r.GPUsPerNode, a.GPUsPerNode)

		hours := c.Limit.Hours() * float64(n*a.Nodes)
		r.NodeHours += hours
		r.GPUHours += hours * float64(a.GPUsPerNode)
	}

	return r
}

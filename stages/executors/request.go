package executors

import (
	"fmt"
	"time"

	"aicplan/engine/stage"
)

// Request is what n shards ask for.
func (c *Config) Request(n int) *stage.Request {
	r := &stage.Request{Executor: c.Address, Jobs: n, AtOnce: n, Nodes: c.Nodes, GPUsPerNode: c.GPUsPerNode}
	if c.Parallel > 0 {
		r.AtOnce = min(n, c.Parallel)
	}
	r.GPUs = r.AtOnce * c.Nodes * c.GPUsPerNode
	hours := c.Limit.Hours() * float64(n*c.Nodes)
	r.NodeHours, r.GPUHours = hours, hours*float64(c.GPUsPerNode)
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

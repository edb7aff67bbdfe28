package executors

import (
	"fmt"
	"maps"
	"slices"

	"aicplan/sink/phrase"
)

// Sized is the executor as jobs have it whose cases need so many GPUs: on as few
// nodes as hold them. With 0, or without gpus_by, it is the block itself.
func (c *Config) Sized(gpus int) *Config {
	if gpus == 0 || len(c.GPUsBy) == 0 {
		return c
	}
	out := *c
	out.Nodes, out.GPUsPerNode = 1, gpus
	if gpus > c.GPUsPerNode {
		out.Nodes, out.GPUsPerNode = (gpus+c.GPUsPerNode-1)/c.GPUsPerNode, c.GPUsPerNode
	}
	return &out
}

// TooLarge says why no job has so many GPUs; "" where one can.
func (c *Config) TooLarge(gpus int) string {
	if len(c.GPUsBy) == 0 || gpus <= c.Nodes*c.GPUsPerNode {
		return ""
	}
	return fmt.Sprintf("a case needs %d GPUs, and a task of %s has at most %s with %s: set nodes and gpus_per_node of the executor, or filter the case out",
		gpus, c.Address, phrase.Some(c.Nodes, "node"), phrase.Some(c.GPUsPerNode, "GPU"))
}

// Class are cases that need the same number of GPUs, and the jobs that they are
// split into.
type Class struct {
	GPUs, Cases, Shards int
}

// Classes deals out tasks to cases of different sizes, given how many there are of
// each number of GPUs: one at least for each size, and more where there are more
// cases for each.
func (c *Config) Classes(cases map[int]int) []Class {
	var out []Class
	left := c.Tasks
	for _, gpus := range slices.Sorted(maps.Keys(cases)) {
		out = append(out, Class{GPUs: gpus, Cases: cases[gpus], Shards: 1})
		left--
	}
	for ; left > 0; left-- {
		most := -1
		for i, k := range out {
			if k.Shards < k.Cases && (most < 0 || k.Cases*out[most].Shards > out[most].Cases*k.Shards) {
				most = i
			}
		}
		if most < 0 {
			break
		}
		out[most].Shards++
	}
	return out
}

// parallels divides the number of tasks that may run at the same time among
// arrays of so many tasks each: one for each as long as there are any, and more
// where there are more tasks for each.
func parallels(most int, tasks []int) []int {
	out := make([]int, len(tasks))
	left := most
	for i := range out {
		if left > 0 && tasks[i] > 0 {
			out[i] = 1
			left--
		}
	}
	for ; left > 0; left-- {
		at := -1
		for i := range out {
			if out[i] > 0 && out[i] < tasks[i] && (at < 0 || tasks[i]*out[at] > tasks[at]*out[i]) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		out[at]++
	}
	return out
}

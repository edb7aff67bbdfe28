package collect

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/grid"
	"aicplan/stages/executors"
)

// jobSplit describes how open cases are divided among the jobs of an executor.
type jobSplit struct {
	jobs    map[int]int // number of jobs, by GPUs per case
	largest int         // cases of the largest job
}

// splitJobs divides the n open cases of j among jobs.
func (c *Config) splitJobs(j *job, n int) (*jobSplit, error) {
	if len(c.place.GPUsBy) == 0 && (len(c.Weights) == 0 || c.place.Limit <= 0) {
		tasks := max(1, min(n, c.place.Tasks))
		return &jobSplit{jobs: map[int]int{0: tasks}, largest: (n + tasks - 1) / tasks}, nil
	}

	shards, err := c.shards(j, j.todo())
	d := &jobSplit{jobs: map[int]int{}}
	for _, s := range shards {
		d.jobs[s.GPUs]++
		d.largest = max(d.largest, len(s.Places))
	}

	return d, err
}

// newOrder writes an order for the open cases.
func (r *running) newOrder(home, key string) (*executors.Order, error) {
	todo, err := r.job.together(r.job.todo(), r.Weights, "weights")
	if err != nil {
		return nil, err
	}

	shards, err := r.shards(r.job, todo)
	if err != nil {
		return nil, err
	}

	inv := *r.invocation
	inv.Options = r.rc.Options
	o := &executors.Order{Stage: r.rc.Address, Key: key, Invocation: inv, Shards: shards}
	return o, executors.Create(home, o)
}

// shards splits open cases, which are in the order of measuring, into one share for each task of the
// executor.
func (c *Config) shards(j *job, todo []int) (out []executors.Shard, err error) {
	gpus, err := c.gpusOf(j, todo)
	if err != nil {
		return nil, err
	}

	alike, count := map[int][]int{}, map[int]int{}
	for _, at := range todo {
		alike[gpus[at]] = append(alike[gpus[at]], at)
		count[gpus[at]]++
	}

	for _, class := range c.place.Classes(count) {
		cases := alike[class.GPUs]
		var groups []int
		if len(c.Weights) > 0 {
			g, err := newGrouping(j.cases, c.Weights, "weights")
			if err != nil {
				return nil, err
			}
			for _, at := range cases {
				groups = append(groups, int(g.of(at)))
			}
		}

		for _, s := range executors.Split(len(cases), groups, class.Shards) {
			places := make([]int, len(s))
			for i, at := range s {
				places[i] = cases[at]
			}
			slices.Sort(places)
			out = append(out, executors.Shard{Places: places, GPUs: class.GPUs})
		}
	}

	return out, nil
}

// gpusOf returns the number of GPUs that each case needs, by its place. The map is
// empty if the executor has no gpus_by.
func (c *Config) gpusOf(j *job, cases []int) (map[int]int, error) {
	out := map[int]int{}
	if len(c.place.GPUsBy) == 0 {
		return out, nil
	}

	cols, err := columnsOf(j.cases, c.place.GPUsBy, "gpus_by of "+c.place.Address)
	if err != nil {
		return nil, err
	}

	for _, at := range cases {
		n := 1
		for k, col := range cols {
			v := j.cases.Value(at, col)
			if v.IsNull() {
				continue // counts as one
			}

			if v.Type() != cty.Number || !v.AsBigFloat().IsInt() || v.AsBigFloat().Sign() <= 0 {
				return nil, fmt.Errorf("gpus_by of %s: %s is %s; a number of GPUs is needed", c.place.Address,
					c.place.GPUsBy[k], grid.Text(v))
			}

			f, _ := v.AsBigFloat().Int64()
			n *= int(f)
		}

		if why := c.place.TooLarge(n, c.onOneNode()); why != "" {
			return nil, fmt.Errorf("%s", why)
		}

		out[at] = n
	}

	return out, nil
}

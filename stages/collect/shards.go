package collect

import (
	"fmt"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/stages/executors"
)

// dealt is how open cases are dealt out to the jobs of an executor, each by the
// number of GPUs that it has.
type dealt struct {
	jobs  map[int]int
	cases map[int]int // without the samples of the ramp
	// samples is how many cases the job of the ramp's samples has; 0 where there
	// is none.
	samples int
	// largest is how many cases the job with the most has.
	largest int
	// again is what largest would be with another number of tasks; nil where even
	// shares say so.
	again func(tasks int) int
}

// deal says how n open cases are dealt out; j has them where the executor or
// weights ask which they are.
func (c *Config) deal(j *job, n int) (*dealt, error) {
	d := &dealt{jobs: map[int]int{}, cases: map[int]int{}}
	if !c.dealsByCase() {
		if sizes := c.limits.rungs; len(sizes) > 0 && sizes[0] < n {
			d.samples = scouted(sizes, n)
			n -= d.samples
			d.jobs[0]++
		}
		tasks := max(1, min(n, c.place.Tasks))
		d.jobs[0] += tasks
		d.cases[0] = n
		d.largest = max(d.samples, (n+tasks-1)/tasks)
		return d, nil
	}
	shards, scout, err := c.shards(j, j.todo(), stage.Options{})
	for i, s := range shards {
		d.jobs[s.GPUs]++
		if scout && i == 0 {
			d.samples = len(s.Places)
		} else {
			d.cases[s.GPUs] += len(s.Places)
		}
		d.largest = max(d.largest, len(s.Places))
	}
	if len(c.Weights) > 0 {
		d.again = func(tasks int) int {
			place := *c.place
			place.Tasks = tasks
			shards, _, _ := c.split(j, j.todo(), &place, stage.Options{})
			largest := 0
			for _, s := range shards {
				largest = max(largest, len(s.Places))
			}
			return largest
		}
	}
	return d, err
}

// dealsByCase says whether the jobs depend on which cases are open, and not only on
// how many.
func (c *Config) dealsByCase() bool {
	return len(c.place.GPUsBy) > 0 || len(c.Weights) > 0 && c.place.Limit > 0
}

// scouted is how many of n cases are samples of the ramp.
func scouted(sizes []int, n int) (out int) {
	for _, s := range sizes {
		if s < n {
			out = max(out, s)
		}
	}
	return out
}

// newOrder writes down what is to be done: the open cases in shards.
func (r *running) newOrder(home, key string) (*executors.Order, error) {
	todo, err := r.job.order(r.job.todo(), r.Order, r.Weights, r.rc.Options)
	if err != nil {
		return nil, err
	}
	shards, scouts, err := r.shards(r.job, todo, r.rc.Options)
	if err != nil {
		return nil, err
	}
	inv := *r.invocation
	inv.Options = r.rc.Options
	o := &executors.Order{
		ID: executors.NewID(home, time.Now()), Stage: r.rc.Address, Executor: r.place.Address, Key: key, Invocation: inv, Scout: scouts, Created: time.Now().UTC(),
	}
	if s := r.place.Sentinels; s != nil {
		if o.Sentinels, err = r.sentinelCases(s.Cases); err != nil {
			return nil, err
		}
	}
	return o, executors.Create(home, o, shards)
}

// shards splits open cases, in the order in which they are to be measured, into
// what the tasks of the executor have. scout is true when the first one has the
// samples of the ramp.
func (c *Config) shards(j *job, todo []int, o stage.Options) ([]executors.Shard, bool, error) {
	return c.split(j, todo, c.place, o)
}

func (c *Config) split(j *job, todo []int, place *executors.Config, o stage.Options) (out []executors.Shard, scout bool, err error) {
	gpus, err := c.gpusOf(j, todo)
	if err != nil {
		return nil, false, err
	}
	rest := todo
	if all := rungs(todo, c.limits.rungs, o.Seed); len(all) > 1 {
		samples := slices.Concat(all[:len(all)-1]...)
		most := 0
		for _, at := range samples {
			most = max(most, gpus[at])
		}
		slices.Sort(samples)
		out, scout, rest = append(out, executors.Shard{Places: samples, GPUs: most}), true, all[len(all)-1]
	}
	alike := map[int][]int{}
	count := map[int]int{}
	for _, at := range rest {
		alike[gpus[at]] = append(alike[gpus[at]], at)
		count[gpus[at]]++
	}
	for _, class := range place.Classes(count) {
		cases := alike[class.GPUs]
		var groups []int
		if len(c.Weights) > 0 {
			if groups, err = j.weightGroups(cases, c.Weights); err != nil {
				return nil, false, err
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
	return out, scout, nil
}

// gpusOf is how many GPUs cases need, by their places, where the executor has an
// array for each number.
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
				continue // as one
			}
			if v.Type() != cty.Number || !v.AsBigFloat().IsInt() || v.AsBigFloat().Sign() <= 0 {
				return nil, fmt.Errorf("gpus_by of %s: %s is %s; a number of GPUs is needed", c.place.Address, c.place.GPUsBy[k], text(v))
			}
			f, _ := v.AsBigFloat().Int64()
			if f > 1<<20 || int64(n)*f > 1<<20 {
				return nil, fmt.Errorf("gpus_by of %s: %s is %s; no cluster has so many GPUs", c.place.Address, c.place.GPUsBy[k], text(v))
			}
			n *= int(f)
		}
		if why := c.place.TooLarge(n); why != "" {
			return nil, fmt.Errorf("%s", why)
		}
		out[at] = n
	}
	return out, nil
}

// weightGroups numbers the values of the columns of weights, by task.
func (j *job) weightGroups(tasks []int, weights []string) ([]int, error) {
	cols, err := columnsOf(j.cases, weights, "weights")
	if err != nil {
		return nil, err
	}
	numbers, out := map[string]int{}, make([]int, len(tasks))
	for i, t := range tasks {
		name := groupName(j.cases, t, weights, cols)
		n, ok := numbers[name]
		if !ok {
			n = len(numbers)
			numbers[name] = n
		}
		out[i] = n
	}
	return out, nil
}

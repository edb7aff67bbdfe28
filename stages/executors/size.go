package executors

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// Sized returns a copy of c for cases that need the given number of GPUs, on as few nodes as possible.
// If gpus is 0 or gpus_by is not set, it returns c.
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

// TooLarge returns a message if no job can have so many GPUs, or "". oneNode is true if they must be on one node.
func (c *Config) TooLarge(gpus int, oneNode bool) string {
	if oneNode && len(c.GPUsBy) > 0 && gpus > c.GPUsPerNode {
		return fmt.Sprintf(
			"a case needs %d GPUs, its server runs on one node, and a node of %s has %s: filter the case out, or start the "+
				"server on all nodes with a command that begins with srun",
			gpus,
			c.Address,
			textutil.Some(c.GPUsPerNode, "GPU"),
		)
	}

	if len(c.GPUsBy) == 0 || gpus <= c.Nodes*c.GPUsPerNode {
		return ""
	}

	return fmt.Sprintf(
		"a case needs %d GPUs, and a task of %s has at most %s with %s: set nodes and gpus_per_node of the executor, or "+
			"filter the case out",
		gpus,
		c.Address,
		textutil.Some(c.Nodes, "node"),
		textutil.Some(c.GPUsPerNode, "GPU"),
	)
}

// Class is the set of cases that need the same number of GPUs, with the number of shards for them.
type Class struct {
	GPUs, Cases, Shards int
}

// Classes divides the tasks among cases of different sizes. cases maps the number of GPUs to the number
// of cases. Each class gets at least one task, and larger classes get more.
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

// Grown is how often time and memory of a shard's task have grown.
type Grown struct {
	Time   int `json:"time,omitempty"`
	Memory int `json:"memory,omitempty"`
}

var memorySize = regexp.MustCompile(`^(\d+)([KMGT]?)$`)

func checkMemory(text string) error {
	if !memorySize.MatchString(text) {
		return fmt.Errorf("%q is not a size such as 64G, 512M or 65536 (megabytes)", text)
	}
	return nil
}

// grown returns a copy of c with more time and memory. A time limit that the plan does not set does not grow.
func (c *Config) grown(g Grown) *Config {
	out := *c
	if c.Limit > 0 && g.Time > 0 {
		minutes := math.Ceil(c.Limit.Minutes() * math.Pow(c.Grow, float64(g.Time)))
		out.Time, out.Limit = fmt.Sprintf("%.0f", minutes), time.Duration(minutes)*time.Minute
	}

	if m := memorySize.FindStringSubmatch(c.Memory); m != nil && g.Memory > 0 {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil {
			out.Memory = fmt.Sprintf("%.0f%s", math.Ceil(n*math.Pow(c.Grow, float64(g.Memory))), m[2])
		}
	}
	return &out
}

// growth returns what a task lacked according to the accounting. Time only counts if the try has brought no row,
// because a task that has stored rows continues from there.
func (c *Config) growth(ending string, rows bool) (g Grown) {
	switch {
	case c.Grow == 1:
	case strings.Contains(ending, "OUT_OF_MEMORY") && c.Memory != "":
		g.Memory = 1
	case strings.Contains(ending, "TIMEOUT") && c.Limit > 0 && !rows:
		g.Time = 1
	}
	return g
}

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

// Split divides n cases among at most shards shards. It returns the ascending positions of the cases of
// each shard. The result is deterministic.
//
// groups has the group of each case, in measuring order. Cases of one group stay together if the group
// is no larger than a fair share, because they share what is loaded for them. If groups is nil, each case is a group of
// its own.
func Split(n int, groups []int, shards int) [][]int {
	shards = max(1, min(n, shards))
	if n == 0 {
		return nil
	}

	if groups == nil {
		groups = make([]int, n)
		for i := range groups {
			groups[i] = i
		}
	}

	// Divide the groups into pieces, none larger than a fair share.
	share := (n + shards - 1) / shards
	var order []int
	members := map[int][]int{}
	for i, g := range groups {
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], i)
	}

	var pieces [][]int
	for _, g := range order {
		all := members[g]
		parts := (len(all) + share - 1) / share
		for p := range parts {
			pieces = append(pieces, all[p*len(all)/parts:(p+1)*len(all)/parts])
		}
	}

	// Assign the pieces, largest first, to a shard with the fewest cases, drawn at random. In a fixed order, an axis with
	// as many values as there are shards would be split by its values, and a difference between nodes would look like
	// one between cases.
	slices.SortStableFunc(pieces, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	random, out := rand.New(rand.NewPCG(uint64(n), uint64(shards))), make([][]int, shards)
	for _, p := range pieces {
		first := random.IntN(shards)
		least := first
		for i := range shards {
			if s := (first + i) % shards; len(out[s]) < len(out[least]) {
				least = s
			}
		}
		out[least] = append(out[least], p...)
	}

	out = slices.DeleteFunc(out, func(s []int) bool { return len(s) == 0 })
	for _, s := range out {
		slices.Sort(s)
	}

	slices.SortFunc(out, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return out
}

package executors

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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

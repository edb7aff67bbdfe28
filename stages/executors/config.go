package executors

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// Config is an executor block.
type Config struct {
	Kind    string
	Address string
	Range   hcl.Range

	Account, Partition, QOS, Constraint string
	// Time is the time limit of a task as the plan writes it, Limit the same as a
	// duration. Both are zero if the partition's limit applies.
	Time  string
	Limit time.Duration

	// Memory is the memory of each node of a task, such as "64G". Grow is the factor by which time and memory
	// grow; see Grown.
	Memory string
	Grow   float64

	Nodes, TasksPerNode, GPUsPerNode int
	// GPUsBy names columns whose product is the number of GPUs that a case needs.
	// Cases that need different numbers are submitted as separate arrays. If it is
	// empty, all jobs are alike.
	GPUsBy []string

	// Tasks limits the number of shards, Parallel the tasks of an array that run at
	// the same time (0: no limit).
	Tasks, Parallel int
	JobName         string
	Logs            string // absolute; empty means a folder of the order
	Modules, Setup  []string
	Options         map[string]string

	Drain, Poll time.Duration
	Attempts    int

	Container Container
}

// Container describes the container that a task runs in. Kind is empty without one.
type Container struct {
	Kind, Image string
	Mounts      []string
}

// ours maps options of sbatch that aicplan sets to the attribute that sets them.
// The attribute is empty if the tasks depend on the value.
var ours = map[string]string{
	"account": "account", "partition": "partition", "qos": "qos", "constraint": "constraint", "time": "time",
	"mem": "memory", "nodes": "nodes", "ntasks-per-node": "tasks_per_node", "gpus-per-node": "gpus_per_node",
	"job-name": "job_name", "output": "logs", "error": "logs", "array": "tasks and parallel", "signal": "drain",
	"requeue": "", "no-requeue": "", "open-mode": "", "parsable": "", "wait": "", "wrap": "", "test-only": "",
	"chdir":    "",
	"clusters": "the environment variable SLURM_CLUSTERS", "cluster": "the environment variable SLURM_CLUSTERS",
}

// mostDrain is the longest time before the time limit at which Slurm can send a
// signal.
const mostDrain = 65535 * time.Second

var optionName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// Parse reads an executor block.
func Parse(s *stage.Service) (*Config, error) {
	c := &Config{Address: s.Address, Range: s.Range}
	if err := runtimes.Decode(s, c.options()); err != nil {
		return nil, err
	}

	var problem error
	fail := func(format string, args ...any) { problem = cmp.Or(problem, fmt.Errorf(format, args...)) }
	if c.Kind == Local {
		for _, name := range slices.Sorted(maps.Keys(s.Options)) {
			if name != "kind" {
				fail("%s has no meaning for an executor of kind local; remove it", name)
			}
		}
		return c, problem
	}

	if c.Logs != "" && !filepath.IsAbs(c.Logs) {
		c.Logs = filepath.Join(s.Dir, c.Logs)
	}

	var err error
	if c.Time != "" {
		if c.Limit, err = ParseTime(c.Time); err != nil {
			fail("%v", err)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		by, taken := ours[name]
		switch {
		case !optionName.MatchString(name):
			fail("options has %q; use the long name of an sbatch option without dashes, such as reservation", name)
		case taken && by != "":
			fail("options has %q; set %s instead", name, by)
		case taken:
			fail("options has %q, which aicplan itself sets", name)
		}
	}

	if c.Limit > 0 && c.Limit <= c.Drain {
		fail("drain is %s and the time limit %s: no time to measure is left", c.Drain, c.Limit)
	}
	if c.Drain < time.Second || c.Drain > mostDrain || c.Drain%time.Second != 0 {
		fail("drain is %s; Slurm takes whole seconds from 1s to %s", c.Drain, mostDrain)
	}
	if len(c.GPUsBy) > 0 && c.GPUsPerNode == 0 {
		fail("gpus_by needs gpus_per_node, the number of GPUs of a node")
	}
	if c.Poll < 100*time.Millisecond {
		fail("poll is %s; the minimum is 100ms", c.Poll)
	}

	for _, m := range c.Container.Mounts {
		if !strings.HasPrefix(m, "/") {
			fail("container: a mount is %q; it must be FROM:TO with absolute paths", m)
		}
	}

	if problem != nil {
		return nil, problem
	}

	return c, nil
}

// Elsewhere reports whether other processes than this one measure the cases.
func (c *Config) Elsewhere() bool { return c != nil && c.Kind == Slurm }

var timeLimit = regexp.MustCompile(`^(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?$`)

// ParseTime parses a time limit in Slurm's notation: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes,
// days-hours:minutes:seconds. It returns 0 for UNLIMITED.
func ParseTime(text string) (time.Duration, error) {
	if strings.EqualFold(text, "UNLIMITED") || strings.EqualFold(text, "INFINITE") {
		return 0, nil
	}

	m := timeLimit.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("time is %q; Slurm takes minutes, minutes:seconds, hours:minutes:seconds, days-hours, "+
			"days-hours:minutes or days-hours:minutes:seconds", text)
	}

	var n [5]int
	for i, digits := range m {
		n[i], _ = strconv.Atoi(digits) // 0 if the part is missing
	}

	sec := 0
	switch {
	case m[1] != "": // days-hours[:minutes[:seconds]]
		sec = n[1]*86400 + n[2]*3600 + n[3]*60 + n[4]
	case m[4] != "": // hours:minutes:seconds
		sec = n[2]*3600 + n[3]*60 + n[4]
	default: // minutes[:seconds]
		sec = n[2]*60 + n[3]
	}

	if sec == 0 {
		return 0, fmt.Errorf("time is %q; it must be more than zero", text)
	}
	return time.Duration(sec) * time.Second, nil
}

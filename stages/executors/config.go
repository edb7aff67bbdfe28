package executors

import (
	"fmt"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// Config is an executor block.
type Config struct {
	Kind    string
	Name    string
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

	Container *Container
}

// Container describes the container that a task runs in.
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
	for name, v := range s.Options {
		if !v.IsWhollyKnown() {
			return nil, fmt.Errorf("%s of %s is known only after another stage has run; an executor must be known before",
				name, s.Address)
		}
	}

	r := reader{values: s.Options}
	c := &Config{
		Name: s.Name, Address: s.Address, Range: s.Range, Kind: r.text("kind"),
		Account: r.text("account"), Partition: r.text("partition"), QOS: r.text("qos"),
		Constraint: r.text("constraint"), JobName: r.text("job_name"), Logs: r.text("logs"),
		Time: r.text("time"), Memory: r.text("memory"), Grow: r.factor("grow", 1),
		Nodes: r.count("nodes", 1), TasksPerNode: r.count("tasks_per_node", 1),
		GPUsPerNode: r.count("gpus_per_node", 0),
		Tasks:       r.count("tasks", 1), Parallel: r.count("parallel", 0), Attempts: r.count("attempts", 3),
		GPUsBy: r.texts("gpus_by"), Modules: r.texts("modules"), Setup: r.texts("setup"), Options: r.words("options"),
		Drain: r.duration("drain", 120*time.Second), Poll: r.duration("poll", 5*time.Second),
	}

	if c.Kind == Local {
		for _, name := range sortedNames(s.Options) {
			if name != "kind" {
				r.fail("%s has no meaning for an executor of kind local; remove it", name)
			}
		}
		return c, r.err
	}

	if c.Logs != "" && !filepath.IsAbs(c.Logs) {
		c.Logs = filepath.Join(s.Dir, c.Logs)
	}

	var err error
	if c.Time != "" {
		if c.Limit, err = ParseTime(c.Time); err != nil {
			r.fail("%v", err)
		}
	}

	for name, text := range map[string]string{
		"account": c.Account, "partition": c.Partition, "qos": c.QOS, "constraint": c.Constraint,
		"job_name": c.JobName, "logs": c.Logs,
	} {
		if strings.ContainsAny(text, "\n\r\x00") {
			r.fail("%s contains a line break", name)
		}
	}

	for _, m := range c.Modules {
		if strings.ContainsAny(m, " \t\n\r;&|$`'\"") || m == "" {
			r.fail("modules contains %q, which is not a module name; put other commands into setup", m)
		}
	}

	for name, value := range c.Options {
		by, taken := ours[name]
		switch {
		case !optionName.MatchString(name):
			r.fail("options has %q; use the long name of an sbatch option without dashes, such as reservation", name)
		case taken && by != "":
			r.fail("options has %q; set %s instead", name, by)
		case taken:
			r.fail("options has %q, which aicplan itself sets", name)
		case strings.ContainsAny(value, "\n\r\x00"):
			r.fail("options: %s contains a line break", name)
		}
	}

	if c.Limit > 0 && c.Limit <= c.Drain {
		r.fail("drain is %s and the time limit %s: no time to measure is left", c.Drain, c.Limit)
	}
	if c.Drain < time.Second || c.Drain > mostDrain || c.Drain%time.Second != 0 {
		r.fail("drain is %s; Slurm takes whole seconds from 1s to %s", c.Drain, mostDrain)
	}
	if len(c.GPUsBy) > 0 && c.GPUsPerNode == 0 {
		r.fail("gpus_by needs gpus_per_node, the number of GPUs of a node")
	}
	if c.Poll < 100*time.Millisecond {
		r.fail("poll is %s; the minimum is 100ms", c.Poll)
	}

	for name, value := range map[string]int{
		"nodes": c.Nodes, "tasks_per_node": c.TasksPerNode, "tasks": c.Tasks, "attempts": c.Attempts,
	} {
		if value < 1 {
			r.fail("%s is %d; it must be at least 1", name, value)
		}
	}

	if v, ok := s.Options["container"]; ok {
		b := reader{values: v.AsValueMap()}
		c.Container = &Container{Kind: b.text("kind"), Image: b.text("image"), Mounts: b.texts("mounts")}
		for _, m := range c.Container.Mounts {
			if !strings.HasPrefix(m, "/") {
				b.fail("container: a mount is %q; it must be FROM:TO with absolute paths", m)
			}
		}
		if b.err != nil {
			r.fail("%w", b.err)
		}
	}

	if r.err != nil {
		return nil, r.err
	}

	return c, nil
}

// Elsewhere reports whether other processes than this one measure the cases.
func (c *Config) Elsewhere() bool { return c != nil && c.Kind == Slurm }

var timeLimit = regexp.MustCompile(`^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$`)

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

	var n [5]int64
	for i := 1; i < 5; i++ {
		if m[i] == "" {
			continue
		}
		v, err := strconv.ParseInt(m[i], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("time is %q, which is too long", text)
		}
		n[i] = v
	}

	var sec int64
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

// reader reads the values of a block and keeps the first error.
type reader struct {
	values map[string]cty.Value
	err    error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) text(name string) string {
	if v, ok := r.values[name]; ok {
		return v.AsString()
	}
	return ""
}

func (r *reader) count(name string, def int) int {
	v, ok := r.values[name]
	if !ok {
		return def
	}
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < 0 || n > 1<<30 {
		r.fail("%s is %s; it must be a whole number", name, v.AsBigFloat().Text('g', 6))
	}
	return int(n)
}

func (r *reader) factor(name string, def float64) float64 {
	v, ok := r.values[name]
	if !ok {
		return def
	}
	f, _ := v.AsBigFloat().Float64()
	if !(f >= 1 && f <= 16) {
		r.fail("%s is %v; it must be a factor from 1 to 16", name, f)
	}
	return f
}

func (r *reader) duration(name string, def time.Duration) time.Duration {
	v, ok := r.values[name]
	if !ok {
		return def
	}
	d, err := time.ParseDuration(v.AsString())
	if err != nil || d < 0 {
		r.fail("%s is %q; it must be a duration such as \"90s\" or \"5m\"", name, v.AsString())
	}
	return d
}

func (r *reader) texts(name string) (out []string) {
	v, ok := r.values[name]
	if !ok {
		return nil
	}

	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() {
			r.fail("%s contains null", name)
			continue
		}
		out = append(out, e.AsString())
	}

	return out
}

func (r *reader) words(name string) map[string]string {
	v, ok := r.values[name]
	if !ok {
		return nil
	}

	out := map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if !e.IsNull() {
			out[k.AsString()] = e.AsString()
		}
	}

	return out
}

func sortedNames[V any](m map[string]V) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

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

	Account, Partition, QOS, Constraint, Memory string
	// Time is the limit of a task as the plan writes it, Limit what it comes to; 0
	// where the partition's holds.
	Time  string
	Limit time.Duration

	Nodes, TasksPerNode, GPUsPerNode, CPUsPerTask int
	// GPUsBy are columns whose product is the number of GPUs that a case needs:
	// each number has an array of its own. Without, all jobs are alike.
	GPUsBy []string

	Tasks, Parallel int
	JobName         string
	Logs            string // absolute; "" means beside the order
	Modules, Setup  []string
	Options         map[string]string
	Program         string

	Drain, Poll, StartWithin, Settle time.Duration
	Attempts                         int

	Container *Container
	Sentinels *Sentinels
}

// Container is what every task runs in.
type Container struct {
	Kind, Image     string
	Mounts, Options []string
}

// Sentinels are cases that every task measures first.
type Sentinels struct {
	Cases int
	Limit float64 // a share
}

// ours are options of sbatch that aicplan itself sets: by an attribute of the
// block, or because the tasks rest on them.
var ours = map[string]string{
	"account": "account", "partition": "partition", "qos": "qos", "constraint": "constraint", "time": "time", "nodes": "nodes",
	"ntasks-per-node": "tasks_per_node", "gpus-per-node": "gpus_per_node", "cpus-per-task": "cpus_per_task", "mem": "memory",
	"job-name": "job_name", "output": "logs", "error": "logs", "array": "tasks and parallel",
	"signal": "drain", "requeue": "", "no-requeue": "", "open-mode": "", "comment": "", "dependency": "", "kill-on-invalid-dep": "",
	"parsable": "", "wait": "", "wrap": "", "test-only": "", "chdir": "",
}

// barred are options of sbatch with which the jobs could not be followed.
var barred = map[string]string{
	"clusters": "the jobs would be in the queue of another cluster; set SLURM_CLUSTERS in the environment, which all commands of Slurm read, or apply on a login node of that cluster",
	"cluster":  "the jobs would be in the queue of another cluster; set SLURM_CLUSTERS in the environment, which all commands of Slurm read, or apply on a login node of that cluster",
	"uid":      "the jobs would be another user's; apply as that user",
	"gid":      "what the jobs write would be another group's; apply with that group",
	"help":     "sbatch would print its help and submit nothing", "usage": "sbatch would print its help and submit nothing", "version": "sbatch would print its version and submit nothing",
}

// mostDrain is the longest time before the end at which Slurm can send a signal.
const mostDrain = 65535 * time.Second

var optionName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// Parse reads an executor block; errors say what is wrong with which option.
func Parse(s *stage.Service) (*Config, error) {
	for name, v := range s.Options {
		if !v.IsWhollyKnown() {
			return nil, fmt.Errorf("%s of %s is known only after another stage has run; an executor must be known before", name, s.Address)
		}
	}
	r := reader{values: s.Options}
	c := &Config{
		Name: s.Name, Address: s.Address, Range: s.Range, Kind: r.text("kind", ""),
		Account: r.text("account", ""), Partition: r.text("partition", ""), QOS: r.text("qos", ""), Constraint: r.text("constraint", ""),
		Memory: r.text("memory", ""), Time: r.text("time", ""), JobName: r.text("job_name", ""), Logs: r.text("logs", ""), Program: r.text("program", ""),
		Nodes: r.count("nodes", 1), TasksPerNode: r.count("tasks_per_node", 1), GPUsPerNode: r.count("gpus_per_node", 0), CPUsPerTask: r.count("cpus_per_task", 0),
		Tasks: r.count("tasks", 1), Parallel: r.count("parallel", 0), Attempts: r.count("attempts", 3),
		GPUsBy: r.texts("gpus_by"), Modules: r.texts("modules"), Setup: r.texts("setup"), Options: r.words("options"),
		Drain: r.duration("drain", 120*time.Second), Poll: r.duration("poll", 5*time.Second),
		StartWithin: r.duration("start_within", 0), Settle: r.duration("settle", time.Minute),
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
	for _, line := range []struct{ name, text string }{
		{"account", c.Account}, {"partition", c.Partition}, {"qos", c.QOS}, {"constraint", c.Constraint}, {"memory", c.Memory}, {"job_name", c.JobName}, {"logs", c.Logs}, {"program", c.Program},
	} {
		if strings.ContainsAny(line.text, "\n\r\x00") {
			r.fail("%s holds a line break", line.name)
		}
	}
	for _, m := range c.Modules {
		if strings.ContainsAny(m, " \t\n\r;&|$`'\"") || m == "" {
			r.fail("modules names %q, which is no name of a module; other lines belong into setup", m)
		}
	}
	for name, value := range c.Options {
		by, taken := ours[name]
		switch {
		case !optionName.MatchString(name):
			r.fail("options has %q; a name is the long one of sbatch without dashes in front, such as reservation", name)
		case barred[name] != "":
			r.fail("options has %q: %s", name, barred[name])
		case taken && by != "":
			r.fail("options has %q, which %s says", name, by)
		case taken:
			r.fail("options has %q, which aicplan itself sets", name)
		case strings.ContainsAny(value, "\n\r\x00"):
			r.fail("options: %s holds a line break", name)
		}
	}
	if c.Limit > 0 && c.Limit <= c.Drain {
		r.fail("drain is %s and the time limit %s: no time to measure is left", c.Drain, c.Limit)
	}
	if c.Drain < time.Second || c.Drain > mostDrain || c.Drain%time.Second != 0 {
		r.fail("drain is %s; Slurm takes whole seconds from 1s to %s", c.Drain, mostDrain)
	}
	if len(c.GPUsBy) > 0 && c.GPUsPerNode == 0 {
		r.fail("gpus_by needs gpus_per_node, which says how many GPUs a node has")
	}
	if c.Poll < 100*time.Millisecond {
		r.fail("poll is %s; the shortest is 100ms, to be kind to the scheduler", c.Poll)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"nodes", c.Nodes}, {"tasks_per_node", c.TasksPerNode}, {"tasks", c.Tasks}, {"attempts", c.Attempts}} {
		if n.value < 1 {
			r.fail("%s is %d; it is a number from 1", n.name, n.value)
		}
	}
	if v, ok := s.Options["container"]; ok {
		b := reader{values: v.AsValueMap()}
		c.Container = &Container{Kind: b.text("kind", ""), Image: b.text("image", ""), Mounts: b.texts("mounts"), Options: b.texts("options")}
		for _, m := range c.Container.Mounts {
			if !strings.HasPrefix(m, "/") {
				b.fail("a mount is %q; it is FROM:TO with absolute paths", m)
			}
		}
		r.take("container", b.err)
	}
	if v, ok := s.Options["sentinels"]; ok {
		b := reader{values: v.AsValueMap()}
		c.Sentinels = &Sentinels{Cases: b.count("cases", 3), Limit: b.number("limit", 0.05)}
		if c.Sentinels.Cases < 1 || c.Sentinels.Limit <= 0 {
			b.fail("cases is a number from 1 and limit a share above 0")
		}
		r.take("sentinels", b.err)
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// Elsewhere says whether cases are measured by other processes than this one.
func (c *Config) Elsewhere() bool { return c != nil && c.Kind == Slurm }

var timeLimit = regexp.MustCompile(`^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$`)

// ParseTime reads a time limit as Slurm writes it: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes,
// days-hours:minutes:seconds. 0 stands for UNLIMITED.
func ParseTime(text string) (time.Duration, error) {
	if strings.EqualFold(text, "UNLIMITED") || strings.EqualFold(text, "INFINITE") {
		return 0, nil
	}
	m := timeLimit.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("time is %q; Slurm takes minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:minutes:seconds", text)
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
		return 0, fmt.Errorf("time is %q, which is no time at all", text)
	}
	return time.Duration(sec) * time.Second, nil
}

// reader reads the values of a block and keeps the first thing that is wrong.
type reader struct {
	values map[string]cty.Value
	err    error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) take(block string, err error) {
	if err != nil {
		r.fail("%s: %w", block, err)
	}
}

func (r *reader) text(name, def string) string {
	if v, ok := r.values[name]; ok {
		return v.AsString()
	}
	return def
}

func (r *reader) number(name string, def float64) float64 {
	if v, ok := r.values[name]; ok {
		f, _ := v.AsBigFloat().Float64()
		return f
	}
	return def
}

func (r *reader) count(name string, def int) int {
	v, ok := r.values[name]
	if !ok {
		return def
	}
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < 0 || n > 1<<30 {
		r.fail("%s is %s; it is a whole number", name, v.AsBigFloat().Text('g', 6))
	}
	return int(n)
}

func (r *reader) duration(name string, def time.Duration) time.Duration {
	v, ok := r.values[name]
	if !ok {
		return def
	}
	d, err := time.ParseDuration(v.AsString())
	if err != nil || d < 0 {
		r.fail("%s is %q; it is a time such as \"90s\" or \"5m\"", name, v.AsString())
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
			r.fail("%s has a null", name)
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
		if e.IsNull() {
			continue
		}
		out[k.AsString()] = e.AsString()
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

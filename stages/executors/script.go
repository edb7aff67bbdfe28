package executors

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Script is what a job needs besides the executor's block.
type Script struct {
	Stage    string // address of the collect
	Order    string // id of the order, by which jobs are found again
	OrderDir string
	StateDir string
	PlanDir  string
	LogDir   string
	Program  string // the path of this program
}

// Title is the name that squeue shows.
func (c *Config) Title(stage string) string {
	if c.JobName != "" {
		return c.JobName
	}
	return "aic:" + stage
}

// Header are the lines "#SBATCH ..." as a person would write them, in the order
// that is usual: who pays, what kind of node, how long, how many, names, output.
func (c *Config) Header(s Script) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, "#SBATCH "+fmt.Sprintf(format, args...)) }
	flag := func(name, value string) {
		if value != "" {
			add("-%s %s", name, quoteWord(value))
		}
	}
	flag("A", c.Account)
	flag("C", c.Constraint)
	flag("p", c.Partition)
	flag("q", c.QOS)
	flag("t", c.Time)
	add("-N %d", c.Nodes)
	add("--ntasks-per-node=%d", c.TasksPerNode)
	if c.CPUsPerTask > 0 {
		add("--cpus-per-task=%d", c.CPUsPerTask)
	}
	if c.GPUsPerNode > 0 {
		add("--gpus-per-node=%d", c.GPUsPerNode)
	}
	if c.Memory != "" {
		add("--mem=%s", quoteWord(c.Memory))
	}
	name := c.Title(s.Stage)
	flag("J", name)
	// In a name of a file a percent sign begins one of Slurm's patterns.
	file := filepath.Join(strings.ReplaceAll(s.LogDir, "%", "%%"), fileName(name)+"_%A_%a")
	flag("o", file+".out")
	flag("e", file+".err")
	for _, name := range sortedNames(c.Options) {
		if value := c.Options[name]; value != "" {
			add("--%s=%s", name, quoteWord(value))
		} else {
			add("--%s", name)
		}
	}
	// What the tasks rest on: a warning before the end, the same job once more
	// after it, and one file of output for all tries.
	add("--signal=B:USR1@%d", int(c.Drain/time.Second))
	add("--requeue")
	add("--open-mode=append")
	add("--comment=%s", commentOf(s.Order))
	return out
}

// commentOf marks the jobs of an order.
func commentOf(order string) string { return "aicplan:" + order }

// Text is the whole script. Its arguments are the number of the first shard of
// the array and the number of the submission.
func (c *Config) Text(s Script) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, line := range c.Header(s) {
		b.WriteString(line + "\n")
	}
	b.WriteString("\nset -e\n")
	for _, m := range c.Modules {
		b.WriteString("module load " + m + "\n")
	}
	for _, line := range c.Setup {
		b.WriteString(line + "\n")
	}
	program := c.Program
	if program == "" {
		program = s.Program
	}
	task := fmt.Sprintf(`%s --state-dir %s task %s --offset "${1:-0}" --submission "${2:-0}"`, shellWord(program), shellWord(s.StateDir), shellWord(s.OrderDir))
	// exec: the signal before the time limit goes to the script's own process.
	b.WriteString("exec " + c.through(s, program) + task + "\n")
	return b.String()
}

// through is the start of the command inside a container, with a blank behind it.
func (c *Config) through(s Script, program string) string {
	if c.Container == nil {
		return ""
	}
	mounts := slices.Clone(c.Container.Mounts)
	for _, dir := range []string{s.StateDir, s.PlanDir, filepath.Dir(program), s.LogDir} {
		if dir == "" || !filepath.IsAbs(dir) {
			continue
		}
		if m := dir + ":" + dir; !slices.ContainsFunc(mounts, func(have string) bool { return have == m || within(have, dir) }) {
			mounts = append(mounts, m)
		}
	}
	var words []string
	switch c.Container.Kind {
	case Pyxis:
		words = []string{"srun", "--nodes=1", "--ntasks=1", "--container-image=" + c.Container.Image}
		if len(mounts) > 0 {
			words = append(words, "--container-mounts="+strings.Join(mounts, ","))
		}
		words = append(words, c.Container.Options...)
	case Apptainer:
		words = []string{"apptainer", "exec"}
		if c.GPUsPerNode > 0 {
			words = append(words, "--nv")
		}
		for _, m := range mounts {
			words = append(words, "--bind", m)
		}
		words = append(append(words, c.Container.Options...), c.Container.Image)
	}
	for i, w := range words {
		words[i] = shellWord(w)
	}
	return strings.Join(words, " ") + " "
}

// within says whether a mount FROM:TO with the same name on both sides holds dir.
func within(mount, dir string) bool {
	from, to, _ := strings.Cut(mount, ":")
	to, _, _ = strings.Cut(to, ":")
	rel, err := filepath.Rel(from, dir)
	return from == to && err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// shellWord quotes a word for the shell where it has to be.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:,=@%", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteWord quotes a value of a line "#SBATCH", which sbatch splits at blanks
// and reads quotes in.
func quoteWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\"'#\\") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// fileName makes a name of a stage or job fit for a file, where Slurm's own
// patterns begin with a percent sign.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		}
		return '_'
	}, s)
}

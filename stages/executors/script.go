package executors

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/base/textutil"
)

// Script contains the values of a job script that are not in the executor block.
type Script struct {
	Stage    string // address
	OrderDir string
	StateDir string
	PlanDir  string
	LogDir   string
	Program  string // path of aicplan
}

// Title returns the job name for squeue.
func (c *Config) Title(stage string) string {
	if c.JobName != "" {
		return c.JobName
	}
	return "aic:" + stage
}

// Header returns the "#SBATCH ..." lines in the usual order: account, kind of node, time, sizes, names,
// output.
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
	if c.Memory != "" {
		add("--mem=%s", c.Memory)
	}
	add("-N %d", c.Nodes)
	add("--ntasks-per-node=%d", c.TasksPerNode)
	if c.GPUsPerNode > 0 {
		add("--gpus-per-node=%d", c.GPUsPerNode)
	}

	name := c.Title(s.Stage)
	flag("J", name)
	// Escape percent signs, because they start patterns in Slurm's file names.
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

	// The tasks depend on these options: a signal before the time limit, a requeue after it, and one
	// output file for all tries.
	add("--signal=B:USR1@%d", int(c.Drain/time.Second))
	add("--requeue")
	add("--open-mode=append")
	return out
}

// Text returns the whole script. The script takes two arguments: the first shard of the array and the
// number of the submission.
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

	task := fmt.Sprintf(`%s --state-dir %s task %s --offset "${1:-0}" --submission "${2:-0}"`,
		textutil.ShellWord(s.Program), textutil.ShellWord(s.StateDir), textutil.ShellWord(s.OrderDir))

	// Use exec because Slurm sends the signal before the time limit to the script's process.
	b.WriteString("exec " + c.through(s) + task + "\n")
	return b.String()
}

// through returns the command that starts the container, with a trailing space, or "" without a
// container.
func (c *Config) through(s Script) string {
	if c.Container.Kind == "" {
		return ""
	}

	mounts := slices.Clone(c.Container.Mounts)
	for _, dir := range []string{s.StateDir, s.PlanDir, filepath.Dir(s.Program), s.LogDir} {
		if dir == "" || !filepath.IsAbs(dir) {
			continue
		}
		if m := dir + ":" + dir; !slices.ContainsFunc(mounts,
			func(have string) bool { return have == m || within(have, dir) }) {
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

	case Apptainer:
		words = []string{"apptainer", "exec"}
		if c.GPUsPerNode > 0 {
			words = append(words, "--nv")
		}
		for _, m := range mounts {
			words = append(words, "--bind", m)
		}
		words = append(words, c.Container.Image)
	}

	for i, w := range words {
		words[i] = textutil.ShellWord(w)
	}

	return strings.Join(words, " ") + " "
}

// within reports whether a mount FROM:TO with equal sides contains dir.
func within(mount, dir string) bool {
	from, to, _ := strings.Cut(mount, ":")
	to, _, _ = strings.Cut(to, ":")
	rel, err := filepath.Rel(from, dir)
	return from == to && err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// quoteWord quotes a value for an "#SBATCH" line. sbatch splits these lines at spaces and interprets
// quotes.
func quoteWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\"'#\\") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// fileName replaces the characters that a file name should not have, such as the
// percent sign of Slurm's patterns.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		}
		return '_'
	}, s)
}

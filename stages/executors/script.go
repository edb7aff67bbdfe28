package executors

import (
	_ "embed"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"aicplan/sink/base/fileutil"
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

//go:embed job.sh
var jobScript string

// Text returns the whole script. The script takes two arguments: the first shard of the array and the
// number of the submission.
func (c *Config) Text(s Script) string {
	name := c.Title(s.Stage)
	// Escape percent signs, because they start patterns in Slurm's file names.
	output := filepath.Join(strings.ReplaceAll(s.LogDir, "%", "%%"), fileName(name)+"_%A_%a")

	var b strings.Builder
	err := textutil.Fill(&b, jobScript, struct {
		*Config
		Script
		Title, Output, Through string
	}{c, s, name, output, c.through(s)}, template.FuncMap{"quote": quoteWord})
	if err != nil {
		panic("executors: job.sh: " + err.Error())
	}
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
func fileName(s string) string { return fileutil.PlainName(s, "._-") }

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicplan/cudaops/pyhost/pyhosttest"
)

var update = flag.Bool("update", false, "rewrite the expected output in docs and golden files")

// TestDocs runs the examples of README.md and docs. In a Markdown file,
//
//   - a fence below a line "`NAME`:" is a file, which is written;
//   - a fence "console" has commands on lines that begin with "$ ", which are run, each followed by its
//     standard output and error. A line "..." stands for any lines, and "..." in a line for any text.
//     Times, digests and names of runs may differ.
//   - a comment <!-- exit code N --> above a console fence expects that exit code of its last command;
//     <!-- not run: REASON --> excludes the fence.
//
// Commands of one page share a folder, which has its files, those of its folder's other pages, and
// plans/ of the project. -update rewrites output that differs.
func TestDocs(t *testing.T) {
	if !*update { // other tests read the pages
		t.Parallel()
	}

	root := repoRoot(t)
	ran := 0
	for _, f := range documents(t) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}

		fences := readFences(string(data))
		if !slices.ContainsFunc(fences, func(f fence) bool { return len(f.steps) > 0 }) {
			continue
		}

		ran++
		t.Run(strings.TrimPrefix(f, root+"/"), func(t *testing.T) {
			if !*update {
				t.Parallel()
			}
			tryDocument(t, root, f, string(data), fences)
		})
	}
	if ran < 10 {
		t.Errorf("only %d pages have commands", ran)
	}
}

func repoRoot(t *testing.T) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(wd))
}

// fence is a fenced block of a page.
type fence struct {
	line  int // index of its opening line
	file  string
	text  string
	steps []docStep
	code  int // expected of the last command
}

// docStep is a command and what the page shows of its output.
type docStep struct {
	from, to int // lines of the output
	command  string
	output   string
}

var (
	fileLine   = regexp.MustCompile("^`([^`]+)`:$")
	exitWanted = regexp.MustCompile(`^<!-- exit code (\d+) -->$`)
	notRun     = regexp.MustCompile(`^<!-- not run: .+ -->$`)
	fenceLine  = regexp.MustCompile("^```([a-z]*)$")
)

// readFences returns the fenced blocks of a page.
func readFences(text string) []fence {
	lines := strings.Split(text, "\n")
	var out []fence
	for i := 0; i < len(lines); i++ {
		info := fenceLine.FindStringSubmatch(lines[i])
		if info == nil {
			continue
		}

		f := fence{line: i}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			f.text += lines[i] + "\n"
		}
		above := ""
		if f.line > 0 {
			above = lines[f.line-1]
		}
		if m := fileLine.FindStringSubmatch(above); m != nil {
			f.file = m[1]
		}
		if m := exitWanted.FindStringSubmatch(above); m != nil {
			f.code, _ = strconv.Atoi(m[1])
		}
		if info[1] == "console" && !notRun.MatchString(above) {
			f.steps = readSteps(lines, f.line+1, i)
		}
		out = append(out, f)
	}

	return out
}

// readSteps returns the commands in the lines from start to end. A command goes on after a backslash.
func readSteps(lines []string, start, end int) (out []docStep) {
	for i := start; i < end; {
		s := docStep{command: strings.TrimPrefix(lines[i], "$ ")}
		for ; strings.HasSuffix(lines[i], "\\") && i+1 < end; i++ {
			s.command += "\n" + lines[i+1]
		}
		i++

		s.from = i
		for i < end && !strings.HasPrefix(lines[i], "$ ") {
			s.output += lines[i] + "\n"
			i++
		}
		s.to = i
		out = append(out, s)
	}

	return out
}

// tryDocument writes the files of a page, runs its commands and compares their output.
func tryDocument(t *testing.T, root, path, text string, fences []fence) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "plans"), os.DirFS(filepath.Join(root, "plans"))); err != nil {
		t.Fatal(err)
	}

	write := func(f fence) {
		if f.file == "" {
			return
		}
		at := filepath.Join(dir, f.file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(f.text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	beside, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range beside {
		if other == path {
			continue
		}
		data, err := os.ReadFile(other)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range readFences(string(data)) {
			write(f)
		}
	}

	lines := strings.Split(text, "\n")
	var out []string
	copied := 0
	for _, f := range fences {
		write(f)

		for i, s := range f.steps {
			at := fmt.Sprintf("%s:%d: %s", filepath.Base(path), f.line+1, s.command)
			code := 0
			if i == len(f.steps)-1 {
				code = f.code
			}
			got := runDocumented(t, dir, at, s.command, code)
			if matchesOutput(s.output, got) {
				continue
			}
			if !*update {
				t.Errorf("%s\nprinted:\n%s\nthe page has:\n%s", at, got, s.output)
				continue
			}
			out = append(out, lines[copied:s.from]...)
			if got != "" {
				out = append(out, strings.Split(strings.TrimSuffix(got, "\n"), "\n")...)
			}
			copied = s.to
		}
	}

	if copied > 0 {
		out = append(out, lines[copied:]...)
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// varying replaces what differs from run to run: times of a run, digests and names of runs.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)?m?s, exit code`), "TIME, exit code"},
	{regexp.MustCompile(`\((\d+m)?\d+(\.\d+)?m?s\)`), "(TIME)"},
	{regexp.MustCompile(`\babout (\d+m)?\d+(\.\d+)?m?s\b`), "about TIME"},
	{regexp.MustCompile(`\bsha256:[0-9a-f]+`), "sha256:DIGEST"},
	{regexp.MustCompile(`\b\d{8}T\d{6}\.\d{3}-[0-9a-f]{4}\b`), "RUN"},
}

// matchesOutput reports whether a command printed what a page shows.
func matchesOutput(page, got string) bool {
	for _, v := range varying {
		page = v.pattern.ReplaceAllString(page, v.with)
		got = v.pattern.ReplaceAllString(got, v.with)
	}

	pattern := `\A`
	for line := range strings.Lines(page) {
		if line == "...\n" {
			pattern += `(?:.*\n)*`
			continue
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`)
	}

	return regexp.MustCompile(pattern + `\z`).MatchString(got)
}

func TestOutputOfPagesIsCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page, got string
		want      bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "b\n", false},
		{"a\n", "a\nb\n", false},
		{"a\n...\n", "a\nb\nc\n", true},
		{"...\nb\n", "a\nb\n", true},
		{"...\nb\n", "a\nc\n", false},
		{"a ... c\n", "a b c\n", true},
		{"a ... c\n", "a b\n", false},
		{"done; 3s, exit code 0\n", "done; 1.25s, exit code 0\n", true},
		{"done; 3s, exit code 0\n", "done; 3s, exit code 1\n", false},
		{"about 73h50m\n", "about 3h50m\n", false},
	} {
		if matchesOutput(c.page, c.got) != c.want {
			t.Errorf("%q shows %q: %t", c.page, c.got, !c.want)
		}
	}
}

// runDocumented runs a command line in a shell, with this test binary as aicplan, and returns its
// output. at is the place in the page, code the expected exit code.
func runDocumented(t *testing.T, dir, at, line string, code int) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+commandPath(t), "NO_COLOR=1")
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s: exit code %d (%v), want %d:\n%s", at, got, err, code, both.String())
	}

	return strings.ReplaceAll(both.String(), dir+"/", "")
}

// commandPath returns a PATH that starts with aicplan and with a Python that starts quickly.
func commandPath(t *testing.T) string {
	t.Helper()
	folders := []string{binDir(t)}
	if _, err := exec.LookPath("python3"); err == nil || os.Getenv(pyhosttest.Variable) != "" {
		folders = append(folders, filepath.Dir(pyhosttest.Python(t, t.TempDir())))
	}
	return strings.Join(append(folders, os.Getenv("PATH")), string(os.PathListSeparator))
}

// binDir returns a folder with links to this test binary, named aicplan and like the commands of the
// fake Slurm; see TestMain.
func binDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"aicplan"}, slurmCommands...) {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan     = regexp.MustCompile("`[^`]*`")
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocLinks checks the links between documents and to headings.
func TestDocLinks(t *testing.T) {
	t.Parallel()
	for _, f := range documents(t) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range markdownLink.FindAllStringSubmatch(prose(string(data)), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := f
			if path != "" {
				target = filepath.Join(filepath.Dir(f), path)
			}
			text, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", filepath.Base(f), m[1], err)
				continue
			}
			if anchor != "" && !anchors(string(text))[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", filepath.Base(f), m[1])
			}
		}
	}
}

// documents returns the project's Markdown files.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(repoRoot(t), pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no documents at %s: %v", pattern, err)
		}
		out = append(out, files...)
	}
	return out
}

var (
	makeCommand = regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
	makeHelp    = regexp.MustCompile(`(?m)^([a-z-]+):.*## `)
)

// TestMakeTargetsAreThere checks that every make target in a document is in the Makefile and in make
// help, and that the default target is run.
func TestMakeTargetsAreThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repoRoot(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range makeHelp.FindAllStringSubmatch(string(text), -1) {
		targets = append(targets, m[1])
	}
	if len(targets) == 0 || targets[0] != "run" {
		t.Errorf("the first target is not run: %v", targets)
	}
	named := 0
	for _, f := range documents(t) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range makeCommand.FindAllStringSubmatch(string(data), -1) {
			named++
			if !slices.Contains(targets, m[1]) {
				t.Errorf("%s says make %s; the Makefile has %v", filepath.Base(f), m[1], targets)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d targets are named", named)
	}
}

// prose returns a document without fences and code spans.
func prose(text string) string {
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		fenced = fenced != strings.HasPrefix(line, "```")
		if !fenced {
			out.WriteString(codeSpan.ReplaceAllString(line, ""))
		}
	}
	return out.String()
}

// anchors returns the link targets of the headings of a document.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(prose(text)) {
		if heading := strings.TrimLeft(line, "#"); len(heading) < len(line) {
			name := strings.ToLower(strings.TrimSpace(heading))
			out[strings.ReplaceAll(notInAnchors.ReplaceAllString(name, ""), " ", "-")] = true
		}
	}
	return out
}

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
	"aicplan/stages/executors/slurmtest"
)

var update = flag.Bool("update", false, "rewrite the expected output in docs and golden files")

// TestDocs checks the examples in the documentation. In a Markdown file,
//
//	<!-- file: NAME -->   before a fence writes the fence's text to NAME
//	<!-- run: COMMAND --> before a fence runs the command; the fence is what it
//	                      prints; "exit N" in front of the command asks for
//	                      that exit code
//
// Files and commands of one document share a folder, in which plans/ is the project's. -update rewrites
// the output of commands.
func TestDocs(t *testing.T) {
	if !*update { // other tests read the pages
		t.Parallel()
	}
	root := repoRoot(t)
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	files = append(files, filepath.Join(root, "README.md"))
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			tryDocument(t, root, f)
		})
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

var directive = regexp.MustCompile(`^<!-- (file|run): (.*) -->$`)

func tryDocument(t *testing.T, root, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if bytes.Contains(data, []byte("\n<!-- run: ")) {
		if err := os.CopyFS(filepath.Join(dir, "plans"), os.DirFS(filepath.Join(root, "plans"))); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(string(data), "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		m := directive.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		if i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], "```") {
			t.Fatalf("%s:%d: no fence behind the directive", path, i+1)
		}
		end := i + 2
		for end < len(lines) && lines[end] != "```" {
			end++
		}
		body := strings.Join(lines[i+2:end], "\n") + "\n"
		out = append(out, lines[i+1])
		switch m[1] {
		case "file":
			at := filepath.Join(dir, m[2])
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
			out = append(out, lines[i+2:end]...)
		case "run":
			got := runDocumented(t, dir, m[2], fmt.Sprintf("%s:%d", filepath.Base(path), i+1))
			if got != body && !*update {
				t.Errorf("%s:%d: %s\nprinted:\n%s\nthe document says:\n%s", filepath.Base(path), i+1, m[2], got, body)
			}
			if *update {
				out = append(out, strings.Split(strings.TrimSuffix(got, "\n"), "\n")...)
			} else {
				out = append(out, lines[i+2:end]...)
			}
		}
		out = append(out, "```")
		i = end
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// runDocumented runs a command line in a shell, with this test binary as aicplan, and returns its
// output.
func runDocumented(t *testing.T, dir, line, at string) string {
	t.Helper()
	want := 0
	if rest, ok := strings.CutPrefix(line, "exit "); ok {
		n, cmd, _ := strings.Cut(rest, " ")
		code, err := strconv.Atoi(n)
		if err != nil {
			t.Fatalf("%s: %q", at, line)
		}
		want, line = code, cmd
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+commandPath(t), "NO_COLOR=1")
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("%s: %s: exit code %d (%v), want %d:\n%s", at, line, code, err, want, both.String())
	}
	return strings.ReplaceAll(slowly.ReplaceAllString(both.String(), ""), dir+"/", "")
}

// slowly matches output that appears only if planning takes seconds.
var slowly = regexp.MustCompile(`(?m)^Planning: .* \.\.\.\n`)

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
	for _, name := range append([]string{"aicplan"}, slurmtest.Commands...) {
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
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
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

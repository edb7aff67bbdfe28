package contract

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"aicplan/sink/base/testutil"
)

var update = flag.Bool("update", false, "record the golden files anew, after a wanted change")

// binaryVariable names a built aicplan. If it is empty, TestMain builds one.
const binaryVariable = "AICPLAN_CONTRACT_BIN"

// allVariable makes the tests look at all systems instead of a few.
const allVariable = "AICPLAN_TEST_ALL"

// binary is the aicplan under test and root the checkout it was built from.
var binary, root string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if root, err = filepath.Abs(filepath.Join("..", "..", "..")); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "aicplan-contract-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	if binary = os.Getenv(binaryVariable); binary != "" {
		if binary, err = exec.LookPath(binary); err != nil {
			return 1, err
		}
		if binary, err = filepath.Abs(binary); err != nil {
			return 1, err
		}
	} else {
		binary = filepath.Join(dir, "aicplan")
		build := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "./cmd/aicplan")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("go build: %w\n%s", err, out)
		}
	}

	pythonDir = filepath.Join(dir, "python")
	return m.Run(), nil
}

// sourcesRead looks at every source file of the checkout, so that the go command
// runs these tests again after a change of the product, which this package does
// not import. It is called within tests: what TestMain reads is not recorded.
var sourcesRead = sync.OnceValue(func() error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "out") {
			return filepath.SkipDir
		}
		return nil
	})
})

// pythonDir is the folder of quickPython. TestMain removes it.
var pythonDir string

const nothingPlan = `
runtime "py" {
  kind      = "python"
  framework = "python"
  path      = ["ops.py"]
}
grid "s" {
  op = "nothing"
  axis "i" { values = [1] }
}
collect "s" {
  grid    = grid.s
  runtime = runtime.py
}
`

// quickPython returns variables of the environment by which workers find a python3 that starts quickly, and the
// compiled code of the host, which tests keep Python from writing. It returns nil if python3 is not installed.
var quickPython = sync.OnceValues(func() ([]string, error) {
	path, err := testutil.QuickPython(pythonDir)
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	for name, text := range map[string]string{
		"plan.hcl": nothingPlan, "ops.py": "def nothing(i, bench):\n    return {\"latency\": 1.0}\n",
	} {
		if err := os.WriteFile(filepath.Join(pythonDir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}

	env := []string{
		"PATH=" + filepath.Dir(path) + string(os.PathListSeparator) + os.Getenv("PATH"), "AICPLAN_HOST_CODE=" + pythonDir,
	}
	cmd := exec.Command(binary, "apply", "plan.hcl")
	cmd.Dir = pythonDir
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE="), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return env, nil
})

// slots bounds the commands that run at the same time and keep a core busy.
var slots = make(chan struct{}, runtime.NumCPU())

// folder is a working directory with a state folder of its own.
type folder struct {
	t   *testing.T
	dir string
	env []string

	python []string // variables of the environment, see quickPython
}

// newFolder makes a folder with files, given as pairs of name and text.
func newFolder(t *testing.T, files ...string) *folder {
	t.Helper()
	if err := sourcesRead(); err != nil {
		t.Fatal(err)
	}
	python, err := quickPython()
	if err != nil {
		t.Fatal(err)
	}
	f := &folder{t: t, dir: t.TempDir(), python: python}
	for i := 0; i < len(files); i += 2 {
		f.write(files[i], files[i+1])
	}
	return f
}

func (f *folder) path(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) read(name string) []byte {
	f.t.Helper()
	data, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return data
}

func (f *folder) has(name string) bool {
	_, err := os.Stat(f.path(name))
	return err == nil
}

// waitFor waits until something is true, for at most a minute.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); !is(); <-look.C {
		if time.Now().After(end) {
			t.Fatal("in a minute it did not come to it that " + what)
		}
	}
}

var comment = regexp.MustCompile(`(?m)^\s*#.*\n`)

// files returns the regular files below a folder, with their SHA-256; of YAML
// that of the lines that are no comments.
func (f *folder) files(name string) map[string]string {
	f.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(f.path(name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".yaml" {
			data = comment.ReplaceAll(data, nil)
		}
		rel, err := filepath.Rel(f.path(name), path)
		out[filepath.ToSlash(rel)] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// command is aicplan in the folder, with an environment that has nothing of the
// user's state.
func (f *folder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "GOGC=400", "PYTHONDONTWRITEBYTECODE=1",
		"AICPLAN_STATE_DIR="+f.path(".aicplan"), "AICPLAN_LOCK_DIR="+f.path(".locks"))
	cmd.Env = append(append(cmd.Env, f.python...), f.env...)
	return cmd
}

// result is what a command printed and its exit code.
type result struct {
	code           int
	stdout, stderr []byte
}

// run runs aicplan to its end. It fails the test if that takes minutes.
func (f *folder) run(args ...string) result {
	f.t.Helper()
	slots <- struct{}{}
	defer func() { <-slots }()

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := f.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		f.t.Fatalf("aicplan %s did not end:\n%s", strings.Join(args, " "), errs.Bytes())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.Bytes(), errs.Bytes()}
}

// expect runs aicplan and fails the test if it ends with another exit code.
func (f *folder) expect(code int, args ...string) result {
	f.t.Helper()
	r := f.run(args...)
	if r.code != code {
		f.t.Fatalf("aicplan %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), r.code, code,
			short(r.stdout), short(r.stderr))
	}
	return r
}

// short is what a reader of a failure needs of an output: the messages of events
// that are errors, or the beginning of other text.
func short(out []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(out) {
		var e struct {
			Level   string `json:"@level"`
			Message string `json:"@message"`
		}
		if json.Unmarshal(line, &e) == nil && e.Level != "" {
			if e.Level == "error" {
				b.WriteString(e.Message + "\n")
			}
			continue
		}
		if b.Len() < 4000 {
			b.Write(line)
		}
	}
	return b.String()
}

// json runs aicplan, expects the exit code and decodes its output.
func (f *folder) json(into any, code int, args ...string) {
	f.t.Helper()
	r := f.expect(code, args...)
	if err := json.Unmarshal(r.stdout, into); err != nil {
		f.t.Fatalf("aicplan %s: %v\n%s", strings.Join(args, " "), err, r.stdout)
	}
}

// rows decodes a line of JSON for each row.
func rows(t *testing.T, data []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range bytes.Lines(data) {
		var row map[string]any
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, row)
	}
	return out
}

// planned is what plan --json prints, as far as the contract goes.
type planned struct {
	Stages []struct {
		Address, Kind, Action, Reason, Key string
		Grid                               *struct {
			Declared, Cases, Rows int64
			Filters               []struct {
				Name    string
				Dropped int64
			}
		}
		Cases *struct {
			Planned, Reuse, Collect, Hold, Unsupported int64
		}
		DependsOn []string `json:"depends_on"`
	}
	Totals map[string]float64
	Work   bool
}

func (p planned) action(address string) string {
	for _, s := range p.Stages {
		if s.Address == address {
			return s.Action
		}
	}
	return ""
}

// applied is what a run did, from the events of apply --json.
type applied struct {
	code   int
	events []map[string]any
	stages map[string]ended
}

// ended is the event of a stage's end.
type ended struct {
	Status  string
	Reused  bool
	Counts  counts
	Samples int // cases that were measured in this run
}

type counts struct{ Planned, Measured, Reused, Failed, Skipped, Rows int64 }

// apply runs a plan and expects the exit code.
func (f *folder) apply(code int, args ...string) applied {
	f.t.Helper()
	r := f.expect(code, append([]string{"apply", "--json"}, args...)...)
	return readEvents(f.t, r)
}

func readEvents(t *testing.T, r result) applied {
	t.Helper()
	a := applied{code: r.code, events: rows(t, r.stdout), stages: map[string]ended{}}
	samples := map[string]int{}
	for _, e := range a.events {
		stage, _ := e["stage"].(string)
		switch e["type"] {
		case "sample":
			n, _ := e["cases"].(float64)
			samples[stage] += max(int(n), 1)
		case "stage_end":
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var end ended
			if err := json.Unmarshal(raw, &end); err != nil {
				t.Fatal(err)
			}
			end.Samples = samples[stage]
			a.stages[stage] = end
		}
	}
	return a
}

var (
	flat     = regexp.MustCompile(`\{[^{}\[\]]*\}|\[[^{}\[\]]*\]`)
	lineEnds = regexp.MustCompile(`\s*\n\s*`)
)

// golden compares a value with testdata/NAME.json, or records it there.
func golden(t *testing.T, record bool, name string, got any) {
	t.Helper()
	file := filepath.Join("testdata", name+".json")
	raw, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	// Short objects and lists on one line keep the files, and their changes, readable.
	raw = append(flat.ReplaceAllFunc(raw, func(b []byte) []byte {
		if line := lineEnds.ReplaceAll(b, nil); len(line) < 400 {
			return line
		}
		return b
	}), '\n')
	if record {
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(raw, want) {
		return
	}
	var w, g any
	if err := errors.Join(json.Unmarshal(want, &w), json.Unmarshal(raw, &g)); err != nil {
		t.Fatal(err)
	}
	for _, line := range differences("", w, g) {
		t.Errorf("%s: %s", file, line)
	}
}

// differences lists the places at which two decoded JSON values differ.
func differences(at string, want, got any) []string {
	if reflect.DeepEqual(want, got) {
		return nil
	}
	var out []string
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for k := range w {
			if _, ok := g[k]; !ok {
				out = append(out, fmt.Sprintf("%s/%s is missing", at, k))
				continue
			}
			out = append(out, differences(at+"/"+k, w[k], g[k])...)
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				out = append(out, fmt.Sprintf("%s/%s is new: %v", at, k, g[k]))
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			out = append(out, differences(fmt.Sprintf("%s[%d]", at, i), w[i], g[i])...)
		}
		return out
	}
	return []string{fmt.Sprintf("%s: %v, want %v", at, got, want)}
}

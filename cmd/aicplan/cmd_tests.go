package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plantest"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
)

type testCmd struct {
	Paths   []string `arg:"" optional:"" help:"Test files (*.aictest.hcl), folders of them, or pages (*.md)."`
	Filter  []string `help:"Only runs, files and servers of this name (glob, repeatable)." placeholder:"GLOB" sep:"none"`
	JSON    bool     `name:"json" help:"Print the results as JSON."`
	JUnit   string   `name:"junit" help:"Write the results as JUnit XML." placeholder:"FILE" type:"path"`
	Verbose bool     `short:"v" help:"Print what each run planned."`

	DryRun        bool          `help:"Of pages: print the blocks; start nothing."`
	HealthTimeout time.Duration `default:"15m" placeholder:"TIME" help:"Of pages: time until a server is healthy."`
}

// Help implements kong.HelpProvider.
func (c *testCmd) Help() string {
	return `Tests of plans measure nothing. Of Markdown pages, the marked bash blocks are run:

  <!-- setup-NAME-endpoint-server -->          started in the background
  <!-- health-check-NAME-endpoint-server -->   repeated until it passes
  <!-- aiperf-run-NAME-endpoint-server -->     each is run, one after the other
  <!-- setup-file-NAME-endpoint-server path=FILE -->   is written to FILE first

A block ends at the same comment with a slash in front. Exported variables of the set-up are set in the others. At
the end the processes and containers that were started are stopped.

Examples:
  aicplan test plans/modules --filter 'one model*'
  aicplan test --dry-run serving.md

Exit codes: 0 passed, 1 a test of a plan failed, or a file has mistakes, 4 a server or run of a page failed, 130
interrupted.`
}

// testedRun is a run as --json prints it.
type testedRun struct {
	File     string            `json:"file"`
	Run      string            `json:"run"`
	Line     int               `json:"line"`
	Status   string            `json:"status"` // "pass" or "fail"
	Cases    int               `json:"cases"`
	Seconds  float64           `json:"seconds"`
	Failures []config.DiagJSON `json:"failures"`
}

type testedAll struct {
	Passed   int         `json:"passed"`
	Failed   int         `json:"failed"`
	Filtered int         `json:"filtered"` // left out by --filter
	Runs     []testedRun `json:"runs"`
	// Diagnostics are the mistakes in test files. Then nothing was run.
	Diagnostics []config.DiagJSON `json:"diagnostics,omitempty"`
}

// Run plans what the test files request and compares the results. It measures nothing and reads no state
// folder.
func (c *testCmd) Run(a *app) error {
	for _, glob := range c.Filter {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("--filter %s: %w", glob, err)
		}
	}

	if len(c.Paths) > 0 && filepath.Ext(c.Paths[0]) == ".md" {
		return c.pages(a)
	}

	files, err := c.files()
	if err != nil {
		return err
	}

	parsed, err := c.parse(a, files)
	if err != nil {
		return err
	}

	if c.JUnit != "" {
		if err := (gateFiles{JUnit: c.JUnit}).check(); err != nil {
			return err
		}
	}

	// The folder must not exist: tests run without checkpoints.
	store, err := checkpoint.Open(filepath.Join(os.TempDir(), "aicplan-test-without-state"),
		checkpoint.Options{ReadOnly: true})

	if err != nil {
		return err
	}

	defer store.Close()
	load := a.loadOptions(planFlags{})
	load.Environ = nil
	sum := testedAll{Runs: []testedRun{}}
	var groups []results.Group
	for _, f := range parsed {
		group := results.Group{Address: f.Path, Status: stage.StatusOK}
		for _, r := range f.Runs {
			if !c.selects(r.Name, f.Path, filepath.Base(f.Path)) {
				sum.Filtered++
				continue
			}

			res := f.Run(context.Background(), r, load, store)
			if len(group.Checks) == 0 && !c.JSON {
				fmt.Fprintln(a.stdout, f.Path)
			}

			c.printResult(a, res)

			sum.add(res)
			group.Seconds += res.Seconds
			group.Checks = append(group.Checks, checkOf(res))
		}

		if len(group.Checks) > 0 {
			groups = append(groups, group)
		}
	}

	if sum.Passed+sum.Failed == 0 {
		return fmt.Errorf("--filter %s leaves no run of %d", strings.Join(c.Filter, " "), sum.Filtered)
	}

	if c.JUnit != "" {
		if err := writeGroups(c.JUnit, groups, results.WriteJUnit); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}

	if sum.Failed > 0 {
		a.code = run.ExitError
	}
	if c.JSON {
		return a.json(sum)
	}

	text := fmt.Sprintf("\nTest: %d passed, %d failed", sum.Passed, sum.Failed)
	if sum.Filtered > 0 {
		text += fmt.Sprintf(", %d left out by --filter", sum.Filtered)
	}

	_, err = fmt.Fprintln(a.stdout, text+".")
	return err
}

func (c *testCmd) files() ([]string, error) {
	paths := c.Paths
	if len(paths) == 0 {
		paths = []string{"."}
	}

	files, err := plantest.Find(paths)
	if err != nil {
		return nil, err
	}

	if len(files) == 0 {
		return nil, fmt.Errorf("no test files in %s: their names end in %s", strings.Join(paths, ", "), config.TestSuffix)
	}

	return files, nil
}

// parse reads all files before any of them runs.
func (c *testCmd) parse(a *app, paths []string) ([]*plantest.File, error) {
	var out []*plantest.File
	sum := testedAll{Runs: []testedRun{}}
	bad := false
	for _, p := range paths {
		f, sources, diags := plantest.Open(p)
		if c.JSON {
			sum.Diagnostics = append(sum.Diagnostics, diagsJSON(sources, diags)...)
		} else {
			a.diagnose(sources, diags)
		}
		bad = bad || diags.HasErrors()
		out = append(out, f)
	}

	if bad && c.JSON {
		if err := a.json(sum); err != nil {
			return nil, err
		}
	}
	return out, exitIf(bad, run.ExitError)
}

// printResult prints the result of a run.
func (c *testCmd) printResult(a *app, res *plantest.Result) {
	if c.JSON {
		return
	}

	word := a.tint("pass", "32")
	if !res.Passed() {
		word = a.tint("FAIL", "31")
	}

	fmt.Fprintf(a.stdout, "  %s  %s\n", word, res.Run.Name)
	if c.Verbose && res.Summary != nil {
		fmt.Fprintf(a.stdout, "        %s\n", res.Summary.Line())
	}
	if res.Passed() {
		return
	}

	var b strings.Builder // which returns no errors
	_ = config.WriteDiagnostics(&b, res.Sources, res.Failures, a.width(), a.colorOut())

	for line := range strings.Lines(b.String()) {
		if strings.TrimSpace(line) == "" {
			fmt.Fprintln(a.stdout)
			continue
		}
		fmt.Fprint(a.stdout, "    ", line)
	}
}

func (s *testedAll) add(res *plantest.Result) {
	t := testedRun{File: res.File, Run: res.Run.Name, Line: res.Run.Range.Start.Line, Status: "pass",
		Seconds: res.Seconds, Failures: []config.DiagJSON{}}

	if res.Summary != nil {
		t.Cases = res.Summary.Totals.Cases
	}

	if res.Passed() {
		s.Passed++
	} else {
		s.Failed++
		t.Status = "fail"
	}

	for _, d := range res.Failures {
		t.Failures = append(t.Failures, config.ToJSON(d, res.Sources))
	}

	s.Runs = append(s.Runs, t)
}

// checkOf converts a run to a check, for writing JUnit.
func checkOf(res *plantest.Result) stage.CheckResult {
	out := stage.CheckResult{Name: res.Run.Name, Severity: "fail", Result: "pass",
		Pos: fmt.Sprintf("%s:%d", res.Run.Range.Filename, res.Run.Range.Start.Line)}

	if res.Summary != nil {
		out.Message = fmt.Sprintf("%s cases planned", textutil.Count(res.Summary.Totals.Cases))
	}

	if !res.Passed() {
		out.Result = "fail"
		first := res.Failures[0]
		out.Message = first.Summary + ": " + first.Detail + more(len(res.Failures)-1)
		for _, d := range res.Failures {
			out.Rows = append(out.Rows, d.Error())
		}
	}

	return out
}

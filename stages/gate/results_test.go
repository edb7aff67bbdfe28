package gate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/stage"
	"aicplan/stages/gate/results"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func groups() []results.Group {
	return results.Of([]stage.Finished{
		{Address: "collect.gemm", Outcome: &stage.Outcome{Status: stage.StatusOK}},
		{Address: "gate.gemm", Seconds: 0.25, Outcome: &stage.Outcome{Status: stage.StatusGateFailed,
			Message: "1 of 4 checks failed", Checks: []stage.CheckResult{
				{Name: "coverage", Severity: "fail", Result: "pass", Message: "10 of 10 planned cases have a row",
					Value: "100.00 %", Limit: "at least 99.00 %", Pos: "plan.hcl:12"},
				{Name: "positive", Severity: "fail", Result: "fail",
					Message: "1 of 10 values of latency are not finite and positive", Value: "1", Limit: "at most 0",
					Rows: []string{"m=1 dtype=<fp8>|x latency=-1", "bell\x07 m=2"}, Fix: "collect again", Pos: "plan.hcl:13"},
				{Name: "noise p95", Severity: "warn", Result: "warn", Message: "p95 of rel_stdev is 0.2, 50% more",
					Value: "0.2", Limit: "at most 0.1", Rows: []string{"m=1"}, Pos: "plan.hcl:14"},
				{Name: "power", Severity: "fail", Result: "skip", Message: "the data has no column \"power\"", Pos: "plan.hcl:15"},
			}}},
		{Address: "gate.moe", Outcome: &stage.Outcome{Status: stage.StatusFailed, Message: "no input"}},
	})
}

func golden(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join("testdata", "results", name)
	if *update {
		if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if buf.String() != string(want) {
		t.Errorf("%s differs:\n%s", name, buf.String())
	}

	return buf.String()
}

func TestViews(t *testing.T) {
	g := groups()
	golden(t, "gate.md", func(w io.Writer) error { return results.WriteMarkdown(w, g) })
	golden(t, "gate.annotations", func(w io.Writer) error { return results.WriteAnnotations(w, g) })
	golden(t, "gate.json", func(w io.Writer) error { return results.WriteJSON(w, g) })
	golden(t, "gate.xml", func(w io.Writer) error { return results.WriteJUnit(w, g) })
}

func TestCount(t *testing.T) {
	if got, want := results.Count(groups()), (results.Counts{Passed: 1, Failed: 2, Warned: 1, Skipped: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestJUnitIsWellFormed(t *testing.T) {
	var buf bytes.Buffer
	if err := results.WriteJUnit(&buf, groups()); err != nil {
		t.Fatal(err)
	}

	var back struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Cases []struct {
				File    string  `xml:"file,attr"`
				Line    string  `xml:"line,attr"`
				Failure *string `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(buf.Bytes(), &back); err != nil {
		t.Fatal(err)
	}

	if back.Tests != 5 || back.Failures != 2 || back.Skipped != 1 || len(back.Suites) != 2 {
		t.Errorf("%+v", back)
	}

	c := back.Suites[0].Cases[1]
	if c.File != "plan.hcl" || c.Line != "13" || c.Failure == nil ||
		!strings.Contains(*c.Failure, "m=1 dtype=<fp8>|x latency=-1") {
		t.Errorf("%+v", c)
	}
}

func TestNothingToShow(t *testing.T) {
	var buf bytes.Buffer
	if err := results.WriteJSON(&buf, nil); err != nil {
		t.Fatal(err)
	}

	var v struct{ Gates []results.Group }
	if err := json.Unmarshal(buf.Bytes(), &v); err != nil || v.Gates == nil {
		t.Errorf("%v: %s", err, buf.String())
	}
}

func TestGitHubSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.md")
	env := map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": path}
	inside, summary := results.GitHub(func(k string) string { return env[k] })
	if !inside || summary != path {
		t.Fatalf("%v %q", inside, summary)
	}

	if inside, _ := results.GitHub(func(string) string { return "" }); inside {
		t.Error("an empty environment is taken for GitHub's")
	}

	for range 2 {
		if err := results.AppendSummary(path, groups()); err != nil {
			t.Fatal(err)
		}
	}

	data, _ := os.ReadFile(path)
	if n := strings.Count(string(data), "**Gates: 1 passed, 2 failed, 1 warned, 1 not judged**"); n != 2 {
		t.Errorf("%d tables in the summary, want 2: what stood there must stay", n)
	}
}

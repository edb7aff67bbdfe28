package main

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicplan/engine/run"
)

// TestShippedPlans loads, plans and preflights every plan of the folder plans, as far as that is
// possible without a GPU and a framework.
func TestShippedPlans(t *testing.T) {
	t.Parallel()
	root := repoRoot(t)
	plans, err := filepath.Glob(filepath.Join(root, "plans", "*.hcl"))
	if err != nil || len(plans) < 8 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	for _, plan := range plans {
		t.Run(filepath.Base(plan), func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			aicplan := func(codes []int, args ...string) string {
				t.Helper()
				cmd := exec.Command(filepath.Join(binDir(t), "aicplan"), append(args, plan)...)
				cmd.Env = append(os.Environ(), "PATH="+commandPath(t), "NO_COLOR=1", "AICPLAN_STATE_DIR="+state)
				out, err := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); !slices.Contains(codes, code) {
					t.Fatalf("aicplan %s ended with %d (%v), want %v:\n%s", args, code, err, codes, out)
				}
				return string(out)
			}
			aicplan([]int{run.ExitOK}, "fmt", "--check")
			if slices.Contains([]string{"h200_trtllm.hcl", "h200_vllm.hcl", "h200_sglang.hcl"}, filepath.Base(plan)) {
				return // the script backends plans and checks them
			}
			if out := aicplan([]int{run.ExitOK}, "plan"); !strings.Contains(out, "to collect") {
				t.Errorf("nothing to collect:\n%s", out)
			}
			if text, err := os.ReadFile(plan); err != nil || !strings.Contains(string(text), "preflight \"") {
				return // load on a server needs nothing on this machine
			}
			// A check reports what is missing here, with a suggested fix.
			aicplan([]int{run.ExitOK, run.ExitPreflight}, "doctor")
		})
	}
}

// TestExamplePlansAreValid validates the plans of the folder examples.
func TestExamplePlansAreValid(t *testing.T) {
	t.Parallel()
	plans, err := filepath.Glob(filepath.Join(repoRoot(t), "examples", "*.hcl"))
	if err != nil || len(plans) == 0 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	for _, plan := range plans {
		for _, args := range [][]string{{"validate", plan}, {"fmt", "--check", plan}} {
			var out strings.Builder
			if code := Main(args, strings.NewReader(""), &out, &out); code != run.ExitOK {
				t.Errorf("aicplan %v exits with %d:\n%s", args, code, out.String())
			}
		}
	}
}

// TestExampleCI runs the CI example of examples/ci: a gate that fails, then the corrected plan.
func TestExampleCI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(repoRoot(t), "examples", "ci"))); err != nil {
		t.Fatal(err)
	}
	summary := filepath.Join(t.TempDir(), "summary.md")
	job := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.Command("sh", append([]string{filepath.Join(dir, "ci.sh")}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+commandPath(t), "NO_COLOR=1",
			"GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY="+summary)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Fatalf("ci.sh %v ended with %d (%v), want %d:\n%s", args, code, err, want, out)
		}
		return string(out)
	}
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, "ci-out", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

	out := job(run.ExitGate)
	for _, want := range []string{"20 to collect", "exit code 4", "::error file=plan.hcl,line=", "unsupported_config",
		"Stopped by a gate"} {
		if !strings.Contains(out, want) {
			t.Errorf("the job does not say %q:\n%s", want, out)
		}
	}
	var junit struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Cases []struct {
				Name    string    `xml:"name,attr"`
				File    string    `xml:"file,attr"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(read("junit.xml")), &junit); err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, s := range junit.Suites {
		for _, c := range s.Cases {
			if c.Failure != nil {
				failed = append(failed, c.File+" "+c.Name)
			}
		}
	}
	if junit.Failures != 1 || junit.Tests < 5 || len(failed) != 1 || !strings.HasSuffix(failed[0], "plan.hcl coverage") {
		t.Errorf("JUnit: %d tests, %d failures: %v", junit.Tests, junit.Failures, failed)
	}
	if _, err := os.Stat(filepath.Join(dir, "ci-out", "gemm_perf.txt")); err == nil {
		t.Error("a file was exported past the gate")
	}
	if html := read("report.html"); !strings.Contains(html, "gate failed") {
		t.Error("the report does not say that the gate failed")
	}
	if md := read("report.md"); !strings.Contains(md, "10 of 20 planned cases have a row") {
		t.Errorf("the report's Markdown:\n%s", md)
	}
	if data, err := os.ReadFile(summary); err != nil || !strings.Contains(string(data), "coverage") {
		t.Errorf("step summary: %v\n%s", err, data)
	}

	out = job(run.ExitOK, "--var", `dtypes=["float32"]`)
	for _, want := range []string{"0 measured, 10 reused", "Passed: ci-out holds"} {
		if !strings.Contains(out, want) {
			t.Errorf("the second job does not say %q:\n%s", want, out)
		}
	}
	if n := strings.Count(read("gemm_perf.txt"), "\n"); n != 11 {
		t.Errorf("%d lines were exported, want 11", n)
	}
	if html := read("report.html"); strings.Contains(html, "gate failed") {
		t.Error("the report of the second job still describes the first")
	}
}

package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// consumerVariable names a Python interpreter that has aiconfigurator. If it is
// set, TestConsumer does not skip.
const consumerVariable = "AICPLAN_CONTRACT_PYTHON"

// consumerVersion is the release whose answers are recorded.
const consumerVersion = "0.12.0"

// published are the newest tables of an H200 in that release.
var published = []struct{ backend, version string }{{"trtllm", "1.3.0rc20"}, {"vllm", "0.24.0"}, {"sglang", "0.5.14"}}

// consumer returns the interpreter and the folder of the package's own tables.
func consumer(t *testing.T) (python, tables string) {
	t.Helper()
	forced := os.Getenv(consumerVariable)
	python = forced
	if python == "" {
		python = "python3"
	}
	out, err := exec.Command(python, "-c", `
import importlib.metadata, os, sys, aiconfigurator_core
print(importlib.metadata.version("aiconfigurator"))
print(os.path.join(os.path.dirname(aiconfigurator_core.__file__), "systems"))`).Output()
	fields := strings.Fields(string(out))
	switch {
	case err == nil && len(fields) == 2 && fields[0] == consumerVersion:
		return python, fields[1]
	case forced != "":
		t.Fatalf("%s=%s: aiconfigurator %s is needed: %v, %s", consumerVariable, forced, consumerVersion, err, out)
	}
	t.Skip("aiconfigurator ", consumerVersion, " is not installed for python3; make contract-consumer installs it")
	return "", ""
}

// TestConsumer imports the package's own tables, exports them, and asks the
// package for thousands of answers from both: they are equal to the last bit.
func TestConsumer(t *testing.T) {
	t.Parallel()
	python, tables := consumer(t)
	got := map[string]any{}
	for _, p := range published {
		f := newFolder(t)
		var names []string
		base := filepath.Join(tables, "data", "h200_sxm")
		files, err := filepath.Glob(filepath.Join(base, "*", p.backend, p.version, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tables of %s %s: %v", tables, p.backend, p.version, err)
		}
		for _, file := range files {
			name, err := filepath.Rel(base, file)
			if err != nil {
				t.Fatal(err)
			}
			copyFile(t, f.path("own", "data", "h200_sxm", name), file)
			if table, ok := strings.CutSuffix(name, ".parquet"); ok {
				names = append(names, table)
			}
		}
		for _, name := range []string{"h200_sxm.yaml", "attention_lane_defaults.yaml"} {
			copyFile(t, f.path("own", name), filepath.Join(tables, name))
			copyFile(t, f.path("out", name), filepath.Join(tables, name))
		}
		quoted, err := json.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		f.write("plan.hcl", fmt.Sprintf(`
import "t" {
  for_each = toset(%s)
  path     = "./own/data/h200_sxm/${each.key}.parquet"
  system   = "h200_sxm"
}
dedupe "t" {
  for_each = import.t
  input    = each.value
  keep     = "read"
}
export "t" {
  for_each = dedupe.t
  input    = each.value
  layout   = "families"
  system   = "h200_sxm"
  version  = %q
}
`, quoted, p.version))
		f.apply(0, "plan.hcl")

		var answer struct {
			Tables []struct {
				Table, Result                   string
				Rows, Queries, Answered, Differ int
				RowsAsked                       int `json:"rows_asked"`
				RowsExact                       int `json:"rows_exact"`
			}
		}
		f.json(&answer, 0, "data", "read-back", "--json", "--python", python, "--rows", "60", "--against", "own", "out")
		tablesOf, sum := map[string]any{}, 0
		for _, a := range answer.Tables {
			// The package estimates decode rows of mamba2 from the system's peaks; the golden file has their number.
			if a.Differ != 0 || a.Answered != a.Queries && a.Table != "mamba2_perf" {
				t.Errorf("%s %s: of %d queries %d are answered, %d differently", p.backend, a.Table, a.Queries, a.Answered,
					a.Differ)
			}
			sum += a.Queries
			tablesOf[a.Table] = map[string]any{"rows": a.Rows, "queries": a.Queries, "answered": a.Answered,
				"asked": a.RowsAsked, "exact": a.RowsExact, "result": a.Result}
		}
		if sum < 1000 {
			t.Errorf("%s: %d queries, want thousands", p.backend, sum)
		}
		got[p.backend] = map[string]any{"queries": sum, "tables": tablesOf}
	}
	golden(t, *update, "consumer", got)
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

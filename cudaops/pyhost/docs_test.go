package pyhost_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

var pythonBlock = regexp.MustCompile("(?s)```python\n(.*?)```")

// TestOpsOfTheDocumentation finds the functions that the documentation shows,
// and runs them where there is torch.
func TestOpsOfTheDocumentation(t *testing.T) {
	for doc, want := range map[string]map[string]m{
		"python-ops.md": {
			"swiglu": {"num_tokens": 4, "inter_size": 32, "dtype": "bfloat16"},
		},
	} {
		t.Run(doc, func(t *testing.T) { runDocumented(t, doc, want) })
	}
}

func runDocumented(t *testing.T, doc string, want map[string]m) {
	text, err := os.ReadFile(filepath.Join("../../docs/guides", doc))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, block := range pythonBlock.FindAllStringSubmatch(string(text), -1) {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".py"), []byte(block[1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, hello := start(t, worker.Init{Options: hostSettings{Path: []string{dir},
		Verify: true}.Options(m{"torch": true})})
	if hello.Error != nil {
		t.Fatal(hello.Error.Message)
	}
	for op := range want {
		if !slices.Contains(hello.Ops, op) {
			t.Errorf("%s shows no %s; it has %s", doc, op, strings.Join(hello.Ops, ", "))
		}
	}
	if hello.Env["torch"] == "" {
		t.Skip("this Python has no torch; the functions are found, running them needs torch")
	}
	for op, params := range want {
		if row := c.rows(op, params, nil)[0]; !(row["latency"].(float64) > 0) {
			t.Errorf("%s: %v", op, row)
		}
	}
}

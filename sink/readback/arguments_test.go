package readback

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"aicplan/sink/base/testutil"
	"aicplan/sink/catalog"
)

// TestRowsHaveTheArgumentsOfTheirQuery checks that a row with the catalog's columns has all arguments that the query
// of its table takes.
func TestRowsHaveTheArgumentsOfTheirQuery(t *testing.T) {
	t.Parallel()
	program := testutil.Python(t, t.TempDir())
	var rows []query
	for name, how := range asked() {
		tab, ok := catalog.Lookup(name)
		if !ok {
			t.Fatalf("the catalog has no %s", name)
		}
		row := map[string]any{"kernel_source": "NVLinkOneSided", "op_name": "x"}
		if len(tab.OpNames) > 0 {
			row["op_name"] = tab.OpNames[0]
		}
		for _, c := range tab.Columns("", false) {
			if c.Role == catalog.Key {
				row[c.Name] = 2
				if strings.HasSuffix(c.Name, "dtype") || c.Name == "gemm_type" || c.Name == "phase" || c.Name == "distribution" ||
					c.Name == "comm_backend" {
					row[c.Name] = "word"
				}
			}
		}
		if _, ok := row["geometry"]; ok {
			row["geometry"], row["component"] = "{}", "attention"
		}

		for _, axis := range how.Axes {
			if _, ok := row[axis]; !ok {
				t.Errorf("%s has no column %s to ask beside", name, axis)
			}
		}
		rows = append(rows, query{Table: name, Row: row})
	}
	in, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	const check = `
import json, sys
class Words:
    def __getattr__(self, name): return Words()
    def __getitem__(self, word): return word
for q in json.load(sys.stdin):
    try:
        name, values = arguments(q["table"], q["row"], Words())
        if name not in CLASSES and name not in COMPONENTS: print(q["table"], "asks for", name)
    except Exception as err:
        print(q["table"], repr(err))
`
	cmd := exec.CommandContext(t.Context(), program, "-c",
		strings.ReplaceAll(script, `if __name__ == "__main__":`, "if False:")+check)
	cmd.Stdin = bytes.NewReader(in)
	var said bytes.Buffer
	cmd.Stderr = &said // of a shell around the interpreter too
	out, err := cmd.Output()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s%s", err, out, &said)
	}
}

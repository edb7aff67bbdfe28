package readback

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/testutil"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
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

// TestRowsOfKernelsAreAskedInTheirFormat checks that rows of a kernel that the package reads as a format of its own, or
// under another name, are asked about in that way, and that rows which no query reads are not asked about.
func TestRowsOfKernelsAreAskedInTheirFormat(t *testing.T) {
	t.Parallel()
	program := testutil.Python(t, t.TempDir())
	const check = `
class Words:
    def __getattr__(self, name): return Words()
    def __getitem__(self, word): return word
row = dict.fromkeys(("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"), 1)
row.update(distribution="uniform", moe_dtype="w4a8_mxfp4_mxfp8")
for more in ({"kernel_source": "sglang_mxfp4_flashinfer_trtllm_moe"}, {"default_eligible": True}, {"default_eligible": False}):
    try: print(arguments("moe_perf", dict(row, **more), Words())[1]["quant_mode"])
    except NoQuery: print("none")
row = dict.fromkeys(("d_model", "batch_size"), 1)
for phase, kernel in (("context", "chunk_triton"), ("generation", "causal_conv1d_update"), ("generation", "packed_decode")):
    print(arguments("gdn_perf", dict(row, phase=phase, kernel_source=kernel), Words())[1]["kernel_source"])
`
	out, err := exec.CommandContext(t.Context(), program, "-c",
		strings.ReplaceAll(script, `if __name__ == "__main__":`, "if False:")+check).Output()
	want := "w4a8_mxfp4_mxfp8_trtllm\nw4a8_mxfp4_mxfp8\nnone\n" +
		"chunk_triton\ncausal_conv1d_update\nfused_sigmoid_gating_delta_rule_update\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}

	rec := table.NewRecord([]string{"kernel_source", "default_eligible"},
		[]arrow.Array{table.Constant("k", 1), table.Flags([]bool{false}, nil)})
	if row := queriesOf("moe_perf", rec, 1)[0].Row; row["kernel_source"] != "k" || row["default_eligible"] != false {
		t.Errorf("%v", row)
	}
}

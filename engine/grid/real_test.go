package grid

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// realGrids reads testdata/real/expected.txt: grids of published collectors with the number of
// cases and rows that those collectors enumerate on an H200, and the SHA-256 of their sorted case
// lists (JSON, one case per line) if known.
func realGrids(t testing.TB) (out []realGrid) {
	t.Helper()
	text, err := os.ReadFile("testdata/real/expected.txt")
	if err != nil {
		t.Fatal(err)
	}

	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		var g realGrid
		if _, err := fmt.Sscan(line, &g.name, &g.cases, &g.rows, &g.digest); err != nil {
			t.Fatalf("%q: %v", line, err)
		}

		src, err := os.ReadFile("testdata/real/" + g.name + ".hcl")
		if err != nil {
			t.Fatal(err)
		}

		g.src = string(src)
		out = append(out, g)
	}

	return out
}

type realGrid struct {
	name, src   string
	cases, rows int
	digest      string
}

func TestRealGrids(t *testing.T) {
	grids := realGrids(t)
	if len(grids) < 4 {
		t.Fatalf("only %d grids", len(grids))
	}

	for _, g := range grids {
		t.Run(g.name, func(t *testing.T) {
			spec, diags := Decode(parseBody(t, g.src), testScope(), nil)
			if len(diags) > 0 {
				t.Fatalf("a correct grid has diagnostics: %v", diags)
			}

			c := mustExpand(t, spec)
			if c.Len() != g.cases || c.Rows() != g.rows {
				t.Errorf("%d cases, %d rows; want %d and %d", c.Len(), c.Rows(), g.cases, g.rows)
			}
			if g.digest == "-" {
				return
			}

			lines := make([]string, c.Len())
			ids := map[string]bool{}
			for i := range lines {
				lines[i] = string(c.ParamsJSON(i))
				ids[c.ID(i)] = true
			}

			slices.Sort(lines)
			sum := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n"))
			if got := hex.EncodeToString(sum[:]); got != g.digest {
				t.Errorf("the set of cases differs: digest %s, want %s", got, g.digest)
			}

			if len(ids) != c.Len() {
				t.Errorf("%d ids for %d cases", len(ids), c.Len())
			}
		})
	}
}

// TestFastPathOnRealGrids compares the fast path with HCL on real grids.
func TestFastPathOnRealGrids(t *testing.T) {
	for _, g := range realGrids(t) {
		spec := mustDecode(t, g.src)
		var evals, hclEvals int64
		fast, diags := expand(spec, counting(memoised, &evals))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		slow, diags := expand(spec, counting(hclOnly, &hclEvals))
		if diags.HasErrors() {
			t.Fatal(diags)
		}

		if fast.Digest() != slow.Digest() {
			t.Errorf("%s: the fast path changes the cases", g.name)
		}
		if evals >= hclEvals {
			t.Errorf("%s: the fast path is not used: %d and %d evaluations", g.name, evals, hclEvals)
		}
	}
}

func TestWhyOnRealGrids(t *testing.T) {
	byName := map[string]string{}
	for _, g := range realGrids(t) {
		byName[g.name] = g.src
	}

	for _, c := range []struct{ grid, given, want string }{
		{"trtllm_gemm", "gemm_dtype=nvfp4 m=1 n=128 k=128",
			"dropped by filter sm_gate: the GPU has no such kernel (min_sm = 100, max_sm = 9999)"},
		{"trtllm_gemm", "gemm_dtype=fp8_block m=1 n=64 k=1024",
			"dropped by filter block_min_128: block formats need widths of at least 128 (gemm_dtype = \"fp8_block\", n = 64, " +
				"k = 1024)"},
		{"trtllm_gemm", "gemm_dtype=fp8 m=32768 n=65536 k=32",
			"dropped by filter output_elems: the output is indexed with 32 bits (m = 32768, n = 65536)"},
		{"trtllm_attention_context", "tp_size=16 shape_profile=gemma4_global_attention",
			"dropped by filter kv_elements"},
		{"trtllm_moe", "model_name=moonshotai/Kimi-K3 moe_dtype=bfloat16",
			"324 of 324 dropped by filter base.dtype_allowed: the model is not published in this format"},
	} {
		v, diags := Why(mustDecode(t, byName[c.grid]), assignments(c.given))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if got := strings.Join(verdictLines(v), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s gives\n%s\nwithout %q", c.grid, c.given, got, c.want)
		}
	}
}

package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const published = "../testdata/published"

func models(t *testing.T, text string) []MatrixModel {
	t.Helper()
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := ReadModels(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const three = `
models:
- name: fits
  tp: [1, 2]
  dtypes: [fp8, bfloat16]
  dense: [{hidden_size: 4096, inter_size: 1024}]
  attention: [{num_heads: 32, num_kv_heads: 8, head_dim: 128}]
- name: between
  tp: [1]
  dense: [{hidden_size: 4096, inter_size: 3000}]
- name: lacks
  tp: [1, 3]
  attention: [{num_heads: 32, num_kv_heads: 8, head_dim: 96}]
  moe: [{hidden_size: 7168, inter_size: 2048, topk: 8, num_experts: 256}]
- name: latent
  tp: [1, 8, 2]
  mla: [{num_heads: 128}]
`

func build(t *testing.T, text string) *Matrix {
	t.Helper()
	m, err := BuildMatrix(published, models(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnswers(t *testing.T) {
	m := build(t, three)
	var got []string
	for _, c := range m.Cells {
		if c.Backend != "trtllm" {
			continue
		}
		got = append(got, fmt.Sprintf("%s tp%d %s %s", c.Model, c.TP, c.Answer, strings.Join(c.Missing, "; ")))
	}
	want := []string{
		"fits tp1 interpolated ", // 2048 lies between the measured widths 1024 and 4096
		"fits tp2 no down projection (gemm_dtype fp8|bfloat16, k~512, n~4096); attention prefill (head_dim=128, " +
			"num_key_value_heads=4, window_size=0, num_heads~16); attention decode (head_dim=128, num_key_value_heads=4, " +
			"window_size=0, num_heads~16)",
		"between tp1 interpolated ",
		"lacks tp1 no attention prefill (head_dim=96, num_key_value_heads=8, window_size=0, num_heads~32); attention " +
			"decode (head_dim=96, num_key_value_heads=8, window_size=0, num_heads~32); experts (moe_dtype bfloat16, " +
			"hidden_size=7168, inter_size=2048, num_experts=256, topk=8, 1 ranks)",
		"lacks tp3 cannot split num_heads 32 is not divisible by 3",
		"latent tp1 no latent attention prefill (num_heads=128)",
		"latent tp2 no latent attention prefill (num_heads=64); latent attention decode (num_heads=64)",
		"latent tp8 no latent attention prefill (num_heads=16)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOlderVersionsStandIn(t *testing.T) {
	m := build(t, "models:\n- name: a\n  tp: [1]\n  attention: [{num_heads: 8, num_kv_heads: 8, head_dim: 128}]\n")
	c := m.Cells[slices.IndexFunc(m.Cells, func(c Cell) bool { return c.Backend == "vllm" })]
	if c.Version != "0.22.0" || !slices.Equal(c.Older, []string{"generation_attention_perf of 0.18.0"}) {
		t.Errorf("%+v: decode of 0.18.0 stands in", c)
	}
}

// TestMatrixTakesTheCurrentVersion checks that a version which is newer than the current one of its slot is left
// out, as by readers, and that a slot without a table has no effect.
func TestMatrixTakesTheCurrentVersion(t *testing.T) {
	t.Parallel()
	for slot, want := range map[string]string{"": "dev-1aa0", "0.24.0": "0.24.0", "0.19.0": "dev-1aa0"} {
		root := t.TempDir()
		for _, version := range []string{"0.18.0", "0.24.0", "dev-1aa0"} {
			dir := filepath.Join(root, "data/h200_sxm/gemm/vllm", version)
			text := "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n" +
				"VLLM," + version + ",NVIDIA H200,gemm,c,bfloat16,1,64,128,1\n"
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "gemm_perf.txt"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if slot != "" {
			text := "schema_version: 1\ndefaults:\n  vllm: {current: " + slot + ", previous: null}\n"
			if err := os.WriteFile(filepath.Join(root, SlotsFile), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m, err := BuildMatrix(root, models(t, "models: [{name: a, tp: [1], dense: [{hidden_size: 64, inter_size: 128}]}]"))
		if err != nil || len(m.Cells) != 1 || m.Cells[0].Version != want {
			t.Errorf("slot %q: %v %+v, want %s", slot, err, m, want)
		}
	}
}

// TestNullsCoverNothing checks that a row without a size is not taken for a row of size 0.
func TestNullsCoverNothing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "data/h200_sxm/gemm/vllm/0.24.0")
	text := "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n" +
		"VLLM,0.24.0,NVIDIA H200,gemm,c,bfloat16,1,,,1\nVLLM,0.24.0,NVIDIA H200,gemm,c,bfloat16,1,8192,8192,1\n"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "gemm_perf.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := BuildMatrix(root, models(t, "models: [{name: a, tp: [1], dense: [{hidden_size: 64, inter_size: 128}]}]"))
	if err != nil || m.Cells[0].Answer != No {
		t.Errorf("%v %+v", err, m)
	}
}

// TestKeyValueHeadsAreDivided checks that a model whose key/value heads do not divide among the ranks cannot be split.
func TestKeyValueHeadsAreDivided(t *testing.T) {
	t.Parallel()
	for tp, want := range map[int64]string{1: "", 2: "", 3: "", 4: "num_kv_heads 6 is not divisible by 4", 12: ""} {
		m := MatrixModel{Attention: []Attention{{NumHeads: 24, NumKVHeads: 6, HeadDim: 128}}}
		if _, err := m.needs(tp); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("tp %d: %v", tp, err)
		}
	}
}

func TestViews(t *testing.T) {
	m := build(t, three)
	var buf bytes.Buffer
	if err := m.WriteMarkdown(&buf); err != nil {
		t.Fatal(err)
	}
	md := buf.String()
	for _, want := range []string{
		"| model | h200_sxm trtllm 1.3.0rc20 | h200_sxm vllm 0.22.0 |", "| fits | tp (1) | no |", "| latent | no | no |",
		"- latent on h200_sxm trtllm 1.3.0rc20: latent attention prefill (num_heads=128) at tp 1",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("markdown lacks %q:\n%s", want, md)
		}
	}
	text, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(text), `"answer":"interpolated"`) {
		t.Errorf("%v %s", err, text)
	}
}

func TestBadModels(t *testing.T) {
	for text, want := range map[string]string{
		"models: []":                     "no models",
		"models: [{name: a}]":            "no layers",
		"models: [{dense: [{}]}]":        "no name",
		"models: [{name: a, denze: []}]": "denze",
		"models: [{name: a, tp: [0], mla: [{num_heads: 1}]}]": "tp is 0",
		"models: [{name: a, attention: [{num_heads: 1}]}]":    "num_kv_heads",
	} {
		path := filepath.Join(t.TempDir(), "m.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadModels(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := BuildMatrix(t.TempDir(), models(t, three)); err == nil {
		t.Error("an empty folder has a matrix")
	}
}

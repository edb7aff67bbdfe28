package export

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// gib is the memory of an H200.
var gib = int64(150_750_000_000)

// cellOfH200 returns the row and the facts of a cell that was measured on two H200s.
func cellOfH200() (map[string]any, *cellFacts) {
	row := map[string]any{
		"experiment_id": "E1.2", "batch_size": int64(4), "input_length": 1536.0, "output_length": 512.0,
		"iteration_wall_clock": 1.961, "gpus": int64(2), "tensor_parallel_size": int64(2),
	}
	return row, &cellFacts{
		CUDA: 13000, Driver: "580.159.04", GPUs: []cellGPU{{Name: "NVIDIA H200", Memory: gib},
			{Name: "NVIDIA H200", Memory: gib}},
		NVLinks: 18, Command: []string{"vllm", "serve", "a b", "--x",
			`{"y": "it's"}`}, Env: map[string]string{"NCCL_ALGO": "Ring Tree"},
		Traces: []string{"kineto_trace", "torch_et", "nsys"},
		Config: json.RawMessage(`{"model_type": "llama", "dtype": "bfloat16", "num_hidden_layers": 32, ` +
			`"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096, ` +
			`"intermediate_size": 14336, "vocab_size": 128256}`),
	}
}

// The figures were worked out by another program, which adds up the contexts of all tokens.
func TestMFU(t *testing.T) {
	t.Parallel()
	row, facts := cellOfH200()
	ds := &stage.Dataset{}
	got := mfu((&Config{}).card(row, facts, ds), row, facts)
	if got == nil || math.Abs(*got-3.281804733664599) > 1e-9 {
		t.Fatalf("%v", got)
	}

	for name, change := range map[string]func(map[string]any, *cellFacts){
		"time":  func(row map[string]any, _ *cellFacts) { delete(row, "iteration_wall_clock") },
		"GPU":   func(_ map[string]any, f *cellFacts) { f.GPUs[0].Name = "NVIDIA X1" },
		"model": func(_ map[string]any, f *cellFacts) { f.Config = nil },
		"precision": func(_ map[string]any, f *cellFacts) {
			f.Config = bytes.ReplaceAll(f.Config, []byte("bfloat16"), []byte("fp6"))
		},
	} {
		row, facts := cellOfH200()
		change(row, facts)
		if got := mfu((&Config{}).card(row, facts, ds), row, facts); got != nil {
			t.Errorf("without %s: %v", name, *got)
		}
	}
}

// A card has ccl-bench's words. Fields of the plan override measured ones, those of a cell also those of all.
func TestCardOfCell(t *testing.T) {
	t.Parallel()
	row, facts := cellOfH200()
	c := &Config{
		Card: cty.ObjectVal(map[string]cty.Value{"contributor": cty.StringVal("A"), "dataset": cty.StringVal("all"),
			"epochs": cty.NullVal(cty.Number)}),
		Cards: cty.ObjectVal(map[string]cty.Value{
			"E1.2": cty.ObjectVal(map[string]cty.Value{"dataset": cty.StringVal("own"),
				"protocol_selection": cty.TupleVal([]cty.Value{cty.StringVal("rocev2")}), "pp_mb": cty.NumberIntVal(3)}),
			"E1.3": cty.ObjectVal(map[string]cty.Value{"dataset": cty.StringVal("other")}),
		}),
	}
	if problems := c.checkCard(); len(problems) > 0 {
		t.Error(problems)
	}
	text := c.card(row, facts, &stage.Dataset{}).YAML()
	for _, line := range []string{
		"precision: bf16 # configured", "model: nvidia_h200 # measured", "driver_version: cuda_13.0 # measured",
		"driver: 580.159.04 # measured",
		"traces: [json, nsys] # measured", "metrics_specific_trace: [torch_et] # measured", "contributor: A # configured",
		"dataset: own # configured",
		"protocol_selection: [rocev2] # configured", "pp_mb: 3 # configured", "epochs: null # default",
		"bandwidth_gbps: [400, 3600] # configured",
	} {
		if !bytes.Contains(text, []byte(line)) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}

	wrong := &Config{Card: cty.StringVal("x"),
		Cards: cty.ObjectVal(map[string]cty.Value{"E1.2": cty.ObjectVal(map[string]cty.Value{"datset": cty.StringVal("x")})})}
	if got := strings.Join(wrong.checkCard(), "\n"); !strings.Contains(got, "card is not an object") ||
		!strings.Contains(got, `cards["E1.2"] has "datset"`) {
		t.Error(got)
	}
}

// A shell reads the words of run.sh as the server got them.
func TestScriptOfCell(t *testing.T) {
	t.Parallel()
	_, facts := cellOfH200()
	want := "#!/bin/sh\n# Starts the server of cell E1.2 as it was started for the measurement.\nexport NCCL_ALGO='Ring " +
		"Tree'\n" +
		`exec vllm serve 'a b' --x '{"y": "it'\''s"}'` + "\n"
	if got := string(facts.script("E1.2")); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// A GPU has the word of cards for its model, whatever its form and memory.
func TestDeviceWord(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB": "nvidia_a100", "NVIDIA H100 80GB HBM3": "nvidia_h100", "NVIDIA H200": "nvidia_h200",
		"NVIDIA": "nvidia", "": "",
	} {
		if got := deviceWord(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

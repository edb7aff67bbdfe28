package policy

import (
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// TestClassifyReadsEndsOfLongTexts checks that rules look only at the ends of a long text, so that a worker that sends
// hundreds of KiB with every
// failure does not slow down the engine.
func TestClassifyReadsEndsOfLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for text, want := range map[string]string{
		"CUDA out of memory " + long:        worker.ClassResourceIssue,
		long + " CUDA out of memory":        worker.ClassResourceIssue,
		long + " CUDA out of memory" + long: worker.ClassFrameworkBug,
	} {
		if class, _ := Classify(nil, &worker.Failure{Traceback: text}); class != want {
			t.Errorf("%.20q and %d more bytes: %s, want %s", text, len(text), class, want)
		}
	}
}

// TestClassifyRefusedShapes has the words in which collectors refuse a shape.
func TestClassifyRefusedShapes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hidden_size must be divisible by 64",
		"The output_size of gate's weight = 192 is not divisible by weight quantization block_n = 128.",
		"num_heads 32 should be divisible by tp_size 3",
		"TRT-LLM fused MoE requires the TP-sharded intermediate size to be a multiple of 256/weight_bits = 32 for fp8",
		"fp8_block MoE requires 128-aligned hidden_size and TP-sharded intermediate size",
		"w4afp8 MoE requires a 128-aligned TP-sharded intermediate size",
	} {
		if class, _ := Classify(nil, &worker.Failure{Exception: "ValueError", Message: text}); class != worker.ClassUnsupportedConfig {
			t.Errorf("%s: %s", text, class)
		}
	}
}

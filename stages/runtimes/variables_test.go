package runtimes

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"aicplan/engine/stage"
)

// TestInheritedVariables checks which variables of this process are a part of the key of rows.
func TestInheritedVariables(t *testing.T) {
	for name, value := range map[string]string{
		"VLLM_ATTENTION_BACKEND": "FLASHINFER", "NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DIRECT_DISABLE": "1",
		"VLLM_FLASH_ATTN_VERSION": "3",
		"NCCL_DEBUG":              "INFO", "CUDA_VISIBLE_DEVICES": "0", "TRITON_CACHE_DIR": "/x", "CUDA_VERSION": "12.8",
		"VLLM_API_KEY": "secret",
		"HOME":         "/root", "TORCH_OWN": "process", "SGLANG_EMPTY": "",
	} {
		t.Setenv(name, value)
	}
	got := inherited(&stage.Runtime{Env: map[string]string{"TORCH_OWN": "block"}})
	maps.DeleteFunc(got, func(name, _ string) bool {
		return !strings.HasPrefix(name, "VLLM_") && !strings.HasPrefix(name, "NCCL_") && name != "TORCH_OWN"
	})
	want := []string{"NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_LEVEL", "VLLM_ATTENTION_BACKEND", "VLLM_FLASH_ATTN_VERSION"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// TestVariablePrefixesAreDocumented checks that the page on checkpoints lists the prefixes.
func TestVariablePrefixesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/checkpoints.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range VariablePrefixes {
		if !strings.Contains(string(page), "`"+prefix+"`") {
			t.Errorf("docs/guides/checkpoints.md does not name %s", prefix)
		}
	}
}

package runtimes

import (
	"os"
	"slices"
	"strings"

	"aicplan/engine/stage"
)

// VariablePrefixes are the prefixes of environment variables that workers inherit from this process and that
// select or change kernels. Their values are part of the key of rows, except for those in variablesBeside.
var VariablePrefixes = strings.Fields(`VLLM_ SGLANG_ SGL_ TRTLLM_ TLLM_ TORCH_ TORCHINDUCTOR_ PYTORCH_ TRITON_ FLASHINFER_
	CUBLAS_ CUBLASLT_ CUDNN_ CUDA_ NVTE_ NCCL_ NVSHMEM_ UCX_`)

// variablesBeside are the ends of names of variables that locate something, select devices or configure logs.
// They do not change kernels.
var variablesBeside = strings.Fields(`_DIR _PATH _HOME _ROOT _LOGS _LOG_LEVEL _LOGGING_LEVEL _DEBUG _DEBUG_SUBSYS
	_DEBUG_FILE _VISIBLE_DEVICES _DEVICE_ORDER _HOSTID _IFNAME _COMM_ID _TOKEN _KEY _PORT _HOST_IP CUDA_VERSION
	CUDNN_VERSION NCCL_VERSION`)

// inherited returns the variables that workers of a runtime inherit and that may change kernels. Those that the
// runtime sets itself are left out, because its block is in the key.
func inherited(rt *stage.Runtime) map[string]string {
	own := environment(rt)
	var out map[string]string
	for _, text := range os.Environ() {
		name, value, _ := strings.Cut(text, "=")
		if _, set := own[name]; set || value == "" || !changesKernels(name) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

func changesKernels(name string) bool {
	return !slices.ContainsFunc(variablesBeside, func(end string) bool { return strings.HasSuffix(name, end) }) &&
		slices.ContainsFunc(VariablePrefixes, func(start string) bool { return strings.HasPrefix(name, start) })
}

package comm

import (
	"os"
	"slices"
	"strings"
)

// prepareEnv sets what the libraries read when they are opened. It is called
// before that, in the worker and in every rank's process.
func prepareEnv() {
	defaults := map[string]string{
		// Devices are counted as NVML and nvidia-smi count them.
		"CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		// NVLink multicast can put the GPUs of a shared host out of service for
		// others, so it is used only where the plan or the user asks for it.
		"NCCL_NVLS_ENABLE": "0",
	}
	for name, value := range defaults {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value) // fails only for names that are no names
		}
	}
}

// ncclEnv returns NCCL's variables as one text: "NCCL_ALGO=Ring NCCL_NVLS_ENABLE=0".
func ncclEnv(environ []string) string {
	var vars []string
	for _, v := range environ {
		if strings.HasPrefix(v, "NCCL_") {
			vars = append(vars, v)
		}
	}
	slices.Sort(vars)
	return strings.Join(vars, " ")
}

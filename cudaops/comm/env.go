package comm

import (
	"os"
	"slices"
	"strings"
)

// prepareEnv sets defaults of environment variables that the libraries read when they are loaded. It must
// be called before they are opened, in the worker and in each rank's process.
func prepareEnv() {
	defaults := map[string]string{
		// Number devices like NVML and nvidia-smi.
		"CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		// NVLink multicast can make the GPUs of a shared host unusable for others, so it is only used if
		// the plan or the user enables it.
		"NCCL_NVLS_ENABLE": "0",
	}

	for name, value := range defaults {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value) // fails only for invalid variable names
		}
	}
}

// ncclEnv returns the NCCL_ variables of an environment as one string, such as "NCCL_ALGO=Ring
// NCCL_NVLS_ENABLE=0".
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

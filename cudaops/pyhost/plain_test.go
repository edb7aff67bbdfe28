package pyhost_test

import (
	"os"
	"os/exec"
	"strings"

	"aicplan/cudaops/worker"
)

// runPlain runs a program without the worker's descriptors.
func runPlain(path string, args ...string) (string, error) {
	cmd := exec.Command(path, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, worker.EnvFDIn+"=") && !strings.HasPrefix(kv, worker.EnvFDOut+"=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

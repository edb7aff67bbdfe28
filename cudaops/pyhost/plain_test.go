package pyhost_test

import (
	"bytes"
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

// runPiped runs a program with in on its standard input.
func runPiped(in, path string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(path, args...)
	var o, e bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

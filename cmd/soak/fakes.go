package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fakes are faults that need a device or a clock that is not real: tests have
// them, which run here once more.
func fakes() []*fault {
	return []*fault{
		{name: "cuda host on its fake: failures, limits, counters that stop", long: true, none: true, do: tested("./cudaops/ops", "TestHost")},
		{name: "nccl host on its fake: wrong results, kernels without an end, killed processes", long: true, none: true,
			do: tested("./cudaops/comm", "Fault|Fail|Killed|NeverEnds|Wrong|Held")},
		{name: "Python workers that misbehave", long: true, once: true, none: true, do: tested("./cudaops/pyhost", "TestTorture")},
		{name: "load: a day of telemetry of eight GPUs at 1 Hz (virtual clock)", long: true, once: true, none: true, do: tested("./cudaops/telemetry", "TestDay")},
	}
}

// tested runs tests of a package in their long form.
func tested(pkg, run string) func(*trial) {
	return func(t *trial) {
		root, err := os.Getwd()
		if err != nil {
			t.wrong("%v", err)
			return
		}
		if _, err := os.Stat(filepath.Join(root, pkg)); err != nil {
			t.note = "not here: run it in the folder of the sources"
			return
		}
		if _, err := exec.LookPath("go"); err != nil {
			t.note = "not here: there is no go"
			return
		}
		cmd := t.process("go", "test", "-v", "-vet=off", "-count=1", "-run", run, pkg)
		cmd.Dir = root
		cmd.Env = append(cmd.Env, "AICPLAN_TEST_LONG=1")
		r := t.launch(cmd)
		code := r.wait()
		out := r.out.String() + r.err.String()
		if code != 0 || !strings.Contains(out, "--- PASS") {
			t.wrong("go test %s ends with %d: %s", pkg, code, clip(out))
		}
		passed := strings.Count(out, "\n--- PASS") + strings.Count(out, "\n    --- PASS")
		t.note = plural(passed, "test")
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

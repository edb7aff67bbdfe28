// Package hosts lists the worker hosts that this binary has.
package hosts

import (
	"fmt"
	"slices"
	"strings"

	"aicplan/cudaops/comm"
	"aicplan/cudaops/cpu"
	"aicplan/cudaops/ops"
	"aicplan/cudaops/worker"
)

// New makes the host of a runtime kind. Kinds that are executed by another
// program (python) are not listed here.
func New(kind string, init worker.Init) (worker.Host, error) {
	switch kind {
	case "cpu":
		return cpu.Host(init), nil
	case "nccl":
		return comm.Host(init), nil
	case "cuda":
		return ops.New(init), nil
	}
	return nil, &worker.StartError{Failure: worker.Failure{
		Class: worker.ClassCollectorBug,
		Message: fmt.Sprintf("this aicplan has no worker for runtimes of kind %q; it has %s",
			kind, strings.Join(Kinds(), ", ")),
	}}
}

// FromInit makes the host that an init message asks for: the argument that
// worker.Serve needs.
func FromInit(init worker.Init) (worker.Host, error) { return New(init.Kind, init) }

// Kinds lists the runtime kinds that New knows, sorted.
func Kinds() []string {
	k := []string{"cpu", "cuda", "nccl"}
	slices.Sort(k)
	return k
}

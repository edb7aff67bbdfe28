package runtimes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/physics"
)

// Kind is one kind of runtime: its schema in plans and how its workers are started. Kinds returns all of
// them. All fields except RuntimeKind and Slots are optional.
type Kind struct {
	stage.RuntimeKind

	// Slots returns the slots for workers. spec starts a worker without a device. list returns the GPUs
	// of this machine. An error contains a suggested fix.
	Slots func(spec worker.Spec, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error)
	// Host creates the worker side of kinds that run in this binary. It is nil for kinds with their own
	// Program.
	Host func(worker.Init) (worker.Host, error)
	// Inside runs the host in the engine's process. It is for hosts without a device and without native
	// code. With a launcher, the host still has its own process.
	Inside bool
	// Program returns the command that starts a worker. The program is searched on this machine or, if
	// the runtime has a launcher, in the launcher's environment. It accepts the flags --fd-in and
	// --fd-out. Nil means this binary.
	Program func(rt *stage.Runtime, at Place) ([]string, error)
	// Env lists variables as "NAME=value" that every worker needs.
	Env []string
	// Answer answers questions of workers; see worker.Spec.
	Answer func(worker.Question) (worker.Answer, error)
	// WorkerOptions adds values of the runtime block to the worker's options.
	WorkerOptions func(rt *stage.Runtime, at Place, options map[string]any) map[string]any
	// Probe returns the environment without a worker. It is nil if that is not possible.
	Probe func(ctx context.Context, rt *stage.Runtime) *Environment
	// Look describes what of the runtime is on this machine, without starting a worker. The error is a
	// *Missing. Look is not called if the runtime has a launcher. Nil means that nothing is checked.
	Look func(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error)
	// Tools returns a problem on this machine that a run would otherwise detect late, such as a missing
	// program, or "". Nil means that nothing is checked.
	Tools func(rt *stage.Runtime, blocks map[string]cty.Value) string
	// PackageVersion returns the installed version of the runtime's package, or "" if it is not
	// installed. It is nil for kinds without packages.
	PackageVersion func(ctx context.Context, p *Pools, rt *stage.Runtime) string
	// Interpreter returns the version of the runtime's interpreter, or "" if there is none here. Workers
	// report the same value as python. It is nil for kinds without an interpreter.
	Interpreter func(ctx context.Context, p *Pools, rt *stage.Runtime) string
	// OnGPUs reports whether the runtime's workers use this machine's GPUs. Nil means never.
	OnGPUs func(rt *stage.Runtime) bool
	// OnProcessor is set if workers without a GPU measure on the processor.
	OnProcessor bool
	// OnNothing reports whether the runtime's rows are not measured on this machine, such as
	// predictions. Nil means never.
	OnNothing func(rt *stage.Runtime) bool
	// Libraries lists the CUDA libraries that the workers open, as named by doctor.
	Libraries []string
	// Bind completes a collect's binding with files from the plan's folder.
	Bind func(bind any, planDir string) (any, error)
	// Source returns the source code that workers measure an op with. version is the framework's
	// version, or "" if unknown.
	Source func(rt *stage.Runtime, planDir, op string, bind any, version string) (OpFile, bool)
	// FirstDeadline is the deadline of a case until some have been measured. Zero means the default.
	FirstDeadline time.Duration
	// Together returns the columns whose change requires a restart of the worker. Cases with the same
	// values in them run one after the other. Nil keeps the order.
	Together func(rt *stage.Runtime, columns []string) []string
	// Released is set if the workers end with the collect because the next stage may need their
	// resources.
	Released bool
	// StartHelp returns advice for a worker that does not start, as a sentence without a full stop. It
	// may be nil.
	StartHelp func(rt *stage.Runtime) string
	// Grace is how long a worker may take to exit. Zero means the default.
	Grace func(rt *stage.Runtime) time.Duration
	// CaseSeconds returns the duration of a case in seconds, including overhead, given the kernel. Nil
	// means unknown.
	CaseSeconds func(rt *stage.Runtime, s measure.Settings, k physics.Kernel) float64
	// OpSeconds returns the duration in seconds of a case of an op with a fixed duration, and 0 for
	// other ops. Nil means that there are no such ops.
	OpSeconds func(op string, s measure.Settings) float64
	// SharedSeconds returns the time in seconds that the cases of one worker take in addition. kernels
	// is a sample of them. Nil means none.
	SharedSeconds func(rt *stage.Runtime, s measure.Settings, kernels []physics.Kernel, cases float64) float64
	// Peaks returns the approximate operations and bytes per second of kinds without a GPU, for
	// estimates. It is nil for other kinds, whose system defines them.
	Peaks func() (flops, bytes float64)
	// Whole reports whether the runtime has one worker that uses all its GPUs. Nil means never.
	Whole func(rt *stage.Runtime) bool
	// MaxGrowth is the growth of a worker's memory in bytes after which it is replaced. Zero means no
	// limit.
	MaxGrowth int64
}

// Kinds returns the kinds of runtimes in this binary. To add a kind, add a file kind_NAME.go and an
// entry here.
func Kinds() []Kind {
	return []Kind{
		cpuKind(),
		cudaKind(),
		endpointKind(),
		ncclKind(),
		pythonKind(),
		serverKind(),
	}
}

// Registered returns the schemas of the kinds for plans.
func Registered(kinds []Kind) []stage.RuntimeKind {
	var out []stage.RuntimeKind
	for _, k := range kinds {
		out = append(out, k.RuntimeKind)
	}
	return out
}

// HasAll reports whether the runtime has one worker that uses all its GPUs.
func (k *Kind) HasAll(rt *stage.Runtime) bool { return k.Whole != nil && k.Whole(rt) }

// HostOf returns the function for worker.Serve that creates the host for an init message, from the kinds
// that run in this binary.
func HostOf(kinds []Kind) func(worker.Init) (worker.Host, error) {
	return func(init worker.Init) (worker.Host, error) {
		var have []string
		for _, k := range kinds {
			if k.Host == nil {
				continue
			}
			if k.Name == init.Kind {
				return k.Host(init)
			}
			have = append(have, k.Name)
		}

		slices.Sort(have)
		return nil, &worker.StartError{Failure: worker.Failure{
			Class: worker.ClassCollectorBug,
			Message: fmt.Sprintf("this aicplan has no worker for runtimes of kind %q; it has %s", init.Kind,
				strings.Join(have, ", ")),
		}}
	}
}

// opsOf returns ops sorted by name, with the parameters that each needs and the words that they accept.
func opsOf(needs map[string][]string, words map[string]map[string][]string) []stage.Op {
	var out []stage.Op
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		out = append(out, stage.Op{Name: name, Needs: needs[name], Words: words[name]})
	}
	return out
}

// allMeasureBut returns the names of all measure settings except some.
func allMeasureBut(without ...string) []string {
	return slices.DeleteFunc(measure.SettingNames(), func(name string) bool { return slices.Contains(without, name) })
}

// always is an OnGPUs function that returns true.
func always(*stage.Runtime) bool { return true }

// Kind returns the kind of that name, or nil.
func (p *Pools) Kind(name string) *Kind {
	for i := range p.Kinds {
		if p.Kinds[i].Name == name {
			return &p.Kinds[i]
		}
	}
	return nil
}

// SourceOf returns the source code that a worker measures an op with. It returns false for runtimes
// whose ops are not files.
func (p *Pools) SourceOf(rt *stage.Runtime, planDir, op string, bind any, version string) (OpFile, bool) {
	if rt == nil {
		return OpFile{}, false
	}
	if k := p.Kind(rt.Kind); k != nil && k.Source != nil {
		return k.Source(rt, planDir, op, bind, version)
	}
	return OpFile{}, false
}

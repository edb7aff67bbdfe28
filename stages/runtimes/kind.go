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

// Kind is one kind of runtime: what plans may say about it, and how its workers
// come about. Kinds lists every one; all fields but the embedded ones and Slots
// may be left at zero.
type Kind struct {
	stage.RuntimeKind

	// Slots lists the places for workers. spec starts a worker; it has no device
	// yet. list names the GPUs of this machine. An error says what the user can do.
	Slots func(spec worker.Spec, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error)
	// Host makes the worker's side of kinds that this program itself runs; nil
	// for kinds with a Program of their own.
	Host func(worker.Init) (worker.Host, error)
	// Inside has the host run in the engine's own process: for hosts without a
	// device and without native code. Behind a launcher it has a process all the
	// same.
	Inside bool
	// Program is the command that starts a worker, to be found on this machine or,
	// where the runtime has a launcher, behind that. It takes the flags --fd-in and
	// --fd-out. Nil means this program.
	Program func(rt *stage.Runtime, at Place) ([]string, error)
	// Env are variables, as "NAME=value", that every worker needs.
	Env []string
	// Answer decides the questions of workers; see worker.Spec.
	Answer func(worker.Question) (worker.Answer, error)
	// WorkerOptions adds what workers need of the runtime block to its options.
	WorkerOptions func(rt *stage.Runtime, at Place, options map[string]any) map[string]any
	// Probe returns the environment without a worker; nil where only a worker can.
	Probe func(ctx context.Context, rt *stage.Runtime) *Environment
	// Look says what of the runtime is on this machine, without starting a worker;
	// a *Missing error says what is not. It is not asked where a launcher starts
	// the workers. Nil looks for nothing.
	Look func(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error)
	// Tools says what is wrong with a runtime and the blocks of a collect on this
	// machine that a run would find out late, such as programs that are not there; ""
	// for nothing. Nil looks for nothing.
	Tools func(rt *stage.Runtime, blocks map[string]cty.Value) string
	// PackageVersion is the installed version of the runtime's package, "" where
	// there is none; nil for kinds without packages.
	PackageVersion func(ctx context.Context, p *Pools, rt *stage.Runtime) string
	// Interpreter is the version of the runtime's interpreter, "" where there is
	// none here; workers report it as python. Nil for kinds without one.
	Interpreter func(ctx context.Context, p *Pools, rt *stage.Runtime) string
	// OnGPUs says whether the runtime's workers use this machine's GPUs; nil means
	// never.
	OnGPUs func(rt *stage.Runtime) bool
	// OnProcessor is true where workers without a GPU measure on the processor.
	OnProcessor bool
	// OnNothing says whether the runtime's rows are no measurements of this machine,
	// such as predictions; nil means never.
	OnNothing func(rt *stage.Runtime) bool
	// Libraries are the CUDA libraries that the workers open, as doctor names them.
	Libraries []string
	// Bind completes a collect's binding by what lies in the plan's folder.
	Bind func(bind any, planDir string) (any, error)
	// Source finds the code that workers will measure an op with. Version is the
	// framework's where it is known, else "".
	Source func(rt *stage.Runtime, planDir, op string, bind any, version string) (OpFile, bool)
	// FirstDeadline is how long a case may take until some have been measured; 0
	// means the default of all.
	FirstDeadline time.Duration
	// Together names the columns of which cases with the same values are measured one
	// after the other, whatever the order of the rest: changing them costs a start.
	// Nil keeps the order.
	Together func(rt *stage.Runtime, columns []string) []string
	// Released is true where the workers end with the collect, because they hold what
	// the next stage may need.
	Released bool
	// StartHelp is what a user can do about a worker that does not get ready, a
	// sentence without a full stop; nil where there is nothing to say.
	StartHelp func(rt *stage.Runtime) string
	// Grace is how long a worker may take to end; 0 means the default of all.
	Grace func(rt *stage.Runtime) time.Duration
	// CaseSeconds says how long a case takes whose kernels take so many seconds,
	// with what surrounds them; nil where that cannot be told.
	CaseSeconds func(rt *stage.Runtime, s measure.Settings, k physics.Kernel) float64
	// OpSeconds says how long a case of an op takes whatever its kernels take; 0 for
	// others. Nil where there are no such ops.
	OpSeconds func(op string, s measure.Settings) float64
	// SharedSeconds says what so many cases of one worker take together beside that;
	// kernels are a sample of them. Nil where that is nothing.
	SharedSeconds func(rt *stage.Runtime, s measure.Settings, kernels []physics.Kernel, cases float64) float64
	// Peaks are the operations and bytes a second that kinds without a GPU come to,
	// roughly, for estimates; nil for others, whose system says it.
	Peaks func() (flops, bytes float64)
	// Whole reports whether the runtime's one worker has all its GPUs; nil means never.
	Whole func(rt *stage.Runtime) bool
	// MaxGrowth is the growth of a worker in bytes after which it is replaced; 0 means
	// no limit.
	MaxGrowth int64
}

// Kinds lists the kinds of runtimes that this program has. A new kind is a file
// kind_NAME.go and a line here.
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

// Registered is what plans may say about the kinds.
func Registered(kinds []Kind) []stage.RuntimeKind {
	var out []stage.RuntimeKind
	for _, k := range kinds {
		out = append(out, k.RuntimeKind)
	}
	return out
}

// HasAll reports whether the runtime's one worker has all its GPUs.
func (k *Kind) HasAll(rt *stage.Runtime) bool { return k.Whole != nil && k.Whole(rt) }

// HostOf makes the host that an init message asks for, of the kinds that this
// program itself runs: the argument that worker.Serve needs.
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
			Class:   worker.ClassCollectorBug,
			Message: fmt.Sprintf("this aicplan has no worker for runtimes of kind %q; it has %s", init.Kind, strings.Join(have, ", ")),
		}}
	}
}

// opsOf lists ops by name, from the parameters that each needs.
func opsOf(needs map[string][]string, words map[string]map[string][]string) []stage.Op {
	var out []stage.Op
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		out = append(out, stage.Op{Name: name, Needs: needs[name], Words: words[name]})
	}
	return out
}

// allMeasureBut are the names of the measure settings without some.
func allMeasureBut(without ...string) []string {
	return slices.DeleteFunc(measure.SettingNames(), func(name string) bool { return slices.Contains(without, name) })
}

// always is an OnGPUs.
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

// SourceOf finds the code that a worker will measure an op with, of runtimes
// whose ops are files. It is false for others.
func (p *Pools) SourceOf(rt *stage.Runtime, planDir, op string, bind any, version string) (OpFile, bool) {
	if rt == nil {
		return OpFile{}, false
	}
	if k := p.Kind(rt.Kind); k != nil && k.Source != nil {
		return k.Source(rt, planDir, op, bind, version)
	}
	return OpFile{}, false
}

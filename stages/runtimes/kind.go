package runtimes

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/rules"
)

// Kind is one kind of runtime: its schema in plans, how its workers are started, and what is known about
// them without starting one. Implementations embed Base, which has a default for every method.
type Kind interface {
	// About returns the properties of the kind.
	About() *Base

	// Slots returns the slots for workers. spec starts a worker without a device. An error contains a
	// suggested fix.
	Slots(p *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error)
	// Program returns the command that starts a worker. The program is searched on this machine or, if the
	// runtime has a launcher, in the launcher's environment. It accepts the flags --fd-in and --fd-out. Nil
	// means this binary.
	Program(rt *stage.Runtime, at Place) ([]string, error)
	// WorkerOptions adds values of the runtime block to the worker's options.
	WorkerOptions(rt *stage.Runtime, at Place, options map[string]any)

	// Probe returns the environment without a worker, or nil if that is not possible.
	Probe(ctx context.Context, rt *stage.Runtime) *Environment
	// Look describes what of the runtime is on this machine, without starting a worker. The error is a
	// *Missing or an *Unjudged. It is not called if the runtime has a launcher.
	Look(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error)
	// Problem returns a problem on this machine that a run would otherwise detect late, such as a missing
	// program, or "".
	Problem(rt *stage.Runtime, blocks map[string]cty.Value) string
	// Installed returns the versions that the runtime's interpreter reports: of the runtime's package, its own,
	// and those of further packages.
	Installed(ctx context.Context, p *Pools, rt *stage.Runtime, packages []string) Installed
	// OnGPUs reports whether the runtime's workers use this machine's GPUs.
	OnGPUs(rt *stage.Runtime) bool
	// OffMachine reports whether the runtime's rows are not measured on this machine, such as predictions.
	OffMachine(rt *stage.Runtime) bool
	// OneWorker reports whether the runtime has one worker that uses all its GPUs.
	OneWorker(rt *stage.Runtime) bool

	// Bind completes a collect's binding with files from the plan's folder.
	Bind(bind any, planDir string) (any, error)
	// Entry returns where the code begins that workers measure an op with. version is the framework's version,
	// or "" if unknown.
	Entry(rt *stage.Runtime, planDir, op string, bind any, version string) (Entry, bool)
	// Files returns files of the plan that workers or servers read. Their contents are part of the key.
	Files(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) []string
	// RestartColumns returns the columns whose change requires a restart of the worker. Cases with the same
	// values in them run one after the other. Nil keeps the order.
	RestartColumns(rt *stage.Runtime, columns []string) []string
	// StartHelp returns advice for a worker that does not start, as a sentence without a full stop, or "".
	StartHelp(rt *stage.Runtime) string
	// Grace is how long a worker may take to exit. Zero means the default.
	Grace(rt *stage.Runtime) time.Duration

	// CaseSeconds returns the duration of a case in seconds, including overhead, given the kernel. Zero means
	// unknown.
	CaseSeconds(rt *stage.Runtime, s measure.Settings, k rules.Kernel) float64
	// OpSeconds returns the duration in seconds of a case of an op with a fixed duration, and 0 for other ops.
	OpSeconds(op string, s measure.Settings) float64
}

// Base contains the properties of a kind and implements every method of Kind. All fields except
// RuntimeKind are optional.
type Base struct {
	stage.RuntimeKind

	// Host creates the worker side of kinds that run in this binary. It is nil for kinds with their own
	// Program.
	Host func(worker.Init) (worker.Host, error)
	// Check returns why the workers would reject a case, without starting one, or nil. It may be nil itself.
	Check func(worker.Init, worker.Case) error
	// CheckBinding returns a function that does the same for cases of a binding. It may be nil.
	CheckBinding func(json.RawMessage) (func(worker.Case) error, error)
	// CheckWords returns why a binding has an attribute without effect, as a sentence without a full stop. It may be nil.
	CheckWords func(bind map[string]any) error
	// Inside runs the host in the engine's process. It is for hosts without a device and without native code.
	// With a launcher, the host still has its own process.
	Inside bool
	// Env lists variables as "NAME=value" that every worker needs.
	Env []string
	// Answer answers questions of workers; see worker.Spec.
	Answer func(worker.Question) (worker.Answer, error)
	// Interpreted is set if the runtime has an interpreter, whose version workers report as python.
	Interpreted bool
	// UsesGPUs is what the default OnGPUs returns.
	UsesGPUs bool
	// OnProcessor is set if workers without a GPU measure on the processor.
	OnProcessor bool
	// HasCode is set if workers report the code of their ops.
	HasCode bool
	// Libraries lists the CUDA libraries that the workers open, as named by doctor.
	Libraries []string
	// FirstDeadline is the deadline of a case until some have been measured. Zero means the default.
	FirstDeadline time.Duration
	// OneNode is set if what a case starts runs on the worker's node only, unless the option command begins
	// with srun.
	OneNode bool
	// Released is set if the workers end with the collect because the next stage may need their resources.
	Released bool
	// PeakFlops and PeakBytes are the approximate operations and bytes per second of kinds without a GPU, for estimates.
	// They are 0 for other kinds, whose system defines them.
	PeakFlops, PeakBytes float64
	// MaxGrowth is the growth of a worker's memory in bytes after which it is replaced. Zero means no limit.
	MaxGrowth int64
}

// Installed is what an interpreter reports.
type Installed = pyhost.Installed

// About implements Kind.
func (b *Base) About() *Base { return b }

// Slots implements Kind. They are slots without a device.
func (b *Base) Slots(_ *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error) {
	return spread(spec, rt.Workers, []Device{{Index: -1}}), nil
}

// Program implements Kind.
func (b *Base) Program(*stage.Runtime, Place) ([]string, error) { return nil, nil }

// WorkerOptions implements Kind.
func (b *Base) WorkerOptions(*stage.Runtime, Place, map[string]any) {}

// Probe implements Kind.
func (b *Base) Probe(context.Context, *stage.Runtime) *Environment { return nil }

// Look implements Kind. It describes the GPUs if the kind uses them.
func (b *Base) Look(_ context.Context, p *Pools, rt *stage.Runtime) (string, error) {
	if b.UsesGPUs {
		return p.lookGPUs()
	}
	return "a runtime of kind " + rt.Kind + " needs nothing of this machine", nil
}

// Problem implements Kind.
func (b *Base) Problem(*stage.Runtime, map[string]cty.Value) string { return "" }

// Installed implements Kind.
func (b *Base) Installed(context.Context, *Pools, *stage.Runtime, []string) Installed {
	return Installed{}
}

// OnGPUs implements Kind.
func (b *Base) OnGPUs(*stage.Runtime) bool { return b.UsesGPUs }

// OffMachine implements Kind.
func (b *Base) OffMachine(*stage.Runtime) bool { return false }

// OneWorker implements Kind.
func (b *Base) OneWorker(*stage.Runtime) bool { return false }

// Bind implements Kind.
func (b *Base) Bind(bind any, _ string) (any, error) { return bind, nil }

// Entry implements Kind.
func (b *Base) Entry(*stage.Runtime, string, string, any, string) (Entry, bool) {
	return Entry{}, false
}

// Files implements Kind.
func (b *Base) Files(*stage.Runtime, string, map[string]cty.Value) []string { return nil }

// RestartColumns implements Kind.
func (b *Base) RestartColumns(*stage.Runtime, []string) []string { return nil }

// StartHelp implements Kind.
func (b *Base) StartHelp(*stage.Runtime) string { return "" }

// Grace implements Kind.
func (b *Base) Grace(*stage.Runtime) time.Duration { return 0 }

// CaseSeconds implements Kind.
func (b *Base) CaseSeconds(*stage.Runtime, measure.Settings, rules.Kernel) float64 { return 0 }

// OpSeconds implements Kind.
func (b *Base) OpSeconds(string, measure.Settings) float64 { return 0 }

// Kinds returns the kinds of runtimes in this binary. To add a kind, add a file kind_NAME.go and an
// entry here.
func Kinds() []Kind {
	return []Kind{cpuKind(), cudaKind(), endpointKind(), ncclKind(), pythonKind(), serverKind()}
}

// Registered returns the schemas of the kinds for plans.
func Registered(kinds []Kind) []stage.RuntimeKind {
	var out []stage.RuntimeKind
	for _, k := range kinds {
		out = append(out, k.About().RuntimeKind)
	}
	return out
}

// HostOf returns the function for worker.Serve that creates the host for an init message, from the kinds
// that run in this binary.
func HostOf(kinds []Kind) func(worker.Init) (worker.Host, error) {
	return func(init worker.Init) (worker.Host, error) {
		var have []string
		for _, k := range kinds {
			about := k.About()
			if about.Host == nil {
				continue
			}
			if about.Name == init.Kind {
				return about.Host(init)
			}
			have = append(have, about.Name)
		}

		slices.Sort(have)
		return nil, worker.Failed(worker.ClassCollectorBug, "this aicplan has no worker for runtimes of kind %q; it has %s",
			init.Kind, strings.Join(have, ", "))
	}
}

// opsOf returns ops sorted by name.
func opsOf(ops []worker.Op) []stage.Op {
	slices.SortFunc(ops, func(a, b worker.Op) int { return strings.Compare(a.Name, b.Name) })
	var out []stage.Op
	for _, o := range ops {
		out = append(out, stage.Op{Name: o.Name, Needs: o.Needs, Words: o.Words})
	}
	return out
}

// allMeasureBut returns the names of all measure settings except some.
func allMeasureBut(without ...string) []string {
	return slices.DeleteFunc(measure.SettingNames(), func(name string) bool { return slices.Contains(without, name) })
}

// Kind returns the kind of that name. The result for a name that this binary does not have has no name.
func (p *Pools) Kind(name string) Kind {
	for _, k := range p.Kinds {
		if k.About().Name == name {
			return k
		}
	}
	return &Base{}
}

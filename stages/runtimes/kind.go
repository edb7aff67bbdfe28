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
// them without starting one. All fields except RuntimeKind are optional.
type Kind struct {
	stage.RuntimeKind

	// Host creates the worker side of kinds that run in this binary. It is nil for kinds with their own
	// Program.
	Host func(worker.Init) (worker.Host, error)
	// Check returns why the workers would reject a case, without starting one, or nil.
	Check func(worker.Init, worker.Case) error
	// CheckBinding returns a function that does the same for cases of a binding.
	CheckBinding func(json.RawMessage) (func(worker.Case) error, error)
	// CheckWords returns why a binding has an attribute without effect, as a sentence without a full stop.
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
	// UsesGPUs is set if workers use this machine's GPUs; see OnGPUs.
	UsesGPUs bool
	// OnProcessor is set if workers without a GPU measure on the processor.
	OnProcessor bool
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

	// Slots returns the slots for workers. spec starts a worker without a device. An error contains a
	// suggested fix. Nil means slots without a device.
	Slots func(p *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error)
	// Program returns the command that starts a worker. The program is searched on this machine or, if the
	// runtime has a launcher, in the launcher's environment. It accepts the flags --fd-in and --fd-out. Nil
	// means this binary.
	Program func(rt *stage.Runtime, at Place) ([]string, error)
	// WorkerOptions adds values of the runtime block to the worker's options.
	WorkerOptions func(rt *stage.Runtime, at Place, options map[string]any)
	// Probe returns the environment without a worker, or nil if that is not possible.
	Probe func(ctx context.Context, rt *stage.Runtime) *Environment
	// Look describes what of the runtime is on this machine, without starting a worker. The error is a
	// *Missing or an *Unjudged. It is not called if the runtime has a launcher. Nil describes the GPUs if the
	// kind uses them.
	Look func(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error)
	// Problem returns a problem on this machine that a run would otherwise detect late, such as a missing
	// program, or "".
	Problem func(rt *stage.Runtime, blocks map[string]cty.Value) string
	// OffMachine reports whether the runtime's rows are not measured on this machine, such as predictions.
	OffMachine func(rt *stage.Runtime) bool
	// OneWorker reports whether the runtime has one worker that uses all its GPUs.
	OneWorker func(rt *stage.Runtime) bool
	// Bind completes a collect's binding with files from the plan's folder.
	Bind func(bind map[string]any, planDir string) (map[string]any, error)
	// Entry returns where the code begins that workers measure an op with. version is the framework's version,
	// or "" if unknown. It is set if workers report the code of their ops.
	Entry func(rt *stage.Runtime, planDir, op string, bind any, version string) (Entry, bool)
	// Files returns files of the plan that workers or servers read. Their contents are part of the key.
	Files func(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) []string
	// RestartColumns returns the columns whose change requires a restart of the worker. Cases with the same
	// values in them run one after the other. Nil keeps the order.
	RestartColumns func(rt *stage.Runtime, columns []string) []string
	// StartHelp returns advice for a worker that does not start, as a sentence without a full stop, or "".
	StartHelp func(rt *stage.Runtime) string
	// Grace is how long a worker may take to exit.
	Grace func(rt *stage.Runtime) time.Duration
	// CaseSeconds returns the duration of a case in seconds, including overhead, given the kernel. Zero means
	// unknown.
	CaseSeconds func(rt *stage.Runtime, s measure.Settings, k rules.Kernel) float64
	// OpSeconds returns the duration in seconds of a case of an op with a fixed duration, and 0 for other ops.
	OpSeconds func(op string, s measure.Settings) float64
}

// OnGPUs reports whether the runtime's workers use this machine's GPUs. The option device names another place.
func (k *Kind) OnGPUs(rt *stage.Runtime) bool { return k.UsesGPUs && onGPUs(rt) }

// HasOneWorker reports whether the runtime has one worker that uses all its GPUs.
func (k *Kind) HasOneWorker(rt *stage.Runtime) bool { return k.OneWorker != nil && k.OneWorker(rt) }

// Installed is what an interpreter reports.
type Installed = pyhost.Installed

// Kinds returns the kinds of runtimes in this binary. To add a kind, add a file kind_NAME.go and an
// entry here.
func Kinds() []*Kind {
	return []*Kind{cpuKind(), cudaKind(), endpointKind(), ncclKind(), pythonKind(), serverKind()}
}

// Registered returns the schemas of the kinds for plans.
func Registered(kinds []*Kind) []stage.RuntimeKind {
	var out []stage.RuntimeKind
	for _, k := range kinds {
		out = append(out, k.RuntimeKind)
	}
	return out
}

// HostOf returns the function for worker.Serve that creates the host for an init message, from the kinds
// that run in this binary.
func HostOf(kinds []*Kind) func(worker.Init) (worker.Host, error) {
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
		return nil, worker.Failed(worker.ClassCollectorBug, "this aicplan has no worker for runtimes of kind %q; it has %s",
			init.Kind, strings.Join(have, ", "))
	}
}

// opsOf returns ops sorted by name.
func opsOf(ops []worker.Op) []stage.Op {
	slices.SortFunc(ops, func(a, b worker.Op) int { return strings.Compare(a.Name, b.Name) })
	var out []stage.Op
	for _, o := range ops {
		out = append(out, stage.Op(o))
	}
	return out
}

// allMeasureBut returns the names of all measure settings except some.
func allMeasureBut(without ...string) []string {
	return slices.DeleteFunc(measure.SettingNames(), func(name string) bool { return slices.Contains(without, name) })
}

// Kind returns the kind of that name. The result for a name that this binary does not have has no name.
func (p *Pools) Kind(name string) *Kind {
	for _, k := range p.Kinds {
		if k.Name == name {
			return k
		}
	}
	return &Kind{}
}

// Beside maps the attributes of a runtime block that do not change the meaning of its rows to the
// reason. Attribute paths are those of stage.RuntimeValues. Options declare this themselves; see
// stage.Option. Attributes that are neither here nor in Told distinguish measurements.
var Beside = map[string]string{
	"devices": "which of the devices; rows name theirs, and the journal the kind of device",
}

// Told maps the attributes of a runtime block that the journal does not repeat, because it contains a
// value derived from them.
var Told = map[string]string{
	"address":        "the same runtime may have another name in another plan",
	"kind":           "the journal has it",
	"framework":      "the journal has it",
	"package":        "the journal has it, with the version that was found",
	"workers":        "the journal has it if several share a device",
	"requires":       "it judges the version that was found",
	"python":         "the journal has its version and those of the distributions that the op imports",
	"collector_root": "the journal has a digest of the collector and of what it imports",
	"path":           "the journal has a digest of the op's file and of what it imports",
	"image":          "the journal has it",
	"image_digest":   "the journal has it",
}

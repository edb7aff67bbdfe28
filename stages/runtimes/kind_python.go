package runtimes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/instrument"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// pythonKind returns the kind that runs the Python host: on every GPU, or on the processor if the machine has none
// or device is "cpu".
func pythonKind() *Kind {
	return &Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "python",
			Summary:    "op functions and collectors in Python, with a framework's own kernels",
			Stability:  stage.Stable,
			Attributes: []string{"collector_root", "devices", "package", "path", "python", "requires", "workers"},
			Options:    Options(pyhost.Options()),
			Measure:    allMeasureBut(),
			Binds:      "Python code",
			Instrument: 10,
			NamesOps:   true,
			Reads:      true,
		},
		Env:         []string{cudaOrder},
		Answer:      pyhost.Answer,
		CheckWords:  pyhost.CheckBinding,
		Interpreted: true,
		OnProcessor: true,
		UsesGPUs:    true,
		MaxGrowth:   16 << 30, // frameworks leak

		OffMachine:    func(rt *stage.Runtime) bool { return textAt(rt.Options["device"]) == pyhost.DeviceNone },
		OneWorker:     oneWorker,
		Slots:         pythonSlots,
		Program:       hostProgram,
		WorkerOptions: pythonOptions,
		StartHelp:     slowPython,
		Look:          lookPackage,
		Entry:         opEntry,
		CaseSeconds:   pythonSeconds,
	}
}

// onGPUs reports whether a python runtime uses GPUs. The option device names another place.
func onGPUs(rt *stage.Runtime) bool { return rt.Options["device"] == cty.NilVal }

func oneWorker(rt *stage.Runtime) bool { return flagAt(rt.Options["one_worker"]) }

func pythonSlots(p *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error) {
	devices := []Device{{Index: -1}}
	if onGPUs(rt) {
		if found, err := p.Devices(); err != nil {
			return nil, err
		} else if len(found) > 0 || len(rt.Devices) > 0 {
			if devices, err = p.chosen(rt); err != nil {
				return nil, err
			}
		}
	}

	workers, first := rt.Workers, rt.Workers
	if oneWorker(rt) {
		// Ranks that an op starts use the GPUs of the worker.
		if devices[0].Index >= 0 {
			spec.Init.Options["gpus"] = len(devices)
			spec.Init.Options["gpu_uuids"] = strings.Join(uuidsOf(devices), " ") // the worker reports them
		}
		if rt.Devices != nil {
			spec.Init.Options["devices"] = indicesOf(devices)
		}
		workers, devices = 1, devices[:1]
	}

	if workers == 0 && rt.CollectorRoot != "" && devices[0].Index >= 0 {
		// Building a layer is Python on one core, and the GPU idles meanwhile.
		workers = min(max(runtime.NumCPU()/len(devices)/2, 1), mostPreparers)
		first = min(workers, firstPreparers)
	}

	if devices[0].Index >= 0 {
		shareCores(&spec, max(workers, 1)*len(devices))
	}
	slots := spread(spec, workers, devices)
	shared := map[int]*instrument.Instrument{}
	for i, s := range slots {
		slots[i].Late = first > 0 && i >= first*len(devices)
		in := shared[s.Device]
		if in == nil || s.Device < 0 {
			in = instrument.New(instrument.Options{})
			shared[s.Device] = in
		}
		slots[i].Spec.Instrument = in.Join
	}
	return slots, nil
}

// threadsVariable limits the threads of OpenMP, MKL and OpenBLAS in a process.
const threadsVariable = "OMP_NUM_THREADS"

// shareCores divides the processor's cores among the workers of GPUs. Otherwise each uses all cores for every tensor
// on the processor, and workers that draw routings, as vLLM's experts do, wait for each other. A value of the user
// takes precedence.
func shareCores(spec *worker.Spec, workers int) {
	_, own := spec.Init.Env[threadsVariable]
	if _, inherited := os.LookupEnv(threadsVariable); workers < 2 || own || inherited {
		return
	}
	env := map[string]string{threadsVariable: strconv.Itoa(max(runtime.NumCPU()/workers, 1))}
	maps.Copy(env, spec.Init.Env)
	spec.Init.Env = env
}

// firstPreparers start at once. More delay the beginning, where each waits for the first cases of all others, which
// compile. In long runs up to mostPreparers pay if cases compile or draw much on the processor. From there on, further
// ones prepare little more: they wait for each other's work on the GPU, and each takes memory for a context and the
// framework.
const (
	firstPreparers = 4
	mostPreparers  = 8
)

// hostProgram returns the interpreter with the host, which is written into the state folder.
func hostProgram(rt *stage.Runtime, at Place) ([]string, error) {
	hosts := filepath.Join(at.StateDir, "hosts")
	if len(rt.Launcher) == 0 {
		path, args, err := pyhost.Command(rt.Python, hosts)
		// Python finds a virtual environment by the path that it is started as.
		return append([]string{path}, args...), err
	}

	host, err := pyhost.Write(hosts)
	return []string{pythonOf(rt), "-u", host}, err
}

// slowPython is the StartHelp of python.
func slowPython(rt *stage.Runtime) string {
	more := fmt.Sprintf("%s of %s gives it more time", pyhost.OptionStartsWithin, rt.Address)
	if len(rt.Launcher) > 0 {
		return "its launcher may still be fetching an image; " + more
	}

	code := "pass"
	if rt.Package != "" {
		code = "import " + strings.ReplaceAll(rt.Package, "-", "_")
	}
	return fmt.Sprintf("%s -v -c '%s' by hand shows what it waits for; %s", pythonOf(rt), code, more)
}

// pythonOf returns the runtime's interpreter.
func pythonOf(rt *stage.Runtime) string { return cmp.Or(rt.Python, pyhost.DefaultPython) }

func pythonOptions(rt *stage.Runtime, at Place, options map[string]any) {
	root := absolute(declaredIn(rt, at.PlanDir), rt.CollectorRoot)
	set(options, map[string]string{"package": rt.Package, "requires": rt.Requires, "collector_root": root})
	if paths := Paths(rt, at.PlanDir); len(paths) > 0 {
		options["path"] = paths
	}
}

// lookPackage is the Look of kinds whose framework is a package of a Python interpreter.
func lookPackage(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error) {
	python := pythonOf(rt)
	if _, err := exec.LookPath(python); errors.Is(err, fs.ErrPermission) {
		return "", missing("make it executable, for example with chmod +x", "the interpreter %s cannot be run: %v", python,
			err)
	} else if err != nil {
		return "", missing(getIt(rt), "the interpreter %s is not on this machine", python)
	}
	if rt.Package == "" {
		return python + " is there; the runtime names no package", nil
	}

	v := p.interpreter(ctx, rt, nil).Package
	if u := p.Unanswered(rt); u != nil {
		return "", u
	}
	if v == "" {
		return "", missing(getIt(rt), "the Python package %s is not installed for %s", rt.Package, python)
	}
	if v == pyhost.UnknownVersion {
		return fmt.Sprintf("%s reports no version of %s; a worker will", python, rt.Package), nil
	}
	if err := Satisfies(v, rt.Requires); err != nil {
		return "", missing(getIt(rt), "%s %s is installed, but %s requires %s", rt.Package, v, rt.Address, rt.Requires)
	}
	return fmt.Sprintf("%s %s", rt.Package, v), nil
}

// interpreter asks a runtime's interpreter for versions, without importing packages. It asks once. If a plan may
// not start the interpreter, only a worker can report the versions.
func (p *Pools) interpreter(ctx context.Context, rt *stage.Runtime, packages []string) Installed {
	key, env, ok := question(ctx, rt, packages)
	if !ok {
		return Installed{Package: pyhost.UnknownVersion}
	}

	p.mu.Lock()
	ask := p.versions[key]
	if ask == nil {
		ask = sync.OnceValue(func() Installed { return pyhost.Ask(ctx, pythonOf(rt), rt.Package, packages, env) })
		p.versions[key] = ask
		p.failures[pythonOf(rt)] = ask
	}
	p.mu.Unlock()
	return ask()
}

// question returns a key for what an interpreter is asked, and the variables that it gets. It returns false if
// a plan may not start the interpreter.
func question(ctx context.Context, rt *stage.Runtime, packages []string) (key string, env []string, ok bool) {
	env = environ(rt)
	if !mayRun(ctx) {
		if !plainPython(rt) {
			return "", nil, false
		}
		env = nil // a wrapper in front of the interpreter could use them
	}
	words := slices.Concat([]string{pythonOf(rt), rt.Package}, packages, []string{""}, env)
	return strings.Join(words, "\x00"), env, true
}

// Unanswered returns why a runtime's interpreter, which was asked before, did not answer. It returns nil if it
// did, or if it was not asked.
func (p *Pools) Unanswered(rt *stage.Runtime) *Unjudged {
	p.mu.Lock()
	ask := p.failures[pythonOf(rt)]
	p.mu.Unlock()
	if ask == nil || ask().Failure == "" {
		return nil
	}
	return &Unjudged{
		What: fmt.Sprintf("the interpreter %s did not report its versions: %s; a worker will report them", pythonOf(rt),
			ask().Failure),
		Fix: fmt.Sprintf("try it by hand: %s -v -c 'pass'", pythonOf(rt)),
	}
}

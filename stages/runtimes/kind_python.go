package runtimes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/instrument"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/proc"
	"aicplan/sink/base/textutil"
)

// pythonKind runs the Python host: on every GPU, or on the processor where the
// machine has none or the runtime says device = "cpu". With "none" its ops measure
// nothing here.
func pythonKind() Kind {
	return Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "python",
			Summary:    "op functions and collectors in Python, with a framework's own kernels",
			Stability:  stage.Stable,
			Attributes: []string{"collector_root", "devices", "package", "path", "python", "requires", "workers"},
			Options: []stage.Option{
				{Name: "device", Type: cty.String, OneOf: []string{"cpu", deviceNone}, Doc: "`cpu` keeps the workers off the GPUs; `none` does too, and other runs may measure meanwhile: for ops whose rows are no times of this machine"},
				{Name: "fills_memory", Type: cty.Bool, Default: "false", Beside: true, Pool: true, Doc: "its workers take what memory the GPUs have, as an engine's cache does: they share a GPU with no warm worker of another runtime"},
				{Name: "one_worker", Type: cty.Bool, Default: "false", Beside: true, Doc: "one worker for all GPUs of the runtime, for ops that start a process for each GPU"},
				{Name: "recycle_after", Type: cty.Number, Beside: true, Pool: true, Doc: "cases after which a worker is replaced"},
				{Name: startsWithin, Type: cty.String, Check: stage.Time, Default: `"5m"`, Beside: true, Pool: true, Doc: "how long a worker may take until it is ready: to start, and to import what its ops need"},
				{Name: "uninitialised", Type: cty.String, OneOf: []string{"random", "left"}, Doc: "`random` fills what hosted collectors allocate and leave as it is, such as weights, with random values before a kernel is timed; `left` does not, where a binding asks for it"},
				{Name: "verify", Type: cty.Bool, Default: "false", Beside: true, Doc: "has op functions compare their results with a reference"},
				{Name: "window", Type: cty.Number, Beside: true, Doc: "cases that a worker holds at a time; 256 on a GPU, where they are prepared and measured in batches, and 4 without one"},
				{Name: "workdir", Type: cty.String, Beside: true, Doc: "where hosted collectors work; the system's temporary folder where it is left away"},
			},
			Measure:    allMeasureBut(),
			Binds:      "Python code",
			Instrument: 5,
			NamesOps:   true,
			Reads:      true,
		},
		Slots:          pythonSlots,
		Program:        pythonProgram,
		Env:            []string{cudaOrder},
		Answer:         pyhost.Answer,
		StartHelp:      pythonStartHelp,
		WorkerOptions:  pythonOptions,
		Look:           lookPython,
		PackageVersion: pythonPackage,
		Interpreter:    pythonVersion,
		OnProcessor:    true,
		OnGPUs:         pythonOnGPUs,
		OnNothing:      pythonOnNothing,
		Whole:          pythonWhole,
		Source:         pythonSource,
		CaseSeconds:    pythonSeconds,
		MaxGrowth:      16 << 30, // frameworks leak
	}
}

func pythonOnGPUs(rt *stage.Runtime) bool { return rt.Options["device"] == cty.NilVal }

// deviceNone is the device of a runtime whose ops compute and look up.
const deviceNone = "none"

func pythonOnNothing(rt *stage.Runtime) bool {
	v, ok := rt.Options["device"]
	return ok && v.RawEquals(cty.StringVal(deviceNone))
}

func pythonSlots(spec worker.Spec, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error) {
	devices := []Device{{Index: -1}}
	if pythonOnGPUs(rt) {
		if found, err := list(); err != nil {
			return nil, err
		} else if len(found) > 0 || len(rt.Devices) > 0 {
			if devices, err = chosen(rt, list); err != nil {
				return nil, err
			}
		}
	}
	if pythonWhole(rt) {
		// The ranks that an op starts are where the worker is not.
		if devices[0].Index >= 0 {
			spec.Init.Options["gpus"] = len(devices)
			spec.Init.Options["gpu_uuids"] = strings.Join(uuidsOf(devices), " ") // as the worker says them again
		}
		if rt.Devices != nil {
			spec.Init.Options["devices"] = indicesOf(devices)
		}
		alone := *rt
		alone.Workers, devices = 1, devices[:1]
		rt = &alone
	}
	slots := spread(spec, rt, devices)
	shared := map[int]*instrument.Instrument{}
	for i, s := range slots {
		in := shared[s.Device]
		if in == nil || s.Device < 0 {
			in = instrument.New(instrument.Options{})
			shared[s.Device] = in
		}
		slots[i].Spec.Instrument = in.Join
	}
	return slots, nil
}

// pythonWhole is true for a runtime whose only worker has all its GPUs.
func pythonWhole(rt *stage.Runtime) bool {
	v, ok := rt.Options["one_worker"]
	return ok && v.IsKnown() && !v.IsNull() && v.True()
}

// pythonProgram is the interpreter with the host, which is written into the
// state folder.
func pythonProgram(rt *stage.Runtime, at Place) ([]string, error) {
	hosts := filepath.Join(at.StateDir, "hosts")
	if len(rt.Launcher) == 0 {
		path, args, err := pyhost.Command(rt.Python, hosts)
		// Python finds a virtual environment by the path that it is started as.
		return append([]string{path}, args...), err
	}
	host, err := pyhost.Write(hosts)
	return []string{pythonOf(rt), "-u", host}, err
}

// startsWithin is the option that bounds the start of a worker.
const startsWithin = "starts_within"

func pythonStartHelp(rt *stage.Runtime) string {
	more := fmt.Sprintf("%s of %s gives it more time", startsWithin, rt.Address)
	if len(rt.Launcher) > 0 {
		return "its launcher may still be fetching an image; " + more
	}
	code := "pass"
	if rt.Package != "" {
		code = "import " + strings.ReplaceAll(rt.Package, "-", "_")
	}
	return fmt.Sprintf("%s -v -c '%s' by hand shows what it waits for; %s", pythonOf(rt), code, more)
}

// pythonOf is the runtime's Python as the block has it.
func pythonOf(rt *stage.Runtime) string {
	if rt.Python == "" {
		return pyhost.DefaultPython
	}
	return rt.Python
}

func pythonOptions(rt *stage.Runtime, at Place, options map[string]any) map[string]any {
	dir := declaredIn(rt, at)
	settings := pyhost.Settings{Package: rt.Package, Requires: rt.Requires, CollectorRoot: absolute(dir, rt.CollectorRoot)}
	for _, p := range rt.Path {
		settings.Path = append(settings.Path, absolute(dir, p))
	}
	return settings.Options(options)
}

func lookPython(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error) {
	python := pythonOf(rt)
	if _, err := exec.LookPath(python); errors.Is(err, fs.ErrPermission) {
		return "", &Missing{What: fmt.Sprintf("the interpreter %s cannot be run: %v", python, err), Fix: "make it executable, for example with chmod +x"}
	} else if err != nil {
		return "", &Missing{What: fmt.Sprintf("the interpreter %s is not on this machine", python), Fix: getIt(rt)}
	}
	if rt.Package == "" {
		return python + " is there; the runtime names no package", nil
	}
	v := p.packageVersion(ctx, rt)
	if u := p.Unanswered(ctx, rt); u != nil {
		return "", u
	}
	if v == "" {
		return "", &Missing{What: fmt.Sprintf("the Python package %s is not installed for %s", rt.Package, python), Fix: getIt(rt)}
	}
	if v == unknownVersion {
		return fmt.Sprintf("%s tells no version of %s; a worker will", python, rt.Package), nil
	}
	if err := Satisfies(v, rt.Requires); err != nil {
		return "", &Missing{What: fmt.Sprintf("%s %s is installed, but %s requires %s", rt.Package, v, rt.Address, rt.Requires), Fix: getIt(rt)}
	}
	return fmt.Sprintf("%s %s", rt.Package, v), nil
}

// askPython prints the version of an installed distribution, or that there is
// a package of that name without one, which a worker imports to learn it, and on
// a second line the version of the interpreter.
//
// Python puts the current folder in front of what -c may import: that may be the
// folder of a plan that nobody has decided to run yet. Every plan asks, so nothing
// is imported that the answer does not need: the version is that of
// platform.python_version.
const askPython = `import sys
if sys.path[:1] == [""]:
    del sys.path[0]
if sys.argv[1]:
    from importlib import metadata, util
    try:
        sys.stdout.write(metadata.version(sys.argv[1]))
    except metadata.PackageNotFoundError:
        if util.find_spec(sys.argv[1]) is not None:
            sys.stdout.write("` + unknownVersion + `")
sys.stdout.write("\n" + sys.version.split()[0])`

// installed is what an interpreter says of itself: versions, "" where there is
// none; the package's is unknownVersion where the interpreter does not say.
type installed struct {
	pkg, python string
	why         string // it was asked and did not answer; pkg is unknownVersion then
}

// pythonPackage is the installed version of the runtime's package.
func pythonPackage(ctx context.Context, p *Pools, rt *stage.Runtime) string {
	return p.interpreter(ctx, rt).pkg
}

// pythonVersion is the version of the runtime's interpreter.
func pythonVersion(ctx context.Context, p *Pools, rt *stage.Runtime) string {
	return p.interpreter(ctx, rt).python
}

// interpreter asks a runtime's interpreter what it has, without importing the
// package. It asks once. What a plan may not ask, only a worker can tell.
func (p *Pools) interpreter(ctx context.Context, rt *stage.Runtime) installed {
	key, env, ok := question(ctx, rt)
	if !ok {
		return installed{pkg: unknownVersion}
	}
	p.mu.Lock()
	ask := p.versions[key]
	if ask == nil {
		ask = sync.OnceValue(func() installed { return askInterpreter(ctx, pythonOf(rt), rt.Package, env) })
		p.versions[key] = ask
	}
	p.mu.Unlock()
	return ask()
}

// question is what an interpreter is asked, and the variables that it gets; false
// where a plan may not ask it.
func question(ctx context.Context, rt *stage.Runtime) (key string, env []string, ok bool) {
	env = environ(rt)
	if !mayRun(ctx) {
		if !plainPython(rt) {
			return "", nil, false
		}
		env = nil // a wrapper in front of the interpreter could obey what is left of it
	}
	return strings.Join(append([]string{pythonOf(rt), rt.Package}, env...), "\x00"), env, true
}

// Unanswered says why a runtime's interpreter, which was asked before, did not answer;
// nil where it did, and where nobody asked.
func (p *Pools) Unanswered(ctx context.Context, rt *stage.Runtime) *Unjudged {
	for _, ctx := range []context.Context{ctx, Running(ctx)} { // a plan asks what has run here as a run does
		key, _, ok := question(ctx, rt)
		p.mu.Lock()
		ask := p.versions[key]
		p.mu.Unlock()
		if !ok || ask == nil || ask().why == "" {
			continue
		}
		return &Unjudged{
			What: fmt.Sprintf("the interpreter %s did not say what it has: %s; a worker will find out", pythonOf(rt), ask().why),
			Fix:  fmt.Sprintf("try it by hand: %s -v -c 'pass'", pythonOf(rt)),
		}
	}
	return nil
}

func askInterpreter(ctx context.Context, python, pkg string, env []string) installed {
	if _, err := exec.LookPath(python); err != nil {
		return installed{}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", askPython, pkg)
	cmd.Env = append(os.Environ(), env...)
	// What a wrapper has started keeps its output open after its end.
	out, err := proc.Output(cmd)
	if err != nil {
		return installed{pkg: unknownVersion, why: unanswered(ctx, err)}
	}
	first, second, _ := strings.Cut(string(out), "\n")
	return installed{pkg: strings.TrimSpace(first), python: strings.TrimSpace(second)}
}

// unanswered says why an interpreter did not answer.
func unanswered(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v, so it hangs or its disk is very slow", probeTimeout)
	}
	why := err.Error()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		if last := textutil.OneLine(lines[len(lines)-1]); last != "" {
			why += ": " + textutil.Clip(last, 200)
		}
	}
	return why
}

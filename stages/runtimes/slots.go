// Package runtimes turns runtime blocks into workers. It selects the worker's program and devices, and
// determines the environment before a worker runs. It keeps the workers of a run warm between stages.
package runtimes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// Place is where workers are started from.
type Place struct {
	RunDir   string // worker logs are in RunDir/workers
	StateDir string // files for workers are in StateDir/hosts
	PlanDir  string // the plan's folder
	// Say shows a message to the user while a pool is created. It may be nil.
	Say func(text string)
	// Stop ends a wait for devices when it is closed.
	Stop <-chan struct{}
}

func (at Place) say(format string, args ...any) {
	if at.Say != nil {
		at.Say(fmt.Sprintf(format, args...))
	}
}

// Device is one accelerator of this machine. Its PCI address may be empty.
type Device = nvml.Identity

// slots returns the slots for workers of a runtime. An error contains a suggested fix.
func (p *Pools) slots(rt *stage.Runtime, at Place) ([]worker.Slot, error) {
	spec, err := p.Command(rt, at)
	if err != nil {
		return nil, err
	}

	slots := spread(spec, rt.Workers, []Device{{Index: -1}})
	if kind := p.Kind(rt.Kind); kind.Slots != nil {
		slots, err = kind.Slots(p, spec, rt)
	}
	if err != nil || at.RunDir == "" {
		return slots, err
	}

	runDir, err := filepath.Abs(at.RunDir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rt.Address, err)
	}

	for i := range slots {
		name := logName(rt) + "-" + slots[i].Name
		slots[i].Spec.LogPath = filepath.Join(runDir, "workers", name+".log")
		slots[i].Spec.Init.Spool = filepath.Join(runDir, "spool", name)
	}

	return slots, nil
}

// Command returns the worker process of a runtime without its device.
func (p *Pools) Command(rt *stage.Runtime, at Place) (worker.Spec, error) {
	kind := p.Kind(rt.Kind)
	if kind.Name == "" {
		return worker.Spec{}, fmt.Errorf("%s: this aicplan has no runtimes of kind %q", rt.Address, rt.Kind)
	}

	options, err := plainOptions(rt, kind)
	if err != nil {
		return worker.Spec{}, err
	}

	if kind.WorkerOptions != nil {
		kind.WorkerOptions(rt, at, options)
	}

	env := environment(rt)
	spec := worker.Spec{
		Env: environ(rt), Secrets: textutil.NewSecrets(rt.SecretTexts()...),
		Init: worker.Init{Runtime: rt.Name, Kind: rt.Kind, Options: options, Env: env},
	}

	spec.Env, spec.Answer = append(spec.Env, kind.Env...), kind.Answer
	if kind.StartHelp != nil {
		spec.StartHelp = kind.StartHelp(rt)
	}

	// The option has been checked; 0 means the default.
	spec.HelloTimeout, _ = time.ParseDuration(textAt(rt.Options[pyhost.OptionStartsWithin]))
	if kind.Inside && len(rt.Launcher) == 0 {
		spec.Inside = kind.Host
		return spec, nil
	}

	program, args, err := workerProgram(kind, rt, at)
	if err != nil {
		return spec, fmt.Errorf("%s: %w", rt.Address, err)
	}

	if len(rt.Launcher) == 0 {
		spec.Path, spec.Args = program, args
		return spec, nil
	}

	// A launcher may pass neither this process's environment nor its extra file descriptors.
	spec.Init.Env = map[string]string{}
	for _, v := range kind.Env {
		name, value, _ := strings.Cut(v, "=")
		spec.Init.Env[name] = value
	}
	maps.Copy(spec.Init.Env, env)

	args[0] = program
	if spec.Path, spec.Args, err = worker.Through(rt.Launcher, rt.Image, args); err != nil {
		return spec, fmt.Errorf("%s: %w", rt.Address, err)
	}

	return spec, nil
}

// workerProgram returns the executable of a kind's workers and its arguments, starting with the program
// name.
func workerProgram(kind *Kind, rt *stage.Runtime, at Place) (path string, args []string, err error) {
	if kind.Program != nil {
		if args, err = kind.Program(rt, at); err != nil {
			return "", nil, err
		}
		return args[0], args, nil
	}

	path, err = os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("cannot find this program to start it as a worker: %w", err)
	}

	return path, []string{"aicplan", "worker"}, nil
}

// environment returns a runtime's env including sensitive values.
func environment(rt *stage.Runtime) map[string]string {
	if len(rt.SecretEnv()) == 0 {
		return rt.Env
	}
	out := maps.Clone(rt.Env)
	maps.Copy(out, rt.SecretEnv())
	return out
}

// environ returns environment as a list of NAME=value.
func environ(rt *stage.Runtime) (out []string) {
	env := environment(rt)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// spread returns slots named w0, w1, ... for the devices. Consecutive slots have different devices, so
// that a run with few cases uses all of them.
func spread(spec worker.Spec, workers int, devices []Device) []worker.Slot {
	var slots []worker.Slot
	for range max(workers, 1) {
		for _, d := range devices {
			name := fmt.Sprintf("w%d", len(slots))
			s := spec
			s.Init.UUID = d.UUID
			slots = append(slots, worker.Slot{Name: name, Device: d.Index, Spec: s})
		}
	}
	return slots
}

func indicesOf(devices []Device) []int {
	var out []int
	for _, d := range devices {
		out = append(out, d.Index)
	}
	return out
}

func uuidsOf(devices []Device) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.UUID)
	}
	return out
}

// logName returns a file name for the runtime's address.
func logName(rt *stage.Runtime) string {
	return ownName(strings.TrimPrefix(rt.Address, "runtime."), "/\"[]\\\x00")
}

// chosen returns the devices that the runtime names, or all devices.
func (p *Pools) chosen(rt *stage.Runtime) ([]Device, error) {
	all, err := p.Devices()
	if err != nil {
		return nil, err
	}

	if len(all) == 0 && len(rt.Launcher) > 0 {
		return unseen(rt), nil
	}

	if len(all) == 0 {
		return nil, fmt.Errorf("%s needs an NVIDIA GPU and this machine shows none (looked for %s and CUDA_VISIBLE_DEVICES)",
			rt.Address, procGPUs)
	}

	if rt.Devices == nil {
		return all, nil
	}

	var out []Device
	for _, want := range rt.Devices {
		at := slices.IndexFunc(all, func(d Device) bool { return d.Index == want })
		if at < 0 {
			return nil, fmt.Errorf("%s: device %d is not visible here; there are %s", rt.Address, want, describe(all))
		}
		out = append(out, all[at])
	}

	return out, nil
}

// unseen returns the devices of a runtime whose workers start on another host: those that it names, or
// the first one.
func unseen(rt *stage.Runtime) []Device {
	if rt.Devices == nil {
		return []Device{{Index: 0}}
	}
	var out []Device
	for _, i := range rt.Devices {
		out = append(out, Device{Index: i})
	}
	return out
}

func describe(devices []Device) string {
	var parts []string
	for _, d := range devices {
		parts = append(parts, fmt.Sprintf("%d (%s)", d.Index, d.Name))
	}
	return strings.Join(parts, ", ")
}

// plainOptions returns the runtime's options as JSON values. Options of the pool are left out, because
// workers reject unknown options.
func plainOptions(rt *stage.Runtime, kind *Kind) (map[string]any, error) {
	out := map[string]any{}
	for name, v := range rt.Options {
		if o := kind.Option(name); o != nil && o.Pool {
			continue
		}
		plain, err := Plain(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", rt.Address, name, err)
		}
		out[name] = plain
	}

	for name, v := range rt.Secrets() {
		plain, err := Plain(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %s has no value yet", rt.Address, name)
		}
		out[name] = plain
	}

	return out, nil
}

// Plain converts a known value of a plan to the types of encoding/json.
func Plain(v cty.Value) (any, error) {
	if v == cty.NilVal {
		return nil, nil
	}
	if !v.IsWhollyKnown() {
		return nil, fmt.Errorf("the value is not known yet")
	}
	raw, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var plain any
	err = textutil.DecodeJSON(raw, &plain)
	return plain, err
}

// declaredIn returns the folder of the file with the runtime block. Relative paths in the block start
// there.
func declaredIn(rt *stage.Runtime, planDir string) string {
	if rt.Range.Filename == "" {
		return planDir
	}
	dir, _ := filepath.Abs(filepath.Dir(rt.Range.Filename))
	return dir
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// PlaceOf returns the place from which a stage's workers are started.
func PlaceOf(rc *stage.RunContext) Place {
	return Place{
		RunDir: rc.RunDir, StateDir: rc.Store.Dir, PlanDir: rc.PlanDir, Stop: rc.Stop,
		Say: func(text string) { rc.Events.Message(rc.Address, "warn", text) },
	}
}

// Fault reports whether an error of Pools.Get is caused by this run, such as a full disk, a device in
// use or Ctrl-C. Another container would not help then.
func Fault(err error) bool {
	if _, ok := errors.AsType[*pyhost.WriteError](err); ok {
		return true
	}
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, fileutil.ErrBusy,
		context.Canceled} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

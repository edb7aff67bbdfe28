// Package runtimes turns runtime blocks into workers: which program runs
// them, on which devices, and what is known of their environment before one
// runs. It keeps the workers of a run warm from stage to stage.
package runtimes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// Place is where workers are started from.
type Place struct {
	RunDir   string // worker logs go to RunDir/workers
	StateDir string // files that workers need lie in StateDir/hosts
	PlanDir  string // the plan's folder
}

// Device is one accelerator of this machine.
type Device struct {
	Index int // in PCI bus order
	UUID  string
	Name  string
}

// Provider lists the places for workers of one runtime. An error says what the
// user can do.
type Provider func(ctx context.Context, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error)

// Providers returns the providers of all runtime kinds by kind.
func Providers() map[string]Provider {
	return map[string]Provider{
		"cpu":    cpuSlots,
		"cuda":   cudaSlots,
		"nccl":   ncclSlots,
		"python": pythonSlots,
	}
}

// cpuSlots run on this machine's processor, all cores for one case.
func cpuSlots(_ context.Context, rt *stage.Runtime, at Place, _ func() ([]Device, error)) ([]worker.Slot, error) {
	spec, err := Command(rt, at)
	if err != nil {
		return nil, err
	}
	if len(rt.Devices) > 0 {
		return nil, fmt.Errorf("%s: a cpu runtime has no devices; remove the attribute", rt.Address)
	}
	return spread(spec, rt, at, []Device{{Index: -1}}), nil
}

// cudaSlots run one or more workers a GPU.
func cudaSlots(_ context.Context, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error) {
	spec, err := Command(rt, at)
	if err != nil {
		return nil, err
	}
	devices, err := chosen(rt, list)
	if err != nil {
		return nil, err
	}
	return spread(spec, rt, at, devices), nil
}

// ncclSlots run one worker that drives all its GPUs itself.
func ncclSlots(_ context.Context, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error) {
	spec, err := Command(rt, at)
	if err != nil {
		return nil, err
	}
	devices, err := chosen(rt, list)
	if err != nil {
		return nil, err
	}
	if rt.Devices != nil {
		// Left out, the worker takes what the driver shows it, which
		// CUDA_VISIBLE_DEVICES may number anew.
		var indices []int
		for _, d := range devices {
			indices = append(indices, d.Index)
		}
		spec.Init.Options["devices"] = indices
	}
	rt2 := *rt
	rt2.Workers = 1
	return spread(spec, &rt2, at, []Device{{Index: -1}}), nil
}

// pythonSlots run the Python host: on every GPU, or on the processor where the
// machine has none or the runtime says device = "cpu".
func pythonSlots(_ context.Context, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error) {
	spec, err := Command(rt, at)
	if err != nil {
		return nil, err
	}
	devices := []Device{{Index: -1}}
	if where, _ := spec.Init.Options["device"].(string); where != "cpu" {
		if found, err := list(); err != nil {
			return nil, err
		} else if len(found) > 0 || len(rt.Devices) > 0 {
			if devices, err = chosen(rt, list); err != nil {
				return nil, err
			}
		}
	}
	return spread(spec, rt, at, devices), nil
}

// Command describes the worker process of a runtime without its device.
func Command(rt *stage.Runtime, at Place) (worker.Spec, error) {
	options, err := plainOptions(rt)
	if err != nil {
		return worker.Spec{}, err
	}
	spec := worker.Spec{Env: environ(rt), Init: worker.Init{Runtime: rt.Name, Kind: rt.Kind, Options: options, Env: rt.Env}}
	if rt.Kind != "python" {
		exe, err := os.Executable()
		if err != nil {
			return spec, fmt.Errorf("%s: cannot find this program to start it as a worker: %w", rt.Address, err)
		}
		spec.Path, spec.Args = exe, []string{"aicplan", "worker"}
		if rt.Kind == "cuda" || rt.Kind == "nccl" {
			spec.Env = append(spec.Env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
		}
		return spec, nil
	}
	dir := declaredIn(rt, at)
	settings := pyhost.Settings{Package: rt.Package, Requires: rt.Requires, CollectorRoot: absolute(dir, rt.CollectorRoot)}
	for _, p := range rt.Path {
		settings.Path = append(settings.Path, absolute(dir, p))
	}
	spec.Init.Options = settings.Options(options)
	var args []string
	if hosts := filepath.Join(at.StateDir, "hosts"); len(rt.Launcher) > 0 {
		spec.Path, args, err = pyhost.Launch(rt.Launcher, rt.Image, rt.Python, hosts)
	} else {
		spec.Path, args, err = pyhost.Command(rt.Python, hosts)
	}
	if err != nil {
		return spec, fmt.Errorf("%s: %w", rt.Address, err)
	}
	spec.Answer = pyhost.Answer
	// Python finds a virtual environment by the path that it is started as.
	spec.Args = append([]string{spec.Path}, args...)
	spec.Env = append(spec.Env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	return spec, nil
}

// environ is a runtime's env as a process takes it.
func environ(rt *stage.Runtime) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(rt.Env)) {
		out = append(out, name+"="+rt.Env[name])
	}
	return out
}

// spread makes the slots of the devices, w0, w1, ...: device by device, so that
// a run with few cases still uses all of them.
func spread(spec worker.Spec, rt *stage.Runtime, at Place, devices []Device) []worker.Slot {
	var slots []worker.Slot
	for range max(rt.Workers, 1) {
		for _, d := range devices {
			name := fmt.Sprintf("w%d", len(slots))
			s := spec
			s.Init.UUID = d.UUID
			if at.RunDir != "" {
				s.LogPath = filepath.Join(at.RunDir, "workers", logName(rt)+"-"+name+".log")
			}
			slots = append(slots, worker.Slot{Name: name, Device: d.Index, Spec: s})
		}
	}
	return slots
}

// logName makes the runtime's address fit for a file name.
func logName(rt *stage.Runtime) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '"' || r == '[' || r == ']' {
			return '_'
		}
		return r
	}, strings.TrimPrefix(rt.Address, "runtime."))
}

// chosen are the devices that the runtime names, or all.
func chosen(rt *stage.Runtime, list func() ([]Device, error)) ([]Device, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s needs an NVIDIA GPU and this machine shows none (looked for %s and CUDA_VISIBLE_DEVICES)", rt.Address, procGPUs)
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

func describe(devices []Device) string {
	var parts []string
	for _, d := range devices {
		parts = append(parts, fmt.Sprintf("%d (%s)", d.Index, d.Name))
	}
	return strings.Join(parts, ", ")
}

// plainOptions are the runtime's further attributes as JSON values.
func plainOptions(rt *stage.Runtime) (map[string]any, error) {
	out := map[string]any{}
	for name, v := range rt.Options {
		plain, err := Plain(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", rt.Address, name, err)
		}
		out[name] = plain
	}
	for _, name := range poolOptions {
		delete(out, name)
	}
	return out, nil
}

// poolOptions are options of a runtime that its pool heeds; workers of some
// kinds refuse what they do not know.
var poolOptions = []string{"recycle_after", "max_growth_gb"}

// Plain turns a known value of a plan into what encoding/json decodes to.
func Plain(v cty.Value) (any, error) {
	if !v.IsWhollyKnown() {
		return nil, fmt.Errorf("the value is not known yet")
	}
	raw, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return decodePlain(raw)
}

// declaredIn is the folder of the file with the runtime block: its relative
// paths are meant from there.
func declaredIn(rt *stage.Runtime, at Place) string {
	if rt.Range.Filename == "" {
		return at.PlanDir
	}
	dir := filepath.Dir(rt.Range.Filename)
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

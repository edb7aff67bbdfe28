package comm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/nccl"
	"aicplan/cudaops/worker"
)

// Framework is the default framework label of rows in perf files.
const Framework = "NCCL"

// Ops in addition to the collectives.
const (
	OpNCCL            = "nccl" // a collective selected by the parameter op_name
	OpCustomAllReduce = "custom_allreduce"
	OpP2P             = "p2p"
)

// Needs returns the required parameters by op.
func Needs() map[string][]string {
	sizes := []string{"nccl_dtype", "num_gpus", "message_size"}
	out := map[string][]string{
		OpNCCL:            append([]string{"op_name"}, sizes...),
		OpCustomAllReduce: {"allreduce_dtype", "num_gpus", "message_size"},
		OpP2P:             {"src", "dst", "bytes"},
	}

	for _, c := range Collectives {
		out[c] = sizes
	}
	return out
}

// Words returns the allowed values of text parameters, by op and parameter.
func Words() map[string]map[string][]string {
	types := map[string][]string{"nccl_dtype": typeWords()}
	out := map[string]map[string][]string{
		OpNCCL:            {"nccl_dtype": typeWords(), "op_name": Collectives},
		OpCustomAllReduce: {"allreduce_dtype": reduceWords},
	}

	for _, c := range Collectives {
		out[c] = types
	}
	return out
}

// Host returns the worker host of runtimes of kind nccl. One worker uses all GPUs of the node.
func Host(init worker.Init) worker.Host {
	quietMemory()
	return &host{init: init, open: OpenNode, spawn: spawnSelf, muster: newGang}
}

// quietMemory disables regular garbage collection, so that it does not disturb the ranks. The process runs
// for minutes and allocates little.
func quietMemory() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)
}

type host struct {
	init     worker.Init
	open     func() (*Node, error)
	spawn    func(int) (*rankPipes, error)
	muster   func(options) *gang
	options  options
	settings measure.Settings

	node    *Node
	devices []driver.Device // by rank
	version string          // of NCCL
	env     string          // of NCCL
	threads *crew           // ranks in this process
	procs   *crew           // ranks in separate processes
	gang    *gang           // nil if all ranks are on one node
}

// Hello implements worker.Host. It opens the libraries and reports versions and devices.
func (h *host) Hello(context.Context) (worker.Hello, error) {
	if err := h.Configure(h.init); err != nil {
		return worker.Hello{}, &worker.StartError{Failure: worker.Failure{Class: worker.ClassCollectorBug,
			Message: err.Error()}}
	}

	prepareEnv()
	node, err := h.open()
	if err != nil {
		return worker.Hello{}, startFailure(err)
	}

	h.node = node
	count, err := node.Driver.Count()
	if err != nil {
		return worker.Hello{}, startFailure(err)
	}

	if h.devices, err = pickDevices(h.options.devices, count); err != nil {
		return worker.Hello{}, startFailure(err)
	}

	info, err := node.Driver.Info(h.devices[0])
	if err != nil {
		return worker.Hello{}, startFailure(err)
	}

	v, err := node.NCCL.Version()
	if err != nil {
		return worker.Hello{}, startFailure(err)
	}

	cuda, err := node.Driver.Version()
	if err != nil {
		return worker.Hello{}, startFailure(err)
	}

	h.version, h.env = nccl.VersionText(v), ncclEnv(os.Environ())
	h.threads = threadCrew(node, h.devices, h.options.limit, h.options.pin)
	h.procs = processCrew(h.spawn, h.devices, h.options.limit)
	if h.options.nodes > 1 {
		h.gang = h.muster(h.options)
		h.procs = h.gang.crew()
	}

	hello := worker.Hello{
		Framework: Framework, Version: h.version, Device: info.Name, DeviceUUID: info.UUID,
		Window: window,
		Ops:    append([]string{OpNCCL, OpCustomAllReduce, OpP2P}, Collectives...),
		Env: map[string]string{
			"nccl": h.version, "nccl_env": h.env, "gpus": fmt.Sprint(len(h.devices)),
			"cuda_driver": fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10),
		},
	}

	if node.KernelDriver != "" {
		hello.Env["driver"] = node.KernelDriver
	}

	if h.gang != nil {
		hello.Env["gpus"], hello.Env["nodes"] = fmt.Sprint(h.gang.ranks()), fmt.Sprint(h.options.nodes)
	}

	if lib, ok := node.NCCL.(*nccl.Library); ok {
		hello.Env["nccl_path"] = lib.Path()
	}

	var names []string
	for _, d := range h.devices {
		if in, err := node.Driver.Info(d); err == nil {
			names = append(names, in.UUID)
		}
	}

	hello.Env["gpu_uuids"] = strings.Join(names, " ")
	if name, err := os.Hostname(); err == nil {
		hello.Env["hostname"] = name
	}

	return hello, nil
}

// Configure implements worker.Configurer. Existing communicators are kept.
func (h *host) Configure(init worker.Init) error {
	o, err := readOptions(init)
	if err != nil {
		return err
	}

	s, err := readSettings(init)
	if err != nil {
		return err
	}

	h.options, h.settings = o, s
	return nil
}

// visitor returns the measurement of a case. Errors have a failure class.
func (h *host) visitor(c worker.Case) (visitor, error) {
	p := parseParams(c)
	if p.err != nil {
		return nil, p.err
	}

	if len(c.Sweep) > 0 {
		return nil, failure(worker.ClassUnsupportedConfig,
			"op %q of the nccl runtime has no sweep; make it an axis", c.Op)
	}

	switch {
	case h.gang != nil && (c.Op == OpCustomAllReduce || c.Op == OpP2P):
		return nil, failure(worker.ClassUnsupportedConfig,
			"%s works on memory that GPUs of one node share, and the runtime has %d nodes: measure it with a runtime of one node", c.Op, h.options.nodes)
	case c.Op == OpCustomAllReduce:
		return h.customAllReduce(p)
	case c.Op == OpP2P:
		return once(func(ctx context.Context) (worker.Row, error) { return h.p2p(ctx, p) }), nil
	case c.Op == OpNCCL:
		return h.collective(p, p.word("op_name", Collectives...))
	case slices.Contains(Collectives, c.Op):
		return h.collective(p, c.Op)
	}

	return nil, failure(worker.ClassUnsupportedConfig,
		"the nccl runtime has no op %q; it has nccl, custom_allreduce, p2p, %s",
		c.Op, strings.Join(Collectives, ", "))
}

// pickDevices returns the devices of the ranks: those of the runtime, or all of them. The engine numbers
// the GPUs of the machine. If CUDA_VISIBLE_DEVICES hides some of them, the driver renumbers the remaining
// ones, and all of those are used if their number matches.
func pickDevices(want []int, count int) ([]driver.Device, error) {
	if count == 0 {
		return nil, errors.New("the driver shows no GPU")
	}

	var out []driver.Device
	for _, i := range want {
		if i >= 0 && i < count {
			out = append(out, driver.Device(i))
		} else if len(want) != count {
			return nil, fmt.Errorf("device %d is asked for and the driver shows %d; with CUDA_VISIBLE_DEVICES set, leave devices out of the runtime", i, count)
		}
	}

	if len(out) == 0 || len(out) != len(want) {
		out = nil
		for i := range count {
			out = append(out, driver.Device(i))
		}
	}

	return out, nil
}

// enough returns an error if the runtime has fewer GPUs than needed.
func (h *host) enough(gpus int) error {
	if h.gang != nil {
		if gpus > h.gang.ranks() {
			return failure(worker.ClassUnsupportedConfig,
				"%d GPUs are needed, and the runtime has %d nodes with %d each", gpus, h.options.nodes,
				h.options.perNode)
		}
		return nil
	}

	if gpus > len(h.devices) {
		return failure(worker.ClassUnsupportedConfig, "%d GPUs are needed and this node has %d", gpus, len(h.devices))
	}
	return nil
}

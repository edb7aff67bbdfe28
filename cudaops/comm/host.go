package comm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// Framework is the default framework label of rows in perf files.
const Framework = "NCCL"

// Ops in addition to the collectives.
const (
	OpNCCL = "nccl" // a collective selected by the parameter op_name
	OpP2P  = "p2p"
)

// Ops describes the ops of nccl runtimes.
func Ops() []worker.Op {
	out := []worker.Op{worker.Describe(OpNCCL, new(selected)), worker.Describe(OpP2P, new(peers))}
	for _, c := range Collectives {
		out = append(out, worker.Describe(c, new(message)))
	}
	return out
}

// Host returns the worker host of runtimes of kind nccl. One worker uses all GPUs of the node.
func Host(init worker.Init) worker.Host {
	quietMemory()
	return &host{init: init, open: OpenNode, newGroup: newGroup}
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
	newGroup func(settings, []cuda.Device) *group
	options  settings
	settings measure.Settings

	node    *Node
	devices []cuda.Device // by rank
	version string        // of NCCL
	env     string        // of NCCL
	group   *group
	locals  map[int]*rank // ranks in this process, for copies
}

// Hello implements worker.Host. It opens the libraries and reports versions and devices.
func (h *host) Hello(context.Context) (hello worker.Hello, err error) {
	defer func() { err = startFailure(err) }()
	if err := h.Configure(h.init); err != nil {
		return hello, worker.Failed(worker.ClassCollectorBug, "%v", err)
	}

	prepareEnv()
	node, err := h.open()
	if err != nil {
		return hello, err
	}

	h.node = node
	count, err := node.Driver.Count()
	if err != nil {
		return hello, err
	}

	if h.devices, err = pickDevices(h.options.Devices, count); err != nil {
		return hello, err
	}

	info, err := node.Driver.Info(h.devices[0])
	if err != nil {
		return hello, err
	}

	v, err := node.NCCL.Version()
	if err != nil {
		return hello, err
	}

	version, err := node.Driver.Version()
	if err != nil {
		return hello, err
	}

	h.version, h.env = cuda.NCCLVersionText(v), ncclEnv(os.Environ())
	h.group = h.newGroup(h.options, h.devices)

	hello = worker.Hello{
		Framework: Framework, Version: h.version, Device: info.Name, DeviceUUID: info.UUID,
		Window: window,
		Ops:    append([]string{OpNCCL, OpP2P}, Collectives...),
		Env: map[string]string{
			"nccl": h.version, "nccl_env": h.env, "gpus": fmt.Sprint(h.group.ranks),
			"cuda_driver": cuda.VersionText(version),
		},
	}

	if node.KernelDriver != "" {
		hello.Env["driver"] = node.KernelDriver
	}

	if h.group.nodes > 1 {
		hello.Env["nodes"] = fmt.Sprint(h.group.nodes)
	}

	if lib, ok := node.NCCL.(*cuda.NCCLLibrary); ok {
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

// Configure implements worker.Host. Existing communicators are kept.
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
func (h *host) visitor(c worker.Case) (worker.Visitor, error) {
	p := worker.ParseParams(c)
	if p.Err != nil {
		return nil, p.Err
	}

	if len(c.Sweep) > 0 {
		return nil, worker.Failed(worker.ClassUnsupportedConfig,
			"op %q of the nccl runtime has no sweep; make it an axis", c.Op)
	}

	switch {
	case c.Op == OpP2P && h.group.nodes > 1:
		return nil, worker.Failed(worker.ClassUnsupportedConfig,
			"p2p copies between GPUs of one node, and the runtime has %d nodes: measure it with a runtime of one node",
			h.group.nodes)
	case c.Op == OpP2P:
		return once(func(ctx context.Context) (worker.Row, error) { return h.p2p(ctx, p) }), nil
	case c.Op == OpNCCL || slices.Contains(Collectives, c.Op):
		m := selected{Collective: c.Op, message: message{Method: h.options.method(h.settings)}}
		if c.Op == OpNCCL {
			p.Read(&m)
		} else {
			p.Read(&m.message)
		}
		if p.Err != nil {
			return nil, p.Err
		}
		return h.collective(m.Collective, m.message)
	}

	return nil, worker.Failed(worker.ClassUnsupportedConfig,
		"the nccl runtime has no op %q; it has nccl, p2p, %s",
		c.Op, strings.Join(Collectives, ", "))
}

// pickDevices returns the devices of the ranks: those of the runtime, or all of them. The engine numbers
// the GPUs of the machine. If CUDA_VISIBLE_DEVICES hides some of them, the driver renumbers the remaining
// ones, and all of those are used if their number matches.
func pickDevices(want []int, count int) ([]cuda.Device, error) {
	if count == 0 {
		return nil, errors.New("the driver shows no GPU")
	}

	var out []cuda.Device
	for _, i := range want {
		if i >= 0 && i < count {
			out = append(out, cuda.Device(i))
		} else if len(want) != count {
			return nil, fmt.Errorf(
				"device %d is asked for and the driver shows %d; with CUDA_VISIBLE_DEVICES set, leave devices out of the runtime",
				i,
				count,
			)
		}
	}

	if len(out) == 0 || len(out) != len(want) {
		out = nil
		for i := range count {
			out = append(out, cuda.Device(i))
		}
	}

	return out, nil
}

// enough returns an error if the runtime has fewer GPUs than needed.
func (h *host) enough(gpus int) error {
	switch g := h.group; {
	case gpus <= g.ranks:
		return nil
	case g.nodes > 1:
		return worker.Failed(worker.ClassUnsupportedConfig,
			"%d GPUs are needed, and the runtime has %d nodes with %d each", gpus, g.nodes, g.perNode)
	default:
		return worker.Failed(worker.ClassUnsupportedConfig, "%d GPUs are needed and this node has %d", gpus, g.ranks)
	}
}

package host

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aicplan/cudaops/load"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/server"
	"aicplan/cudaops/worker"
)

// settings are the decoded options of a server runtime. Durations are positive.
type settings struct {
	Command  []string
	StartsBy []string
	Dir      string
	Host     string
	Port     int
	GPUsBy   []string

	// GPUsWithin is how long to wait until the GPUs are free before a start.
	GPUsWithin worker.Duration

	// AnswersWithin is how long a server with open requests may send nothing. If it is nil, the default applies
	// to streamed responses only.
	AnswersWithin *worker.Duration
	Ready         ready
	Stop          stop
	Profiler      profiler

	// profiled is set if the runtime has a profiler block.
	profiled bool

	// Attributes of the runtime that the engine adds.
	Package, Requires, Python, PlanDir string

	// Labels are columns that only label cases.
	Labels []string

	// GPUs are those that the server may use. It is empty if the machine has none.
	GPUs []GPU

	env    map[string]string
	signal syscall.Signal
}

// GPU is a device of this machine. Its PCI address may be empty.
type GPU = nvml.Identity

// ready configures when the server counts as ready.
type ready struct {
	Path       string
	Completion bool
	Within     worker.Duration
}

// stop configures how the server is stopped.
type stop struct {
	Signal string
	Within worker.Duration
}

// profiler configures how the server records traces.
type profiler struct {
	Args        []string
	Env         map[string]string
	Start, Stop string // URL paths for POST requests
	StartBody   json.RawMessage

	// Nsys is prepended to the command of a server under nsys, NsysArgs is appended.
	Nsys, NsysArgs []string

	// NsysBody is the body of the Start request under nsys. If it or NsysArgs is set, the server itself
	// starts and stops the recording of nsys.
	NsysBody json.RawMessage
}

// Defaults of options that have other uses.
const (
	DefaultStop    = 20 * time.Second
	defaultAnswers = worker.Duration(10 * time.Minute)
)

// DefaultNsys is the command prefix with which nsys records from the start of the server to its end.
var DefaultNsys = []string{
	"nsys", "profile", "-o", "{trace_dir}/nsys", "--force-overwrite=true", "--trace=cuda,nvtx",
	"--cuda-graph-trace=node",
	"--trace-fork-before-exec=true",
}

// nsysRange are the nsys arguments to record only between cudaProfilerStart and cudaProfilerStop.
var nsysRange = []string{"--capture-range=cudaProfilerApi", "--capture-range-end=stop"}

// Options returns the options and blocks of a runtime of kind server, except those that it shares with endpoints.
func Options() []worker.Option { return new(settings).declare() }

func (o *settings) declare() []worker.Option {
	return []worker.Option{
		{Name: "command", Into: &o.Command, Required: true,
			Doc: "the program and its arguments that start the server; {NAME} is a column of the case, or host, " +
				"port, model, gpus, trace_dir, work_dir, plan_dir; an argument {NAME...} is a JSON list of arguments"},
		{Name: "starts_by", Into: &o.StartsBy,
			Doc: "further columns whose change needs another server; those in command, dir and env do by themselves"},
		{Name: "dir", Into: &o.Dir, Doc: "the server's working folder, relative to the plan"},
		{Name: "host", Into: &o.Host, Default: "127.0.0.1", NotInKey: true, Doc: "the address that the server listens on"},
		{Name: "port", Into: &o.Port, Default: 0, NotInKey: true,
			Doc: "the port that it listens on; 0 takes a free one for each start"},
		{Name: "gpus_by", Into: &o.GPUsBy,
			Default: []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"},
			Doc:     "columns whose product is the number of GPUs"},
		{Name: "gpus_within", Into: &o.GPUsWithin, Default: worker.Duration(time.Minute), NotInKey: true,
			Doc: "how long the memory of the GPUs may take to come free before a start"},
		{Name: "answers_within", Into: &o.AnswersWithin, NotInKey: true, DefaultDoc: `"10m" if answers are streamed`,
			Doc: "how long a server that has requests may send nothing before the case fails and the server is ended"},
		{Name: "ready", NotInKey: true, Doc: "when the server may be asked", Block: []worker.Option{
			{Name: "path", Into: &o.Ready.Path, Default: "/health",
				Doc: "the page that answers 200; empty waits for the port alone"},
			{Name: "completion", Into: &o.Ready.Completion, Default: true, Doc: "a real completion must succeed, too"},
			{Name: "within", Into: &o.Ready.Within, Default: worker.Duration(15 * time.Minute),
				Doc: "how long that may take"},
		}},
		{Name: "stop", NotInKey: true, Doc: "how the server ends", Block: []worker.Option{
			{Name: "signal", Into: &o.Stop.Signal, Default: "SIGTERM", Check: checkSignal,
				Doc: "what its process group is sent"},
			{Name: "within", Into: &o.Stop.Within, Default: worker.Duration(DefaultStop),
				Doc: "how long it may take before it is killed"},
		}},
		{Name: "profiler", Doc: "how the server records traces of itself", Block: []worker.Option{
			{Name: "args", Into: &o.Profiler.Args,
				Doc: "arguments that the command gets if a collect has a trace block"},
			{Name: "env", Into: &o.Profiler.Env, Doc: "environment variables that the server gets then"},
			{Name: "start", Into: &o.Profiler.Start, Default: "/start_profile", Doc: "the page that starts the profiler"},
			{Name: "stop", Into: &o.Profiler.Stop, Default: "/stop_profile", Doc: "the page that stops it"},
			{Name: "start_body", Into: &o.Profiler.StartBody, Doc: "the object that is posted to start"},
			{Name: "nsys", Into: &o.Profiler.Nsys,
				DefaultDoc: "nsys profile of CUDA and NVTX, with nsys_args or nsys_body between cudaProfilerStart and Stop",
				Doc:        "what stands before the command of a server that nsys watches"},
			{Name: "nsys_args", Into: &o.Profiler.NsysArgs, Doc: "arguments that its command gets"},
			{Name: "nsys_body", Into: &o.Profiler.NsysBody,
				Doc: "the object that is posted to start there; with it or nsys_args, start and stop bound what nsys records"},
		}},
	}
}

// supplied are the options that the engine adds to those of the block.
func (o *settings) supplied() []worker.Option {
	return []worker.Option{
		{Name: "package", Into: &o.Package}, {Name: "requires", Into: &o.Requires}, {Name: "python", Into: &o.Python},
		{Name: "plan_dir", Into: &o.PlanDir}, {Name: "gpus", Into: &o.GPUs}, {Name: "labels", Into: &o.Labels},
		{Name: "api_key", Into: new(string)},
	}
}

func checkSignal(name string) error {
	if unix.SignalNum(name) == 0 {
		return fmt.Errorf("%q is not the name of a signal, such as SIGTERM or SIGINT", name)
	}
	return nil
}

// bounded reports whether the server itself starts and stops the recording of nsys.
func (p *profiler) bounded() bool { return len(p.NsysArgs) > 0 || len(p.NsysBody) > 0 }

// parse decodes the options of a runtime, except the load settings.
func parse(init worker.Init) (*settings, error) {
	own := map[string]any{}
	for name, v := range init.Options {
		if !slices.Contains(load.Names(), name) || name == "url" {
			own[name] = v
		}
	}

	o := &settings{env: init.Env}
	if err := worker.Decode(append(o.declare(), o.supplied()...), own); err != nil {
		return nil, fmt.Errorf("a runtime of kind server: %w", err)
	}

	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, fmt.Errorf("command is empty; it is the program and its arguments that start the server")
	}

	o.signal = unix.SignalNum(o.Stop.Signal)
	if o.Dir != "" && !filepath.IsAbs(o.Dir) {
		o.Dir = filepath.Join(o.PlanDir, o.Dir)
	}

	p := &o.Profiler
	o.profiled = own["profiler"] != nil

	// nsys only gets a capture range if the server bounds the recording. It would record nothing otherwise.
	if p.Nsys == nil {
		p.Nsys = slices.Clone(DefaultNsys)
		if p.bounded() {
			p.Nsys = append(p.Nsys, nsysRange...)
		}
	}
	return o, nil
}

// NoPort is the error text for a server that does not receive its port.
const NoPort = "no argument of command and no variable of env has {port}, and port is not set: the server is asked " +
	"at a free port of which it does not know, and waited for in vain; give command the port ({port}), or set port to " +
	"the one that it listens on"

// TakesPort reports whether one of the texts contains {port}.
func TakesPort(texts []string) bool { return slices.Contains(server.Names(texts...), "port") }

// texts returns all texts that may contain placeholders.
func (o *settings) texts() []string {
	out := slices.Concat(o.Command, []string{o.Dir})
	for _, v := range o.env {
		out = append(out, v)
	}

	if p := o.Profiler; o.profiled {
		out = slices.Concat(out, p.Args, p.Nsys, p.NsysArgs,
			[]string{string(p.StartBody), string(p.NsysBody)})
		for _, v := range p.Env {
			out = append(out, v)
		}
	}
	return out
}

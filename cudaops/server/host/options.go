package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aicplan/cudaops/load"
	"aicplan/cudaops/server"
	"aicplan/cudaops/worker"
)

// Options are the attributes of a server runtime block as sent to workers.
type Options struct {
	Command  []string `json:"command"`
	StartsBy []string `json:"starts_by"`
	Dir      string   `json:"dir"`
	Host     string   `json:"host"`
	Port     int      `json:"port"`
	GPUsBy   []string `json:"gpus_by"`

	// GPUsWithin is how long to wait until the GPUs are free before a start.
	GPUsWithin string `json:"gpus_within"`

	// AnswersWithin is how long a server with open requests may send nothing. "" means the default, which
	// only applies to streamed responses.
	AnswersWithin string    `json:"answers_within"`
	Ready         Ready     `json:"ready"`
	Stop          Stop      `json:"stop"`
	Profiler      *Profiler `json:"profiler"`

	// Shared attributes, and the environment of the worker.
	Package  string `json:"package"`
	Requires string `json:"requires"`
	Python   string `json:"python"`
	PlanDir  string `json:"plan_dir"`

	// Labels are columns that only label cases.
	Labels []string `json:"labels"`

	// GPUs are those that the server may use. It is empty if the machine has none.
	GPUs []GPU `json:"gpus"`

	env     map[string]string
	patient times
}

// GPU is a device of this machine.
type GPU struct {
	Index int    `json:"index"` // in PCI order
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
}

// Ready configures when the server counts as ready.
type Ready struct {
	Path       *string `json:"path"`
	Completion *bool   `json:"completion"`
	Within     string  `json:"within"`
}

// Stop configures how the server is stopped.
type Stop struct {
	Signal string `json:"signal"`
	Within string `json:"within"`
}

// Profiler configures how the server records traces.
type Profiler struct {
	Args      []string          `json:"args"` // appended to the command if traces are recorded
	Env       map[string]string `json:"env"`
	Start     string            `json:"start"` // URL paths for POST requests
	Stop      string            `json:"stop"`
	StartBody json.RawMessage   `json:"start_body"`
	StopBody  json.RawMessage   `json:"stop_body"`

	// Nsys is prepended to the command of a server under nsys, NsysArgs is appended.
	Nsys     []string `json:"nsys"`
	NsysArgs []string `json:"nsys_args"`

	// NsysBody is the body of the Start request under nsys. If it or NsysArgs is set, the server itself
	// starts and stops the recording of nsys.
	NsysBody json.RawMessage `json:"nsys_body"`
}

// times are the parsed durations and the stop signal.
type times struct {
	ready, stop, gpus, answers time.Duration
	signal                     syscall.Signal
}

// Defaults of the options.
const (
	DefaultHost       = "127.0.0.1"
	DefaultHealth     = "/health"
	DefaultReady      = "15m"
	DefaultSignal     = "SIGTERM"
	DefaultStop       = "20s"
	DefaultGPUsWithin = "60s"
	DefaultAnswers    = "10m"
	DefaultStart      = "/start_profile"
	DefaultEnd        = "/stop_profile"
)

// DefaultGPUsBy are the columns whose product is the number of GPUs.
var DefaultGPUsBy = []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"}

// DefaultNsys is the command prefix with which nsys records from the start of the server to its end.
var DefaultNsys = []string{
	"nsys", "profile", "-o", "{trace_dir}/nsys", "--force-overwrite=true", "--trace=cuda,nvtx",
	"--cuda-graph-trace=node",
	"--trace-fork-before-exec=true",
}

// nsysRange are the nsys arguments to record only between cudaProfilerStart and cudaProfilerStop.
var nsysRange = []string{"--capture-range=cudaProfilerApi", "--capture-range-end=stop"}

// bounded reports whether the server itself starts and stops the recording of nsys.
func (p *Profiler) bounded() bool { return len(p.NsysArgs) > 0 || len(p.NsysBody) > 0 }

// settle fills in defaults. nsys is only limited to a capture range if the server bounds the recording,
// because it would record nothing otherwise.
func (p *Profiler) settle() {
	p.Start, p.Stop = cmp.Or(p.Start, DefaultStart), cmp.Or(p.Stop, DefaultEnd)
	if string(p.NsysBody) == "null" {
		p.NsysBody = nil
	}

	if p.Nsys == nil {
		p.Nsys = slices.Clone(DefaultNsys)
		if p.bounded() {
			p.Nsys = append(p.Nsys, nsysRange...)
		}
	}
}

// optionNames are the JSON names of Options.
var optionNames = []string{
	"command", "starts_by", "dir", "host", "port", "gpus_by", "gpus_within", "answers_within", "ready", "stop",
	"profiler",
	"package", "requires", "python", "plan_dir", "labels", "gpus", "api_key",
}

// parse parses the options of a runtime, except the load settings.
func parse(init worker.Init) (*Options, error) {
	own := map[string]any{}
	for name, v := range init.Options {
		if !slices.Contains(load.Names(), name) || name == "url" {
			own[name] = v
		}
	}

	for _, name := range slices.Sorted(maps.Keys(own)) {
		if !slices.Contains(optionNames, name) {
			return nil, fmt.Errorf("a runtime of kind server has no option %q", name)
		}
	}

	raw, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}

	o := &Options{
		Host: DefaultHost, GPUsBy: DefaultGPUsBy, GPUsWithin: DefaultGPUsWithin,
		Ready: Ready{Within: DefaultReady}, Stop: Stop{Signal: DefaultSignal, Within: DefaultStop}, env: init.Env,
	}

	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("the runtime: %w", err)
	}

	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, fmt.Errorf("command is empty; it is the program and its arguments that start the server")
	}

	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"within of ready", o.Ready.Within, &o.patient.ready}, {"within of stop", o.Stop.Within,
		&o.patient.stop}, {"gpus_within", o.GPUsWithin, &o.patient.gpus}, {"answers_within", cmp.Or(o.AnswersWithin,
		DefaultAnswers), &o.patient.answers}} {
		if *d.to, err = time.ParseDuration(d.text); err != nil || *d.to <= 0 {
			return nil, fmt.Errorf("%s is %q; it must be a time such as \"90s\" or \"15m\"", d.name, d.text)
		}
	}

	if o.patient.signal = unix.SignalNum(o.Stop.Signal); o.patient.signal == 0 {
		return nil, fmt.Errorf("signal of stop is %q; it must be the name of a signal, such as SIGTERM or SIGINT",
			o.Stop.Signal)
	}

	if o.Dir != "" && !filepath.IsAbs(o.Dir) {
		o.Dir = filepath.Join(o.PlanDir, o.Dir)
	}

	if o.Profiler != nil {
		o.Profiler.settle()
	}

	return o, nil
}

// NoPort is the error text for a server that does not receive its port.
const NoPort = "no argument of command and no variable of env has {port}, and port is not set: the server is asked at a free port of which it does not know, and waited for in vain; give command the port ({port}), or set port to the one that it listens on"

// portless reports whether the server does not receive its port.
func (o *Options) portless() bool { return o.Port == 0 && !TakesPort(o.texts()) }

// TakesPort reports whether one of the texts contains {port}.
func TakesPort(texts []string) bool { return slices.Contains(server.Names(texts...), "port") }

// texts returns all texts that may contain placeholders.
func (o *Options) texts() []string {
	out := slices.Concat(o.Command, []string{o.Dir})
	for _, v := range o.env {
		out = append(out, v)
	}

	if p := o.Profiler; p != nil {
		out = slices.Concat(out, p.Args, p.Nsys, p.NsysArgs,
			[]string{string(p.StartBody), string(p.StopBody), string(p.NsysBody)})
		for _, v := range p.Env {
			out = append(out, v)
		}
	}
	return out
}

// health returns the path of the health page, or "" for none.
func (o *Options) health() string {
	if o.Ready.Path == nil {
		return DefaultHealth
	}
	return strings.TrimSpace(*o.Ready.Path)
}

// completion reports whether readiness requires a successful completion.
func (o *Options) completion() bool { return o.Ready.Completion == nil || *o.Ready.Completion }

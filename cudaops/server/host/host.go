// Package host is the worker of server runtimes. It starts the server that a case needs, runs the case's
// load on it, records traces in a second pass, and stops the server before another one starts.
package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/server"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// Framework is the default framework label of rows if the plan sets no package.
const Framework = "SERVER"

// levelStatus is the level of log lines that report what a case waits for.
const levelStatus = "status"

// Host is the worker host of a server runtime. It is not safe for concurrent use.
type Host struct {
	init    worker.Init
	options *settings
	open    func() (nvml.API, error)

	out     worker.Emitter // of Serve
	log     *server.Log
	current *running

	// failed contains the errors of servers that did not become ready, by key, so that other cases fail
	// without waiting again.
	failed map[string]error
	facts  *facts

	// poll is the interval in which the files of a profiler are checked. grown is how long a truncated
	// trace may stop growing before it is accepted as is.
	poll, grown time.Duration

	// again is how long a server that failed a case may take to respond before it is restarted.
	again time.Duration

	// steady is server.Ready.Steady.
	steady time.Duration
}

// answersAgain is the default of Host.again.
const answersAgain = 30 * time.Second

// running is a running server.
type running struct {
	*server.Process
	key     string
	base    string // http://host:port
	address string
	ready   time.Duration
	folder  *fileutil.TempFolder // removed when the server ends
	traces  string
	gpus    []GPU
	values  map[string]string
	version string
	command []string
	env     []string // NAME=value, without the inherited variables

	// doubted is true if requests of a case failed, so the server may be about to end.
	doubted bool
}

// New returns a host. open opens NVML; nil means the machine's library.
func New(init worker.Init, open func() (nvml.API, error)) *Host {
	if open == nil {
		open = nvml.Open
	}
	return &Host{init: init, open: open, log: server.NewLog(os.Stderr), failed: map[string]error{},
		grown: defaultGrown, again: answersAgain}
}

// Configure implements worker.Host.
func (h *Host) Configure(init worker.Init) error {
	h.init = init
	clear(h.failed)
	return nil
}

// Hello implements worker.Host. It does not start a server.
func (h *Host) Hello(ctx context.Context) (worker.Hello, error) {
	wrong := func(class string, err error) (worker.Hello, error) {
		return worker.Hello{}, worker.Failed(class, "%v", err)
	}

	o, err := parse(h.init)
	if err != nil {
		return wrong(worker.ClassCollectorBug, err)
	}

	h.options = o
	hello := worker.Hello{Framework: Framework, Version: "unknown", Device: "no GPU", Window: 1,
		Ops: load.Ops(), Configure: true, Env: map[string]string{}}
	if o.Package != "" {
		hello.Framework = strings.ToUpper(o.Package)
		v, err := packageVersion(ctx, o)
		if err != nil {
			return wrong(worker.ClassUnsupportedConfig, err)
		}
		hello.Version = v
	}

	if model, ok := h.init.Options["model"].(string); ok {
		hello.Env["model"] = model
	}

	h.facts = look(h.open, o.GPUs)
	if len(h.facts.GPUs) > 0 {
		hello.Device = h.facts.GPUs[0].Name
		hello.Env["driver"] = h.facts.Driver
	} else if len(o.GPUs) > 0 && o.GPUs[0].Name != "" {
		hello.Device = o.GPUs[0].Name
	}

	return hello, nil
}

// packageVersion returns the installed version of the server's package. It returns an error if the version
// does not satisfy the runtime's requirement.
func packageVersion(ctx context.Context, o *settings) (string, error) {
	python := cmp.Or(o.Python, pyhost.DefaultPython)
	got := pyhost.Ask(ctx, python, o.Package, nil, nil)
	v := got.Package
	switch {
	case got.Failure != "":
		return "", fmt.Errorf("%s does not report the version of %s: %s; try it by hand: %s -v -c 'pass'", python, o.Package,
			got.Failure, python)
	case v == "" || v == pyhost.UnknownVersion:
		return "", fmt.Errorf("%s does not report the version of %s; install it, or give python the interpreter that has it",
			python, o.Package)
	}

	ok, err := pyhost.Satisfies(v, o.Requires)
	if err != nil {
		return "", err
	}

	if !ok {
		return "", fmt.Errorf("%s %s is installed, and the runtime requires %s", o.Package, v, o.Requires)
	}

	return v, nil
}

// Serve implements worker.Host. It runs one case at a time and stops the server at the end.
func (h *Host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	h.out = out
	defer h.end()
	s := worker.Sequential{Run: func(ctx context.Context, c worker.Case) ([]worker.Row, error) {
		h.log.Section()
		row, err := h.run(ctx, c)
		if text := h.log.Text(); len(text) > 0 { // of the case, with the start of its server
			h.out.Attach(c.Seq, worker.Attachment{Name: "server.log", MediaType: "text/plain", Data: text})
		}
		return []worker.Row{row}, err
	}}
	return s.Serve(ctx, in, out)
}

// nowhere has an address for settings that are only validated. No setting depends on it.
var nowhere = &running{base: "http://127.0.0.1:1"}

// Check returns an error if a case is invalid. It starts no server and reads no file.
func Check(init worker.Init, c worker.Case) (err error) {
	h := New(init, nil)
	if h.options, err = parse(init); err != nil {
		return err
	}

	a, err := h.split(c)
	if err != nil {
		return err
	}
	return h.load(nowhere).Check(a.Case)
}

// run measures a case and records its traces. Errors have a failure class.
func (h *Host) run(ctx context.Context, c worker.Case) (worker.Row, error) {
	a, err := h.split(c)
	if err != nil {
		return nil, failure(worker.ClassUnsupportedConfig, err, "")
	}

	// Validate the settings first, because starting a server may take minutes.
	set, _, err := h.load(nowhere).Settings(a.Case)
	if err != nil {
		return nil, failure(worker.ClassUnsupportedConfig, err, "")
	}

	if err := h.need(ctx, a); err != nil {
		return nil, err
	}

	s := h.current
	row, res, err := h.measured(ctx, a, set.Streaming)
	if err != nil {
		return nil, err
	}

	var silent error
	if s.doubted && s.Exit() == "" {
		silent = h.recovers(ctx, s, a)
	}

	if ctx.Err() != nil {
		return nil, ctx.Err()
	}

	if how := s.Exit(); how != "" {
		return nil, h.duringLoad(ctx, fmt.Errorf("the server ended with %s right after the load", how))
	}

	if silent != nil {
		err := failure(worker.ClassFrameworkBug, fmt.Errorf("the server failed requests of the load and does not answer any "+
			"more: %w", silent), h.log.Last())
		h.end() // it would fail the next case as well
		return nil, err
	}

	measure(row, a, res)
	h.describe(row, s, a)
	t := h.traced(ctx, a)

	if err := ctx.Err(); err != nil {
		return nil, err
	}

	if t != nil {
		if t.err != nil && a.trace.Required {
			return nil, failure(worker.ClassTransient,
				fmt.Errorf("the traces of this case are required: %w", t.err), h.log.Last())
		}
		t.into(row)
	}

	return row, h.keep(s, a, row, res, t)
}

// load returns the host that runs load on a server.
func (h *Host) load(s *running) *load.Host {
	init := h.init
	init.Options = map[string]any{"url": s.base, "plan_dir": h.options.PlanDir}

	for _, name := range load.Names() {
		if v, ok := h.init.Options[name]; ok {
			init.Options[name] = v
		}
	}

	var blocks map[string]json.RawMessage
	if json.Unmarshal(h.init.Blocks, &blocks) == nil { // else parse has reported it
		maps.DeleteFunc(blocks, func(name string, _ json.RawMessage) bool { return name != "load" && name != "search" })
		init.Blocks, _ = json.Marshal(blocks) // raw JSON can be encoded
	}

	return load.NewHost(init)
}

// describe adds information about the server to the row.
func (h *Host) describe(row worker.Row, s *running, a *ask) {
	row["server_ready_s"] = s.ready.Seconds()
	if s.version != "" {
		row["server_version"] = s.version
	}

	if a.gpus > 0 {
		row["gpus"] = a.gpus
	}

	if names := uuids(s.gpus); names != "" {
		row["gpu_uuids"] = names
	}
}

// failure returns an error with a class. tail is the end of the server's log, or "".
func failure(class string, err error, tail string) error {
	if fe, ok := errors.AsType[*worker.Failure](err); ok && tail == "" {
		return fe
	}

	f := worker.Failure{Class: class, Message: err.Error()}
	if tail != "" {
		last := strings.TrimSpace(tail[strings.LastIndexByte(tail, '\n')+1:])
		// Lists of failures show only the first line.
		f.Message += "; its log ends with " + strconv.Quote(textutil.Clip(last, 200)) +
			"\nits last lines:\n" + tail
		f.Traceback = tail
	}
	return &f
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

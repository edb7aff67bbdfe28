// Package host is the worker of server runtimes: it starts the server that a case
// needs, puts the case's load on it, has it record traces in a second pass, and
// ends it before another one starts.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load"
	loadhost "aicplan/cudaops/load/host"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/server"
	"aicplan/cudaops/worker"
	"aicplan/sink/phrase"
)

// Framework is the label of rows whose plan gives none and names no package.
const Framework = "SERVER"

// levelStatus is the level of a line that says what a case waits for.
const levelStatus = "status"

// lastLines is how much of a server's log a failure shows.
const lastLines = 15

// Host is the worker host of a server runtime.
type Host struct {
	init    worker.Init
	options *Options
	open    func() (nvml.API, error)

	log     *server.Log
	current *running
	// failed are servers that did not become ready, by key: their other cases need
	// not wait for the same.
	failed map[string]error
	facts  *facts
	// poll and grown are how often and how long the traces of a profiler are
	// watched while they are written.
	poll, grown time.Duration
}

// running is a server that is up.
type running struct {
	*server.Process
	key     string
	base    string // http://host:port
	address string
	ready   time.Duration
	dir     string // its own folder, removed when it ends
	traces  string
	values  map[string]string
	version string
	command []string
}

// New makes the host. open reaches the management library of the GPUs; nil means
// the machine's.
func New(init worker.Init, open func() (nvml.API, error)) *Host {
	if open == nil {
		open = nvml.Open
	}
	return &Host{init: init, open: open, log: server.NewLog(os.Stderr), failed: map[string]error{}, grown: defaultGrown}
}

// Configure implements worker.Configurer.
func (h *Host) Configure(init worker.Init) error {
	h.init = init
	clear(h.failed)
	return nil
}

// helloTimeout bounds the question for the package's version.
const helloTimeout = 30 * time.Second

const askVersion = `import sys
from importlib import metadata
sys.stdout.write(metadata.version(sys.argv[1]))`

// Hello implements worker.Host. No server is started for it.
func (h *Host) Hello(ctx context.Context) (worker.Hello, error) {
	wrong := func(class string, err error) (worker.Hello, error) {
		return worker.Hello{}, &worker.StartError{Failure: worker.Failure{Class: class, Message: err.Error()}}
	}
	o, err := parse(h.init)
	if err != nil {
		return wrong(worker.ClassCollectorBug, err)
	}
	h.options = o
	hello := worker.Hello{Framework: Framework, Version: "unknown", Device: "no GPU", Window: 1, Ops: loadhost.Ops(), Configure: true, Env: map[string]string{}}
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

// packageVersion asks the interpreter for the version of the server's package.
func packageVersion(ctx context.Context, o *Options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	python := o.Python
	if python == "" {
		python = pyhost.DefaultPython
	}
	out, err := exec.CommandContext(ctx, python, "-c", askVersion, o.Package).Output()
	if err != nil {
		why := err.Error()
		if ee, ok := errors.AsType[*exec.ExitError](err); ok {
			lines := strings.Split(strings.TrimSpace(string(ee.Stderr)), "\n")
			why = lines[len(lines)-1]
		}
		return "", fmt.Errorf("%s does not tell the version of %s: %s; install it, or give python the interpreter that has it", python, o.Package, why)
	}
	v := strings.TrimSpace(string(out))
	ok, err := pyhost.Satisfies(v, o.Requires)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%s %s is installed, and the runtime requires %s", o.Package, v, o.Requires)
	}
	return v, nil
}

// Serve implements worker.Host: one case after the other. The server ends with it.
func (h *Host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	defer h.end(out)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c, ok := <-in:
			if !ok {
				return nil
			}
			out.Start(c.Seq)
			h.log.Section()
			row, err := h.run(ctx, c, out)
			h.keepLog(c, out)
			if err != nil {
				out.Error(c.Seq, worker.FailureOf(err))
				continue
			}
			out.Result(c.Seq, []worker.Row{row}, 0)
		}
	}
}

// keepLog attaches what the server printed during the case, its start included.
func (h *Host) keepLog(c worker.Case, out worker.Emitter) {
	if text := h.log.Text(); len(text) > 0 {
		out.Attach(c.Seq, worker.Attachment{Name: "server.log", MediaType: "text/plain", Data: text})
	}
}

// run measures a case, and has its traces recorded.
func (h *Host) run(ctx context.Context, c worker.Case, out worker.Emitter) (worker.Row, error) {
	a, err := h.split(c)
	if err != nil {
		return nil, failure(worker.ClassUnsupportedConfig, err, "")
	}
	if err := h.need(ctx, a, out); err != nil {
		return nil, err
	}
	s := h.current
	inner := h.load(s)
	row, res, err := h.measured(ctx, a, inner, out)
	if err != nil {
		return nil, err
	}
	if how := s.Ended(); how != "" {
		return nil, h.duringLoad(ctx, fmt.Errorf("the server ended with %s right after the load", how))
	}
	measure(row, a, res)
	h.describe(row, s, a)
	t := h.traced(ctx, a, inner, out)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t != nil {
		if t.err != nil && a.trace.Required {
			return nil, failure(worker.ClassTransient, fmt.Errorf("the traces of this case are required: %w", t.err), h.log.Last(lastLines))
		}
		t.into(row)
		h.facts.NCCL = t.nccl
	}
	return row, h.keep(s, a, row, res, t, out)
}

// measured puts the load of a case on the server, as long as it answers.
func (h *Host) measured(ctx context.Context, a *ask, inner *loadhost.Host, out worker.Emitter) (worker.Row, *load.Traffic, error) {
	set, _, err := inner.Settings(a.Case)
	if err != nil {
		return nil, nil, err
	}
	loading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if h.options.AnswersWithin != "" || set.Streaming { // an answer in one piece may take long
		w := silence{patience: h.options.patient.answers, began: time.Now()}
		inner.Watch = func(p load.Progress) {
			if err := w.see(p, time.Now()); err != nil {
				cancel(err)
			}
		}
	}
	row, res, err := inner.Load(loading, a.Case, out)
	if err == nil {
		return row, res, nil
	}
	if why := context.Cause(loading); why != nil && ctx.Err() == nil {
		err := failure(worker.ClassTimeout, why, h.log.Last(lastLines))
		h.end(out) // it would hang the next case as well
		return nil, nil, err
	}
	return nil, nil, h.duringLoad(ctx, err)
}

// silence finds a server that has requests and sends nothing.
type silence struct {
	patience time.Duration
	began    time.Time // of the silence
	last     int64
}

// see returns an error once the server has been silent for too long.
func (s *silence) see(p load.Progress, now time.Time) error {
	if heard := p.Tokens + p.Succeeded + p.Failed; heard != s.last || p.InFlight == 0 {
		s.last, s.began = heard, now
		return nil
	}
	if now.Sub(s.began) < s.patience {
		return nil
	}
	return fmt.Errorf("the server hangs: it has %s and sent nothing for %v (answers_within of the runtime)", phrase.Some(int(p.InFlight), "request"), s.patience)
}

// load is the host of the load on a server.
func (h *Host) load(s *running) *loadhost.Host {
	init := h.init
	init.Options = map[string]any{"url": s.base, "plan_dir": h.options.PlanDir}
	for _, name := range load.Names() {
		if v, ok := h.init.Options[name]; ok {
			init.Options[name] = v
		}
	}
	init.Blocks = nil
	var b struct {
		Load json.RawMessage `json:"load"`
	}
	if json.Unmarshal(h.init.Blocks, &b) == nil && len(b.Load) > 0 {
		init.Blocks = json.RawMessage(`{"load":` + string(b.Load) + `}`)
	}
	return loadhost.New(init)
}

// duringLoad says of a load that failed whether its server is to blame.
func (h *Host) duringLoad(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// A server that dies closes its connections a moment before it is gone.
	select {
	case <-h.current.Exited():
	case <-time.After(200 * time.Millisecond):
	}
	how := h.current.Ended()
	if how == "" {
		return err
	}
	first := worker.FailureOf(err).Message
	return failure(worker.ClassFrameworkBug, fmt.Errorf("the server ended with %s in the middle of the load (%s)", how, firstLine(first)), h.log.Last(lastLines))
}

// describe adds what is known of the server.
func (h *Host) describe(row worker.Row, s *running, a *ask) {
	row["server_ready_s"] = s.ready.Seconds()
	if s.version != "" {
		row["server_version"] = s.version
	}
	if a.gpus > 0 {
		row["gpus"] = a.gpus
	}
	if uuids := h.uuids(a.gpus); uuids != "" {
		row["gpu_uuids"] = uuids
	}
}

// uuids names the GPUs that a server of n ranks uses; "" where that is not known.
func (h *Host) uuids(n int) string {
	gpus := h.options.GPUs
	if n > 0 && n < len(gpus) {
		gpus = gpus[:n]
	}
	var out []string
	for _, g := range gpus {
		if g.UUID != "" {
			out = append(out, g.UUID)
		}
	}
	return strings.Join(out, " ")
}

// need makes sure that the server of a case is up.
func (h *Host) need(ctx context.Context, a *ask, out worker.Emitter) error {
	if s := h.current; s != nil {
		if s.key == a.key && s.Ended() == "" {
			return nil
		}
		if how := s.Ended(); how != "" && s.key == a.key {
			out.Log("warn", "the server ended with %s and is started again", how)
		}
		h.end(out)
	}
	if err := h.failed[a.key]; err != nil && a.Attempt <= 1 {
		f := worker.FailureOf(err)
		f.Message = "its server did not start for the case before: " + f.Message
		return &worker.FailureError{Failure: f}
	}
	s, err := h.start(ctx, a, h.command(a.trace), a.trace.torch(), out)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.failed[a.key] = err
		return err
	}
	delete(h.failed, a.key)
	h.current = s
	return nil
}

// start starts a server and waits until it is ready.
func (h *Host) start(ctx context.Context, a *ask, command []string, profiled bool, out worker.Emitter) (*running, error) {
	o := h.options
	if n := len(o.GPUs); n > 0 && a.gpus > n {
		return nil, failure(worker.ClassUnsupportedConfig, fmt.Errorf("the server needs %d GPUs, and this machine offers it %d", a.gpus, n), "")
	}
	if err := h.gpusFree(ctx, a.gpus); err != nil {
		return nil, failure(worker.ClassResourceIssue, err, "")
	}
	port, err := server.Port(o.Host, o.Port)
	if err != nil {
		return nil, failure(worker.ClassResourceIssue, err, "")
	}
	dir, err := os.MkdirTemp("", "aicplan-")
	if err != nil {
		return nil, failure(worker.ClassResourceIssue, err, "")
	}
	s := &running{key: a.key, dir: dir, traces: dir + "/traces", address: o.Host + ":" + strconv.Itoa(port)}
	s.base = "http://" + s.address
	model, _ := h.init.Options["model"].(string)
	s.values = map[string]string{
		"host": o.Host, "port": strconv.Itoa(port), "model": model, "plan_dir": o.PlanDir, "trace_dir": s.traces, "work_dir": dir, "gpus": strconv.Itoa(a.gpus),
	}
	maps.Copy(s.values, a.server)
	drop := func(class string, err error) (*running, error) {
		_ = os.RemoveAll(dir) // nothing of worth is in it
		return nil, failure(class, err, "")
	}
	if err := os.Mkdir(s.traces, 0o755); err != nil {
		return drop(worker.ClassResourceIssue, err)
	}
	spec := server.Spec{Log: h.log}
	if spec.Command, err = expandAll(command, s.values); err != nil {
		return drop(worker.ClassUnsupportedConfig, err)
	}
	if spec.Dir, err = server.Expand(o.Dir, s.values); err != nil {
		return drop(worker.ClassUnsupportedConfig, err)
	}
	if spec.Env, err = h.environment(s.values, profiled); err != nil {
		return drop(worker.ClassUnsupportedConfig, err)
	}
	spec.Env = append(h.visible(a.gpus), spec.Env...)
	s.command = spec.Command
	fmt.Fprintf(h.log, "--- aicplan starts: %s\n", strings.Join(spec.Command, " "))
	if s.Process, err = server.Start(spec); err != nil {
		return drop(worker.ClassUnsupportedConfig, err)
	}
	out.Log("info", "server of %s: process %d at %s", a.about(), s.Pid(), s.base)
	ready := server.Ready{Address: s.address, Within: o.patient.ready, Waiting: func(d time.Duration, missing string) {
		out.Log(levelStatus, "server of %s: not ready for %.0f s: %s", a.about(), d.Seconds(), missing)
	}}
	if path := o.health(); path != "" {
		ready.URL = s.base + "/" + strings.TrimPrefix(path, "/")
	}
	if o.completion() {
		ready.Complete = func(ctx context.Context) error { return h.complete(ctx, s, a) }
	}
	if s.ready, err = ready.Wait(ctx, s.Process); err != nil {
		ended := s.Ended() != ""
		h.stop(s, out)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		class := worker.ClassTimeout
		if ended {
			class = worker.ClassFrameworkBug
		}
		return nil, failure(class, err, h.log.Last(lastLines))
	}
	s.version = h.serverVersion(ctx, s)
	out.Log("info", "server of %s: ready after %.1f s", a.about(), s.ready.Seconds())
	return s, nil
}

// about names the server of a case by its parameters.
func (a *ask) about() string {
	var parts []string
	for _, name := range sortedKeys(a.server) {
		parts = append(parts, name+"="+a.server[name])
	}
	if len(parts) == 0 {
		return "all cases"
	}
	return strings.Join(parts, " ")
}

// complete asks for a real completion, as the load will.
func (h *Host) complete(ctx context.Context, s *running, a *ask) error {
	set, o, err := h.load(s).Settings(a.Case)
	if err != nil {
		return err
	}
	set = few(set, 1, completionTokens)
	set.ISL = min(set.ISL, completionPrompt)
	set.CacheReset = load.ResetNever
	res, err := load.Run(ctx, set, o)
	if err != nil {
		return err
	}
	if sum := res.Profiling.Summary; sum.Succeeded == 0 {
		e := sum.Errors[0]
		return fmt.Errorf("%d %s: %s", e.Code, e.Type, firstLine(e.Message))
	}
	return nil
}

// What a completion that only tries the server asks for, in tokens.
const (
	completionTokens = 4
	completionPrompt = 16
)

// few are settings of a short load of n requests of so many tokens.
func few(s load.Settings, n, tokens int) load.Settings {
	s.Requests, s.Concurrency, s.Batch, s.WarmupRequests, s.Sessions, s.Entries = n, min(max(s.Concurrency, 1), n), 0, 0, 0, 0
	s.RequestRate, s.Duration, s.Trace, s.Turns, s.TurnsStdDev, s.CancelShare = 0, 0, "", 1, 0, 0
	if s.OSL > float64(tokens) || s.OSL == 0 {
		s.OSL, s.OSLStdDev = float64(tokens), 0
	}
	extra := maps.Clone(s.ExtraInputs)
	for _, name := range []string{"min_tokens", "max_tokens", "max_completion_tokens"} {
		delete(extra, name) // they are meant for the answers of the load
	}
	s.ExtraInputs = extra
	return s
}

// serverVersion asks the server, as vLLM and SGLang tell it; "" where it does not.
func (h *Host) serverVersion(ctx context.Context, s *running) string {
	return loadhost.Version(ctx, s.base)
}

// end ends the server that is up, if any.
func (h *Host) end(out worker.Emitter) {
	if h.current != nil {
		h.stop(h.current, out)
		h.current = nil
	}
}

// stop ends a server, with everything that it started, and tells what did not end
// by itself.
func (h *Host) stop(s *running, out worker.Emitter) {
	done := s.Stop(h.options.patient.signal, h.options.patient.stop)
	switch {
	case done.Killed:
		out.Log("warn", "the server did not end within %v of %s and was killed; processes ended with it: %s", h.options.patient.stop, h.options.Stop.Signal, listed(done.Orphans))
	case len(done.Orphans) > 0:
		out.Log("warn", "the server left %s behind; ended with it: %s", phrase.Some(len(done.Orphans), "process"), listed(done.Orphans))
	}
	_ = os.RemoveAll(s.dir) // what is worth keeping has been attached
}

func listed(list []string) string {
	if len(list) == 0 {
		return "none but itself"
	}
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], "; ") + fmt.Sprintf("; and %d more", len(list)-most)
	}
	return strings.Join(list, "; ")
}

// visible limits a server to its GPUs.
func (h *Host) visible(n int) []string {
	gpus := h.options.GPUs
	if n == 0 || len(gpus) == 0 {
		return nil
	}
	var list []string
	for _, g := range gpus[:min(n, len(gpus))] {
		list = append(list, strconv.Itoa(g.Index))
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strings.Join(list, ",")}
}

// gpusFree waits until the memory of the server's GPUs is free: a server that finds
// less starts with a smaller cache, or not at all.
func (h *Host) gpusFree(ctx context.Context, n int) error {
	if len(h.options.GPUs) == 0 {
		return nil
	}
	api, err := h.open()
	if err != nil {
		return nil // nothing here tells
	}
	defer api.Close() //nolint:errcheck // nothing was changed
	gpus := h.options.GPUs
	if n > 0 {
		gpus = gpus[:min(n, len(gpus))]
	}
	for _, g := range gpus {
		if g.UUID == "" {
			continue
		}
		d, err := nvml.Find(api, g.UUID)
		if err != nil {
			return err
		}
		if err := nvml.WaitFree(ctx, d, h.options.patient.gpus); err != nil {
			return fmt.Errorf("GPU %d is not free: %w", g.Index, err)
		}
	}
	return nil
}

// failure is an error with a class; tail are the last lines of the server's log.
func failure(class string, err error, tail string) error {
	if fe, ok := errors.AsType[*worker.FailureError](err); ok && tail == "" {
		return fe
	}
	f := worker.Failure{Class: class, Message: err.Error()}
	if tail != "" {
		// The first line is all that a list of failures shows.
		f.Message += "; its log ends with " + strconv.Quote(phrase.Clip(lastLine(tail), 200)) + "\nits last lines:\n" + tail
		f.Traceback = tail
	}
	return &worker.FailureError{Failure: f}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func lastLine(text string) string {
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/server"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// need ensures that the server of a case is running. It restarts a server that has failed and stops one
// with a different key. Errors have a failure class.
func (h *Host) need(ctx context.Context, a *ask) error {
	if s := h.current; s != nil {
		if s.key == a.key && s.Exit() == "" && !s.doubted {
			return nil
		}

		if s.key == a.key && s.Exit() == "" {
			err := h.recovers(ctx, s, a)
			if err == nil {
				return nil
			}
			h.out.Log(
				"warn",
				"the server failed the case before and does not answer any more, so it is ended and started again: %v",
				err,
			)
		}

		if err := ctx.Err(); err != nil {
			return err
		}

		if how := s.Exit(); how != "" && s.key == a.key {
			h.out.Log("warn", "the server ended with %s and is started again", how)
		}

		h.end()
	}

	if err := h.failed[a.key]; err != nil && a.Attempt <= 1 {
		f := worker.FailureOf(err)
		f.Message = "its server did not start for the case before: " + f.Message
		return &f
	}

	s, err := h.start(ctx, a, h.command(a.trace), a.trace.torch())
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

// start starts a server and waits until it is ready. Variables of the plan override those in env. Errors
// have a failure class.
func (h *Host) start(ctx context.Context, a *ask, command []string, profiled bool,
	env ...string) (*running, error) {
	o := h.options
	if n := len(o.GPUs); n > 0 && a.gpus > n {
		return nil, failure(worker.ClassUnsupportedConfig,
			fmt.Errorf("the server needs %d GPUs, and this machine offers it %d", a.gpus, n), "")
	}

	gpus := h.given(a.gpus, a.server)
	if err := h.gpusFree(ctx, gpus); err != nil {
		return nil, failure(worker.ClassResourceIssue, err, "")
	}

	port, err := server.Port(o.Host, o.Port)
	if err != nil {
		return nil, failure(worker.ClassResourceIssue, err, "")
	}

	own, err := fileutil.NewTempFolder("server")
	if err != nil {
		return nil, failure(worker.ClassResourceIssue, err, "")
	}

	s := &running{key: a.key, folder: own, traces: own.Path + "/traces", gpus: gpus,
		address: server.Address(o.Host, port)}
	s.base = "http://" + s.address
	model, _ := h.init.Options["model"].(string)
	s.values = map[string]string{
		"host": o.Host, "port": strconv.Itoa(port), "model": model, "plan_dir": o.PlanDir, "trace_dir": s.traces,
		"work_dir": own.Path, "gpus": strconv.Itoa(a.gpus),
	}

	maps.Copy(s.values, a.server)
	drop := func(class string, err error) (*running, error) {
		own.Remove()
		return nil, failure(class, err, "")
	}

	if err := os.Mkdir(s.traces, 0o755); err != nil {
		return drop(worker.ClassResourceIssue, err)
	}

	spec, err := h.spec(command, s.values, profiled)
	if err != nil {
		return drop(worker.ClassUnsupportedConfig, err)
	}

	if env, err = server.ExpandAll(env, s.values); err != nil {
		return drop(worker.ClassUnsupportedConfig, err)
	}

	spec.Output = func(r io.Reader) { _, _ = io.Copy(h.log, r) } // until the end of the output
	spec.Env = slices.Concat(visible(gpus), env, spec.Env)
	s.command, s.env = spec.Command, spec.Env
	fmt.Fprintf(h.log, "--- aicplan starts: %s\n", strings.Join(spec.Command, " "))

	if s.Process, err = server.Start(spec); err != nil {
		return drop(worker.ClassUnsupportedConfig, fmt.Errorf("the server's command: %w", err))
	}

	h.out.Log("info", "server of %s: process %d at %s", a.about(), s.Pid, s.base)
	if s.ready, err = h.answering(s, a, time.Duration(o.Ready.Within)).Wait(ctx, s.Process); err != nil {
		ended := s.Exit() != ""
		h.stop(s)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}

		class := worker.ClassTimeout
		if e, ok := errors.AsType[*server.NotReadyError](err); ok && e.Refused {
			class = worker.ClassCollectorBug // the plan is wrong
		} else if ended {
			class = worker.ClassFrameworkBug
		} else if o.Port == 0 && !TakesPort(o.texts()) {
			err = fmt.Errorf("%w; %s", err, NoPort)
		}

		return nil, failure(class, err, h.log.Last())
	}

	s.version = load.Version(ctx, s.base)
	h.out.Log("info", "server of %s: ready after %.1f s", a.about(), s.ready.Seconds())
	return s, nil
}

// answering returns the readiness check of a server.
func (h *Host) answering(s *running, a *ask, within time.Duration) *server.Ready {
	r := &server.Ready{Address: s.address, Within: within, Steady: h.steady,
		Waiting: func(d time.Duration, missing string) {
			h.out.Log(levelStatus, "server of %s: not ready for %.0f s: %s", a.about(), d.Seconds(), missing)
		}}

	if path := strings.TrimSpace(h.options.Ready.Path); path != "" {
		r.URL = s.base + "/" + strings.TrimPrefix(path, "/")
	}

	if h.options.Ready.Completion {
		r.Complete = func(ctx context.Context) error { return h.complete(ctx, s, a) }
	}
	return r
}

// recovers waits until a server with failed requests responds again. A dying server refuses requests for a
// while before its process ends.
func (h *Host) recovers(ctx context.Context, s *running, a *ask) error {
	within := min(h.again, time.Duration(h.options.Ready.Within))
	_, err := h.answering(s, a, within).Wait(ctx, s.Process)

	if e, ok := errors.AsType[*server.NotReadyError](err); ok {
		if e.Exited != "" {
			return fmt.Errorf("it ended with %s", e.Exited)
		}
		return fmt.Errorf("%s, for %v", e.Missing, e.After.Round(time.Millisecond))
	}

	if err == nil {
		s.doubted = false
	}

	return err
}

// about describes the server of a case by its parameters.
func (a *ask) about() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a.server)) {
		parts = append(parts, name+"="+a.server[name])
	}

	if len(parts) == 0 {
		return "all cases"
	}
	return strings.Join(parts, " ")
}

// complete sends a short completion request with the settings of the load.
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
		return h.refusal(ctx, s, e.Code, fmt.Errorf("%d %s: %s", e.Code, e.Type, firstLine(e.Message)))
	}

	return nil
}

// refusal returns a *server.RefusedError if the response means that the request itself is wrong. For 404,
// it checks the server's list of models: an unlisted model is wrong, otherwise the model may still be
// loading.
func (h *Host) refusal(ctx context.Context, s *running, status int, err error) error {
	if server.Wrong(status) {
		return &server.RefusedError{Err: err}
	}

	if status != http.StatusNotFound {
		return err
	}

	model := s.values["model"]
	if have := server.Models(ctx, s.base); len(have) > 0 && model != "" && !slices.Contains(have, model) {
		return &server.RefusedError{Err: fmt.Errorf("%w; it serves %s, and model of the runtime is %q", err,
			textutil.Clip(strings.Join(have, ", "), 200), model)}
	}
	return err
}

// Length of the completion that checks readiness, in tokens.
const (
	completionTokens = 4
	completionPrompt = 16
)

// few returns the settings of a short load of n requests with at most the given number of output tokens.
func few(s load.Settings, n, tokens int) load.Settings {
	s.Requests, s.Concurrency, s.Batch, s.WarmupRequests, s.Sessions, s.Entries = n, min(max(s.Concurrency, 1),
		n), 0, 0, 0, 0
	s.RequestRate, s.Duration, s.Trace, s.Turns, s.TurnsStdDev, s.CancelShare = 0, 0, "", 1, 0, 0
	s.Users, s.OverSaturation, s.PrefillConcurrency, s.Generators = 0, 0, 0, nil
	if s.OSL > float64(tokens) || s.OSL == 0 {
		s.OSL, s.OSLStdDev = float64(tokens), 0
	}

	extra := maps.Clone(s.ExtraInputs)
	for _, name := range []string{"min_tokens", "max_tokens", "max_completion_tokens"} {
		delete(extra, name) // they apply to the responses of the measured load
	}

	s.ExtraInputs = extra
	return s
}

// end stops the running server, if any.
func (h *Host) end() {
	if h.current != nil {
		h.stop(h.current)
		h.current = nil
	}
}

// stop stops a server and all processes that it started. It logs processes that had to be killed.
func (h *Host) stop(s *running) {
	done := s.Stop(h.options.signal, time.Duration(h.options.Stop.Within))
	switch {
	case done.Killed:
		h.out.Log("warn", "the server did not end within %v of %s and was killed; processes ended with it: %s",
			time.Duration(h.options.Stop.Within), h.options.Stop.Signal, listed(done.Orphans))
	case len(done.Orphans) > 0:
		h.out.Log("warn", "the server left %s behind; ended with it: %s", textutil.Some(len(done.Orphans), "process"),
			listed(done.Orphans))
	}

	s.folder.Remove()
}

func listed(list []string) string { return cmp.Or(textutil.First(list, 5, "; "), "none but itself") }

// given returns the GPUs of a server with n ranks. If n is 0, it returns all GPUs of the runtime. If the
// runtime's environment sets CUDA_VISIBLE_DEVICES, it returns those GPUs.
func (h *Host) given(n int, values map[string]string) []GPU {
	gpus := h.options.GPUs
	if own, ok := h.options.env[nvml.VisibleDevices]; ok {
		gpus = nil
		if value, err := server.Expand(own, values); err == nil {
			gpus = h.named(value)
		}
	}

	if n > 0 {
		gpus = gpus[:min(n, len(gpus))]
	}
	return gpus
}

// named returns the GPUs selected by a value of CUDA_VISIBLE_DEVICES.
func (h *Host) named(value string) []GPU {
	api, err := h.open()
	if err != nil {
		return nil
	}
	all, err := nvml.Identities(api)
	if err != nil {
		return nil
	}

	return nvml.Visible(all, value)
}

// visible returns environment variables that limit a server to its GPUs. The runtime's environment
// overrides them.
func visible(gpus []GPU) []string {
	if len(gpus) == 0 {
		return nil
	}

	var list []string
	for _, g := range gpus {
		list = append(list, strconv.Itoa(g.Index))
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", nvml.VisibleDevices + "=" + strings.Join(list, ",")}
}

// uuids returns the UUIDs of GPUs, or "" if one of them is unknown.
func uuids(gpus []GPU) string {
	var out []string
	for _, g := range gpus {
		if g.UUID == "" {
			return ""
		}
		out = append(out, g.UUID)
	}
	return strings.Join(out, " ")
}

// gpusFree waits until the memory of the server's GPUs is free. With less memory, a server starts with a
// smaller cache or not at all.
func (h *Host) gpusFree(ctx context.Context, gpus []GPU) error {
	if len(gpus) == 0 {
		return nil
	}

	api, err := h.open()
	if err != nil {
		return nil // without NVML there is nothing to check
	}

	for _, g := range gpus {
		if g.UUID == "" {
			continue
		}
		d, err := nvml.Find(api, g.UUID)
		if err != nil {
			return err
		}
		if err := nvml.WaitFree(ctx, d, time.Duration(h.options.GPUsWithin)); err != nil {
			return fmt.Errorf("GPU %d is not free: %w", g.Index, err)
		}
	}

	return nil
}

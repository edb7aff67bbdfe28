package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/worker"
)

// Log levels shown to the user: progress and results.
const (
	levelStatus = "status"
	levelShow   = "show"
)

// Settings returns the load settings and options of a case. Errors have a failure class.
func (h *Host) Settings(c worker.Case) (Settings, Options, error) {
	s, o, err := h.prepared(c)
	if err == nil {
		err = s.Settle()
	}
	if err != nil {
		return s, Options{}, failure(worker.ClassUnsupportedConfig, err)
	}
	return s, o, nil
}

// prepared is Settings for a load whose settings are not complete.
func (h *Host) prepared(c worker.Case) (Settings, Options, error) {
	s, err := h.settings(c)
	if err != nil {
		return s, Options{}, failure(worker.ClassUnsupportedConfig, err)
	}

	tok, err := h.tokenizer(s.Tokenizer)
	if err != nil {
		return s, Options{}, worker.Failed(worker.ClassUnsupportedConfig, "tokenizer: %v", err)
	}
	return s, Options{Salt: salt(c.ID), Tokenizer: tok, Getenv: h.getenv, Dial: h.dial}, nil
}

// Load runs the load of a case and attaches AIPerf's files. Errors have a failure class. If there is an error, the row
// and the traffic are nil. If the load is repeated, the traffic is that of the last repeat, with the
// batches of all.
func (h *Host) Load(ctx context.Context, c worker.Case, out worker.Emitter) (worker.Row, *Traffic, error) {
	find, err := h.search()
	if err != nil {
		return nil, nil, failure(worker.ClassUnsupportedConfig, err)
	}

	defer h.removeLogs()
	stop, ignore := h.interrupts()
	defer ignore()
	h.beside = Options{Stop: stop, Progress: func(p Progress) {
		out.Log(levelStatus, "%s", status(p))
		if h.Watch != nil {
			h.Watch(p)
		}
	}}

	var p *point
	if find != nil {
		p, err = h.searched(ctx, c, find, out)
	} else {
		var s Settings
		var o Options
		if s, o, err = h.Settings(c); err == nil {
			p, err = h.measured(ctx, s, o)
		}
	}

	if errors.Is(err, errUnreachable) {
		err = failure(worker.ClassTransient, err)
	}

	if p != nil {
		if kerr := h.keep(c, out, p); kerr != nil && err == nil {
			err = failure(worker.ClassResourceIssue, kerr)
		}
	}

	if err != nil {
		return nil, nil, err
	}

	res := p.last().res
	title := fmt.Sprintf("%s: %s", c.Op, describePoint(&res.Settings))
	out.Log(levelShow, "%s", aiperf.Table(res.Profiling.Summary, title))
	return p.row, res, nil
}

// point is a measured load point.
type point struct {
	runs []*run // one for each repeat
	row  worker.Row
}

// run is one repeat of a load point.
type run struct {
	res *Traffic
	rec *recorder
	row worker.Row
}

func (p *point) last() *run { return p.runs[len(p.runs)-1] }

// rows returns the row of each repeat.
func (p *point) rows() []worker.Row {
	var out []worker.Row
	for _, r := range p.runs {
		out = append(out, r.row)
	}
	return out
}

// measured runs a load as often as repeats asks. If no request succeeds, it returns the point with its files, without a
// row, and an error.
func (h *Host) measured(ctx context.Context, s Settings, o Options) (*point, error) {
	o.Stop, o.Progress = h.beside.Stop, h.beside.Progress
	p := &point{}
	var batches []Batch // of all repeats
	var err error
	for i := range max(1, s.Repeats) {
		again := o
		again.Salt += uint64(i) * 0x9E3779B97F4A7C15
		var r *run
		if r, err = h.once(ctx, s, again); r != nil {
			batches = append(batches, r.res.Profiling.Batches...)
			r.res.Profiling.Batches = batches
			p.runs = append(p.runs, r)
		}

		if err != nil || r.res.EndedBy == interrupted {
			break
		}
	}

	if len(p.runs) == 0 {
		return nil, err
	}
	p.row = repeated(p.rows())
	return p, err
}

// once runs a load.
func (h *Host) once(ctx context.Context, s Settings, o Options) (*run, error) {
	rec, err := newRecorder(h.init, &s, &o)
	if err != nil {
		return nil, failure(worker.ClassResourceIssue, err)
	}

	if rec.f != nil {
		h.logs = append(h.logs, rec.f.Name())
	}

	// More frequent collections cost more than a tenth of the processor time, and save little memory.
	debug.SetGCPercent(200)
	res, err := Run(ctx, s, o)

	// Return the memory of the load to the system.
	debug.FreeOSMemory()
	if cerr := rec.close(); err == nil && cerr != nil {
		err = worker.Failed(worker.ClassResourceIssue, "the request log: %v", cerr)
	}

	if _, wrong := errors.AsType[*SetupError](err); wrong {
		return nil, failure(worker.ClassUnsupportedConfig, err)
	}

	if errors.Is(err, errUnreachable) {
		return nil, err // of a search, it ends the search: the value was not judged
	}

	if err != nil {
		return nil, failure(worker.ClassTransient, err)
	}

	if res.Interrupted {
		return nil, ctx.Err()
	}

	r := &run{res: res, rec: rec}
	if res.Profiling.Summary.Succeeded == 0 {
		return r, allFailed(res)
	}

	r.row = row(res, o.Tokenizer != nil)
	return r, nil
}

// removeLogs removes the request logs of all loads of the case. Those to keep are attached by then.
func (h *Host) removeLogs() {
	for _, path := range h.logs {
		_ = os.Remove(path) // nothing reads it
	}
	h.logs = nil
}

// allFailed returns the failure of a load without a successful request.
func allFailed(res *Traffic) error {
	sum := res.Profiling.Summary
	if len(sum.Errors) == 0 {
		class, hint := worker.ClassTimeout, "; a longer duration or grace allows more"
		if res.EndedBy == interrupted {
			class, hint = worker.ClassTransient, ""
		}
		return worker.Failed(class, "the load ended by %s before any of %d requests had ended%s", res.EndedBy, sum.Cut, hint)
	}

	e := sum.Errors[0]
	class := worker.ClassFrameworkBug
	switch {
	case e.Type == aiperf.TypeTimeout:
		class = worker.ClassTimeout
	case e.Type == aiperf.TypeConnection, e.Type == aiperf.TypeStream, e.Code == http.StatusTooManyRequests,
		e.Code == http.StatusBadGateway, e.Code == http.StatusServiceUnavailable, e.Code == http.StatusGatewayTimeout:
		class = worker.ClassTransient
	case e.Code >= 300 && e.Code < 500:
		class = worker.ClassUnsupportedConfig // the plan's request is wrong
	}

	text := fmt.Sprintf("all %d requests failed; %d of them: %s", sum.Requests, e.Count, describe(e.Failure))
	if res.EndedBy != "requests" {
		text += "; the load ended by " + res.EndedBy
	}
	if !slices.ContainsFunc(sum.Errors, func(e aiperf.ErrorCount) bool { return !strings.HasPrefix(e.Message, noDone) }) {
		text += "; if the server never sends it, set require_done = false"
	}
	return worker.Failed(class, "%s", text)
}

// patience is how long a load continues after Ctrl-C, so that a short one is completed. It is shorter than the time
// that the engine waits for running cases.
const patience = 5 * time.Second

// interrupts returns a context that is done some time after a signal to end the process.
func (h *Host) interrupts() (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	if !h.deaf {
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	}

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-signals:
			time.AfterFunc(h.patience, cancel)
		case <-ctx.Done():
		}
	}()

	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// describePoint describes a load point for a title.
func describePoint(s *Settings) string {
	if s.Trace != "" {
		text := "trace " + filepath.Base(s.Trace)
		if s.TraceSpeed != 1 {
			text += fmt.Sprintf(" at %v times its speed", s.TraceSpeed)
		}
		if s.Concurrency > 0 {
			text += fmt.Sprintf(", at most %d", s.Concurrency)
		}
		return text
	}

	text := fmt.Sprintf("concurrency %d", s.Concurrency)
	if s.RequestRate > 0 {
		text = fmt.Sprintf("%s rate %v/s", s.Arrival, s.RequestRate)
		if s.Concurrency > 0 {
			text += fmt.Sprintf(", at most %d", s.Concurrency)
		}
	}

	if s.Dataset != "" {
		text += ", dataset " + filepath.Base(s.Dataset)
	} else {
		text += fmt.Sprintf(", isl %v", s.ISL)
	}
	if s.OSL > 0 {
		text += fmt.Sprintf(", osl %v", s.OSL)
	}

	return text
}

// status formats the progress in one line.
func status(p Progress) string {
	text := fmt.Sprintf("%d requests", p.Succeeded+p.Failed)
	if p.Total > 0 {
		text = fmt.Sprintf("%d of %d requests", p.Succeeded+p.Failed, p.Total)
	}

	if p.Warmup {
		text = "warm-up: " + text
	}

	if s := p.Elapsed.Seconds(); s > 0 {
		text += fmt.Sprintf(", %.1f/s, %.0f messages/s", float64(p.Succeeded)/s, float64(p.Tokens)/s)
	}

	if p.TTFT > 0 {
		text += fmt.Sprintf(", TTFT %.1f ms", p.TTFT)
	}

	text += fmt.Sprintf(", %d open", p.InFlight)
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}

	return text
}

// A recorder keeps the requests of a load in a file of packed records while the load runs.
type recorder struct {
	f         *os.File // nil without a log
	pending   []byte
	err       error
	streaming bool
	warmedUp  bool
	slo       aiperf.SLO
}

// maxPending limits the bytes of packed records that are not yet written.
const maxPending = 64 << 10

func newRecorder(init worker.Init, s *Settings, o *Options) (*recorder, error) {
	r := &recorder{streaming: s.Streaming, warmedUp: s.WarmupRequests > 0}
	if s.Log == LogNone {
		return r, nil
	}

	var err error
	if r.slo, err = aiperf.ParseSLO(s.SLO); err != nil {
		return nil, err
	}
	if r.f, err = worker.SpoolFile(init, "requests"); err != nil {
		return nil, err
	}

	o.Record = func(rec *aiperf.Record) {
		r.pending = aiperf.AppendPacked(r.pending, rec)
		if len(r.pending) > maxPending {
			r.flush()
		}
	}

	return r, nil
}

func (r *recorder) flush() {
	_, err := r.f.Write(r.pending)
	r.err, r.pending = cmp.Or(r.err, err), r.pending[:0]
}

func (r *recorder) close() error {
	if r.f == nil {
		return nil
	}

	r.flush()
	r.pending = nil
	return cmp.Or(r.err, r.f.Close())
}

// writeLog writes the request log.
func (r *recorder) writeLog(w io.Writer) error {
	f, err := os.Open(r.f.Name())
	if err != nil {
		return err
	}
	defer f.Close()

	in, out := bufio.NewReader(f), bufio.NewWriterSize(w, 64<<10)
	name := fmt.Sprintf("worker_%d", os.Getpid())
	var rec aiperf.Record
	var values aiperf.Values
	for {
		switch err := aiperf.ReadPacked(in, &rec); {
		case errors.Is(err, io.EOF):
			return out.Flush()
		case err != nil:
			return err
		}

		v := &values
		if rec.Warmup || rec.Cut {
			v = nil
		} else {
			rec.Per(v, r.streaming, r.slo)
		}
		line := aiperf.AppendRecord(out.AvailableBuffer(), &rec, v, r.streaming, r.warmedUp, name)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
}

// keep attaches AIPerf's files of the last repeat to the case, and the rows of all repeats.
func (h *Host) keep(c worker.Case, out worker.Emitter, p *point) error {
	res, rec := p.last().res, p.last().rec
	s := &res.Settings
	report := &aiperf.Report{
		ID: c.ID[:min(12, len(c.ID))], Phase: res.Profiling.Phase, Seed: s.Seed, Input: inputConfig(res),
		Cancelled: res.EndedBy == interrupted, Command: command(s),
	}

	if res.Warmup != nil {
		report.Warmup = &res.Warmup.Phase
	}

	var failed error
	attach := func(files []aiperf.File, err error) {
		for _, f := range files {
			a := worker.Attachment{Name: f.Name, MediaType: f.MediaType}
			err = errors.Join(err, Attach(h.init, out, c.Seq, a, bytes.NewReader(f.Data)))
		}
		failed = errors.Join(failed, err)
	}
	attachJSON := func(name string, v any) {
		raw, err := json.MarshalIndent(v, "", "  ")
		attach([]aiperf.File{{Name: name, MediaType: jsonType, Data: raw}}, err)
	}

	attach(report.Phases())
	if len(p.runs) > 1 {
		attachJSON(RepeatsFile, p.rows())
	}

	if g := res.Profiling.Groups; len(g) > 0 {
		attachJSON(TargetsFile, g)
	}

	if list := res.Profiling.Slices; list != nil {
		attach(aiperf.SliceFiles(list, report.Input))
	}

	if m := res.Server; m != nil {
		attach(m.Files(report.ID, report.Input))
	}

	attach(report.Files())
	attachFrom := func(name, media string, write func(io.Writer) error) {
		in, to := io.Pipe()
		go func() { to.CloseWithError(write(to)) }()
		err := Attach(h.init, out, c.Seq, worker.Attachment{Name: name, MediaType: media}, in)
		failed = errors.Join(failed, err, in.Close())
	}
	attachFrom(aiperf.Inputs, jsonType, func(w io.Writer) error {
		return aiperf.WriteInputs(w, openai.Request{Endpoint: s.EndpointType, Model: s.Model,
			Stream: s.Streaming, Extra: s.ExtraInputs}, res.Conversations)
	})
	if rec.f != nil {
		attachFrom(aiperf.Records, "application/x-ndjson", rec.writeLog)
	}

	return failed
}

const jsonType = "application/json"

// inputConfig returns AIPerf's input_config with the settings that a plan has. It contains no secrets: headers and keys
// are not included.
func inputConfig(res *Traffic) any {
	s := &res.Settings
	type m = map[string]any
	known := func(values m) m {
		maps.DeleteFunc(values, func(_ string, v any) bool {
			r := reflect.ValueOf(v)
			return r.IsZero() || r.Kind() == reflect.Map && r.Len() == 0
		})
		return values
	}

	endpoint := known(m{"urls": s.targetURLs(), "type": s.EndpointType, "extra": s.ExtraInputs, "path": s.Path})
	endpoint["streaming"] = s.Streaming

	set := m{"name": "main", "type": "synthetic", "entries": res.Conversations.Len(), "random_seed": s.Seed}
	if path := s.Trace + s.Dataset; path != "" {
		set = m{"name": "main", "type": "file", "entries": res.Conversations.Len(), "path": filepath.Base(path)}
	} else {
		prompts := m{"isl": known(m{"mean": s.ISL, "stddev": s.ISLStdDev})}
		if s.OSL > 0 {
			prompts["osl"] = known(m{"mean": s.OSL, "stddev": s.OSLStdDev})
		}
		set["prompts"] = prompts
	}

	switch {
	case s.Trace != "":
		set["format"] = "mooncake_trace"
	case s.Sampling != SamplingSequential:
		set["sampling"] = s.Sampling
	}

	profiling := known(m{"name": "profiling", "kind": "profiling", "type": kindOf(s), "requests": s.Requests,
		"concurrency": s.Concurrency, "sessions": s.Sessions, "prefill_concurrency": s.PrefillConcurrency, "users": s.Users,
		"rate": s.RequestRate, "duration": s.Duration})
	if s.CancelShare > 0 {
		profiling["cancellation"] = m{"rate": 100 * s.CancelShare, "delay": s.CancelDelay}
	}

	phases := []any{profiling}
	if s.WarmupRequests > 0 {
		phases = []any{m{"name": "warmup", "kind": "warmup", "type": "concurrency", "exclude_from_results": true,
			"requests": s.WarmupRequests, "concurrency": max(s.Concurrency, 1)}, profiling}
	}

	tokenizer := m{}
	if s.Tokenizer != "" {
		tokenizer["name"] = filepath.Base(s.Tokenizer)
	}

	out := known(m{"models": m{"items": []any{m{"name": s.Model}}}, "endpoint": endpoint, "datasets": []any{set},
		"phases": phases, "slos": s.SLO})
	out["tokenizer"] = tokenizer
	return out
}

func kindOf(s *Settings) string {
	switch {
	case s.Users > 0:
		return "user_centric"
	case s.RequestRate > 0:
		return s.Arrival
	case s.Trace != "":
		return "fixed_schedule"
	}
	return "concurrency"
}

// row returns the result row of a load point. Unknown values are omitted.
func row(res *Traffic, counted bool) worker.Row {
	sum := res.Profiling.Summary
	r := worker.Row{
		"kernel_source":   "aicplan",
		"requests":        sum.Requests,
		"succeeded":       sum.Succeeded,
		"failed":          sum.Failed,
		"cancelled":       sum.Cancelled,
		"cut":             sum.Cut,
		"ended_by":        res.EndedBy,
		"prompt_source":   res.Prompts,
		"window_start_ns": res.Profiling.From,
		"window_end_ns":   res.Profiling.To,
		"cache_reset":     res.CacheReset,
		"started_at_utc":  time.Unix(0, res.Profiling.From).UTC().Format(time.RFC3339Nano),
	}

	if w := res.Warmup; w != nil {
		r["warmup_start_ns"], r["warmup_end_ns"] = w.From, w.To
	}

	for _, columns := range []map[string]float64{sum.Columns(), res.Exported} {
		for name, v := range columns {
			r[name] = v
		}
	}

	r["error_rate"] = float64(sum.Failed) / float64(max(sum.Requests, 1))
	if sum.Asked > 0 {
		r["short_outputs"] = float64(sum.Short) / float64(sum.Asked)
	}

	if sum.Compared > 0 {
		r["token_mismatch"] = float64(sum.Mismatched) / float64(sum.Compared)
	}

	r["unique_prompts"] = min(res.Conversations.Len()*(len(res.Settings.Generators)+1), sum.Requests)

	if m, ok := sum.Get("usage_prompt_cache_read_pct"); ok {
		r["cached_prompt_share"] = m.Stats["avg"] / 100
	}

	r["client_sched_p99"] = res.Client.SchedP99
	for name, v := range map[string]float64{"client_cpu_share": res.Client.CPUShare, "client_rss_mb": res.Client.PeakRSS} {
		if v > 0 {
			r[name] = v
		}
	}

	r["token_source"] = "none"
	if _, ok := sum.Get("output_sequence_length"); ok {
		r["token_source"] = "usage"
		switch {
		case counted:
			r["token_source"] = "tokenizer"
		case res.TokenIDs:
			r["token_source"] = "token_ids"
		}
	}

	return r
}

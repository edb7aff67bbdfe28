package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"aicplan/cudaops/load"
	loadhost "aicplan/cudaops/load/host"
	"aicplan/cudaops/server"
	"aicplan/cudaops/trace"
	"aicplan/cudaops/worker"
)

// Defaults of the pass that records traces.
const (
	defaultTraceRequests = 4
	defaultTraceTokens   = 8
	defaultTraceWithin   = 10 * time.Minute
)

// tracing is what the second pass of a case came to.
type tracing struct {
	err   error // why there is no trace, or not of every rank
	ranks map[int]*rankFigures
	nccl  string
	kinds []string // kineto_trace, torch_et, nsys
	note  string   // why ranks were not compared
}

// rankFigures are the figures of the trace of a rank; null is unknown.
type rankFigures struct {
	Kernels     int64    `json:"kernels"`
	Collectives int64    `json:"collectives"`
	Steps       int      `json:"steps"`
	SpanNs      *int64   `json:"span_ns"`
	CommSumNs   *int64   `json:"comm_sum_ns"`
	CommUnionNs *int64   `json:"comm_union_ns"`
	ExposedNs   *int64   `json:"exposed_comm_ns"`
	ComputeNs   *int64   `json:"compute_union_ns"`
	IdleNs      *int64   `json:"idle_ns"`
	WaitNs      *int64   `json:"wait_ns"`
	CommPct     *float64 `json:"comm_overhead_pct"` // of the steps, or of the span
	Basis       string   `json:"comm_overhead_of"`  // steps, span
	Warning     string   `json:"warning,omitempty"`
	Error       string   `json:"error,omitempty"`

	stepNs, stepBusyNs, stepBubbleNs, stepCommNs, stepExposedNs int64
	result                                                      *trace.Analysis
}

// traced records and reads the traces of a case; nil where none are asked for.
// Nothing of it goes into the times of the row.
func (h *Host) traced(ctx context.Context, a *ask, inner *loadhost.Host, out worker.Emitter) *tracing {
	if a.trace == nil || !a.trace.torch() && !a.trace.Nsys {
		return nil
	}
	t := &tracing{ranks: map[int]*rankFigures{}}
	within := defaultTraceWithin
	if a.trace.Within != "" {
		d, err := time.ParseDuration(a.trace.Within)
		if err != nil || d <= 0 {
			t.err = fmt.Errorf("within of trace is %q; it must be a time such as \"10m\"", a.trace.Within)
			return t
		}
		within = d
	}
	rules := trace.DefaultRules()
	if a.trace.Rules != "" {
		path := a.trace.Rules
		if !filepath.IsAbs(path) {
			path = filepath.Join(h.options.PlanDir, path)
		}
		f, err := os.Open(path)
		if err != nil {
			t.err = fmt.Errorf("rules of trace: %w", err)
			return t
		}
		own, err := trace.ParseRules(f, a.trace.Rules)
		_ = f.Close() // it was only read
		if err != nil {
			t.err = err
			return t
		}
		rules = append(own, rules...)
	}
	if a.trace.torch() {
		t.fail(h.torch(ctx, a, inner, t, rules, within, out))
	}
	if a.trace.Nsys && ctx.Err() == nil {
		t.fail(h.nsys(ctx, a, t, rules, within, out))
	}
	if t.err != nil {
		out.Log("warn", "no complete traces of %s: %v", a.about(), t.err)
	}
	if t.note != "" {
		out.Log("warn", "%s", t.note)
	}
	return t
}

func (t *tracing) fail(err error) { t.err = errors.Join(t.err, err) }

// short is the load of the pass.
func (h *Host) short(inner *loadhost.Host, a *ask) (load.Settings, load.Options, error) {
	s, o, err := inner.Settings(a.Case)
	if err != nil {
		return s, o, err
	}
	n, tokens := a.trace.Requests, a.trace.OSL
	if n == 0 {
		n = defaultTraceRequests
	}
	if tokens == 0 {
		tokens = defaultTraceTokens
	}
	if tokens > int(s.OSL) && s.OSL > 0 {
		tokens = int(s.OSL)
	}
	s = few(s, n, tokens)
	s.OSL = float64(tokens)
	o.Salt ^= 0x7472616365 // prompts of its own: none of them is in a cache
	return s, o, nil
}

// torch records traces with the server's own profiler.
func (h *Host) torch(ctx context.Context, a *ask, inner *loadhost.Host, t *tracing, rules trace.Rules, within time.Duration, out worker.Emitter) error {
	p := h.options.Profiler
	if p == nil {
		return errors.New("the runtime has no profiler block that says how its server records traces")
	}
	prof := &server.Profiler{Start: h.current.base + p.Start, Stop: h.current.base + p.Stop, Dir: h.current.traces, Within: within, Poll: h.poll}
	var err error
	if prof.StartBody, err = body(p.StartBody, h.current); err != nil {
		return err
	}
	if prof.StopBody, err = body(p.StopBody, h.current); err != nil {
		return err
	}
	before, err := prof.Files()
	if err != nil {
		return err
	}
	had := h.observed()
	processes := map[int]int{} // process -> rank
	s, o, err := h.short(inner, a)
	if err != nil {
		return err
	}
	if err := prof.Begin(ctx); err != nil {
		return h.blame(err)
	}
	loadErr := shortLoad(ctx, s, o, within)
	out.Log(levelStatus, "server of %s: writes its traces", a.about())
	files, err := prof.End(ctx, before, max(a.gpus, 1))
	if err = errors.Join(loadErr, err); err != nil {
		return h.blame(err)
	}
	err = h.read(ctx, a, files, processes, rules, t, out)
	return errors.Join(err, h.observers(a, had, processes, t, out))
}

// shortLoad puts the load of the pass on the server; one that hangs does not hold
// the case for ever.
func shortLoad(ctx context.Context, s load.Settings, o load.Options, within time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	res, err := load.Run(bounded, s, o)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return fmt.Errorf("the requests of the traced pass were not answered within %v", within)
	case err != nil:
		return err
	case res.Profiling.Summary.Succeeded == 0:
		e := res.Profiling.Summary.Errors[0]
		return fmt.Errorf("all requests of the traced pass failed; the first kind: %d %s: %s", e.Code, e.Type, firstLine(e.Message))
	}
	return nil
}

// blame says of a request that failed whether the server has ended.
func (h *Host) blame(err error) error {
	select {
	case <-h.current.Exited():
	case <-time.After(200 * time.Millisecond):
	}
	if how := h.current.Ended(); how != "" {
		return fmt.Errorf("the server ended with %s while traces were taken (%w)", how, err)
	}
	return err
}

// read attaches the traces of a pass and takes their figures.
func (h *Host) read(ctx context.Context, a *ask, files []string, processes map[int]int, rules trace.Rules, t *tracing, out worker.Emitter) error {
	var all []*trace.Analysis
	var errs []error
	next := 0
	for _, file := range files {
		if !server.IsTrace(file) {
			continue
		}
		results, err := whole(ctx, file, rules, h.grown)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r := busiest(results)
		if r.Truncated() {
			errs = append(errs, fmt.Errorf("%s: %s", filepath.Base(file), r.Warning))
		}
		if r.Kernels == 0 && len(files) > 1 && r.Rank == nil {
			continue // of a process without a GPU
		}
		rank := next
		if r.Rank != nil {
			rank = *r.Rank
		}
		if named := trace.RankOfName(file); t.ranks[rank] != nil && named != nil {
			rank = *named // ranks that count for themselves, of replicas
		}
		if t.ranks[rank] != nil {
			errs = append(errs, fmt.Errorf("two traces are of rank %d: %s is left out", rank, filepath.Base(file)))
			continue
		}
		next = max(next, rank+1)
		t.ranks[rank] = figures(r)
		if r.Error != "" {
			errs = append(errs, fmt.Errorf("trace of rank %d: %s", rank, r.Error))
		}
		if r.NCCL != "" {
			t.nccl = r.NCCL
		}
		all = append(all, r)
		if pid := processOf(file); pid > 0 {
			processes[pid] = rank
		}
		if err := h.attach(a, file, "kineto_trace_"+strconv.Itoa(rank)+ending(file), out); err != nil {
			return err
		}
		t.kind("kineto_trace")
	}
	t.note = trace.Align(all)
	for rank, f := range t.ranks {
		f.WaitNs = f.result.WaitNs
		t.ranks[rank] = f
	}
	if want := max(a.gpus, 1); len(t.ranks) < want {
		errs = append(errs, fmt.Errorf("there are traces of %d of %d ranks", len(t.ranks), want))
	}
	return errors.Join(errs...)
}

// defaultGrown is how long the traces of a profiler may stand still while they
// are written.
const defaultGrown = 5 * time.Second

// whole reads a trace, again while it ends in the middle and still grows: some
// servers answer before they have written everything.
func whole(ctx context.Context, file string, rules trace.Rules, patience time.Duration) ([]*trace.Analysis, error) {
	for {
		before := sizeOf(file)
		results, err := trace.Read(file, trace.Options{Rules: rules})
		if err != nil && before > 0 || err == nil && !slices.ContainsFunc(results, (*trace.Analysis).Truncated) {
			return results, err
		}
		deadline := time.Now().Add(patience)
		for sizeOf(file) == before {
			if time.Now().After(deadline) || ctx.Err() != nil {
				return results, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(patience / 20):
			}
		}
	}
}

func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (t *tracing) kind(name string) {
	if !slices.Contains(t.kinds, name) {
		t.kinds = append(t.kinds, name)
	}
}

// ending is how the copy of a trace is called: by its bytes, not by its name.
func ending(file string) string {
	if f, err := os.Open(file); err == nil {
		defer f.Close()
		var magic [2]byte
		if _, err := io.ReadFull(f, magic[:]); err == nil && magic == [2]byte{0x1f, 0x8b} {
			return ".json.gz"
		}
	}
	return ".json"
}

// observed lists the execution traces of PyTorch: ENABLE_PYTORCH_EXECUTION_TRACE=1
// has every process write one into its temporary folder, TMPDIR = "{work_dir}".
func (h *Host) observed() []string {
	return matching(h.current.dir, "*.et.json")
}

// observers attaches the execution traces that came since. They name a process, and
// the profiler's traces say of which rank it is.
func (h *Host) observers(a *ask, had []string, processes map[int]int, t *tracing, out worker.Emitter) error {
	found := slices.DeleteFunc(h.observed(), func(name string) bool { return slices.Contains(had, name) })
	var errs []error
	for _, file := range found {
		rank, ok := processes[processOf(file)]
		if !ok && len(found) == 1 && len(t.ranks) == 1 {
			for r := range t.ranks {
				rank, ok = r, true
			}
		}
		if !ok {
			continue // of the front end, which has no rank
		}
		if err := h.attach(a, file, "torch_et_"+strconv.Itoa(rank)+".json", out); err != nil {
			errs = append(errs, err)
			continue
		}
		t.kind("torch_et")
	}
	return errors.Join(errs...)
}

// processPattern finds the process of a trace: of an execution trace in its head,
// of a Kineto trace in its first events of the processor.
var processPattern = regexp.MustCompile(`"pid":\s*"?(\d+)`)

// headOfTrace is how much of a trace is looked at for its process, in bytes.
const headOfTrace = 8 << 20

// processOf is the process that a trace is of; 0 where it does not say.
func processOf(file string) int {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	var r io.Reader = f
	if ending(file) == ".json.gz" {
		z, err := gzip.NewReader(f)
		if err != nil {
			return 0
		}
		defer z.Close()
		r = z
	}
	data, err := io.ReadAll(io.LimitReader(r, headOfTrace))
	if err != nil && len(data) == 0 {
		return 0
	}
	if at := bytes.Index(data, []byte(`"cpu_op"`)); at >= 0 {
		data = data[at:]
	}
	m := processPattern.FindSubmatch(data)
	if m == nil {
		return 0
	}
	pid, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 0
	}
	return pid
}

// attach copies a file into the spool and attaches it.
func (h *Host) attach(a *ask, file, name string, out worker.Emitter) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := worker.SpoolFile(h.init, name)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	media := "application/json"
	switch filepath.Ext(name) {
	case ".gz":
		media = "application/gzip"
	case ".nsys-rep":
		media = "application/octet-stream"
	}
	out.Attach(a.Seq, worker.Attachment{Name: name, MediaType: media, File: filepath.Base(to.Name())})
	return nil
}

// busiest is the result of the device with the most kernels.
func busiest(results []*trace.Analysis) *trace.Analysis {
	return slices.MaxFunc(results, func(a, b *trace.Analysis) int { return int(a.Kernels - b.Kernels) })
}

// figures are those of a rank's trace. Communication is a share of its steps,
// since a trace begins and ends with waiting; where no steps are marked, of the
// time from its first kernel to its last.
func figures(r *trace.Analysis) *rankFigures {
	f := &rankFigures{
		Kernels: r.Kernels, Steps: r.Steps, SpanNs: r.SpanNs, CommSumNs: r.CommSumNs, CommUnionNs: r.CommUnionNs, ExposedNs: r.ExposedCommNs,
		ComputeNs: r.ComputeUnionNs, IdleNs: r.IdleNs, Warning: r.Warning, Error: r.Error, result: r,
	}
	for _, c := range r.Collectives {
		f.Collectives += c.Count
	}
	for _, s := range r.PerStep {
		f.stepNs += s.WallNs
		f.stepBusyNs += s.BusyNs
		f.stepBubbleNs += s.BubbleNs
		f.stepCommNs += *s.CommUnionNs
		f.stepExposedNs += *s.ExposedCommNs
	}
	part, whole := int64(0), int64(0)
	switch {
	case f.stepBusyNs > 0:
		f.Basis, part, whole = "steps", f.stepCommNs, f.stepNs
	case r.SpanNs != nil && r.CommUnionNs != nil:
		f.Basis, part, whole = "span", *r.CommUnionNs, *r.SpanNs
	}
	if whole > 0 {
		pct := 100 * float64(part) / float64(whole)
		f.CommPct = &pct
	}
	return f
}

// into puts the figures of all ranks into the row. What no trace says is left out.
//
//	comm_overhead       %, time in which a collective runs, of the steps' wall time: mean over ranks
//	comm_exposed_pct    %, that part of it in which nothing else runs
//	coll_call_num       collectives in the traces of all ranks
func (t *tracing) into(row worker.Row) {
	if t.err != nil {
		row["trace_error"] = strings.ReplaceAll(t.err.Error(), "\n", "; ")
	}
	n, counted := 0, int64(0)
	pct, exposed, bubble, busy, wall, wait, withSteps, waits, steps := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0
	basis := ""
	for _, f := range t.ranks {
		if f.Error != "" || f.CommPct == nil {
			continue
		}
		n++
		counted += f.Collectives
		pct += *f.CommPct
		basis = f.Basis
		if f.Basis == "steps" {
			withSteps++
			steps = f.Steps
			exposed += 100 * float64(f.stepExposedNs) / float64(f.stepNs)
			bubble += float64(f.stepBubbleNs) / 1e6
			busy += float64(f.stepBusyNs) / 1e6
			wall += float64(f.stepNs) / 1e6
		} else {
			exposed += 100 * float64(*f.ExposedNs) / float64(*f.SpanNs)
			wall += float64(*f.SpanNs) / 1e6
			busy += float64(*f.SpanNs-*f.IdleNs) / 1e6
			bubble += float64(*f.IdleNs) / 1e6
		}
		if f.WaitNs != nil {
			waits++
			wait += float64(*f.WaitNs) / 1e6
		}
	}
	if n == 0 {
		return
	}
	per := func(v float64) float64 { return v / float64(n) }
	row["traced_ranks"] = n
	row["comm_overhead"], row["comm_overhead_of"] = per(pct), basis
	row["comm_exposed_pct"] = per(exposed)
	row["coll_call_num"] = counted
	row["trace_wall_ms"], row["trace_busy_ms"], row["trace_bubble_ms"] = per(wall), per(busy), per(bubble)
	if wall > 0 {
		row["bubble_ratio_pct"] = 100 * bubble / wall
	}
	if withSteps == n {
		row["trace_steps"] = steps
	}
	if waits == n && waits > 1 {
		row["comm_wait_ms"] = per(wait)
	}
}

// nsys has a server of its own run under nsys: the one that was measured is not
// slowed down by it. Afterwards the measured one starts again for the next case.
func (h *Host) nsys(ctx context.Context, a *ask, t *tracing, rules trace.Rules, within time.Duration, out worker.Emitter) error {
	p := h.options.Profiler
	if p == nil {
		p = &Profiler{Nsys: DefaultNsys, Start: DefaultStart, Stop: DefaultEnd}
	}
	h.end(out)
	command := slices.Concat(p.Nsys, h.options.Command, p.NsysArgs)
	s, err := h.start(ctx, a, command, false, out)
	if err != nil {
		return fmt.Errorf("under nsys: %w", err)
	}
	err = h.underNsys(ctx, a, s, within)
	if err == nil {
		select {
		case <-s.Exited(): // of itself: nothing is known of what it recorded
			err = fmt.Errorf("the server ended with %s while nsys recorded", s.Ended())
		default:
		}
	}
	// nsys writes its report when the server ends.
	done := s.Stop(h.options.patient.signal, within)
	defer os.RemoveAll(s.dir) //nolint:errcheck // what is worth keeping has been attached
	if err != nil {
		return fmt.Errorf("under nsys: %w", err)
	}
	if done.Killed {
		return fmt.Errorf("under nsys: the server and nsys did not end within %v and were killed", within)
	}
	reports := matching(s.traces, "*.nsys-rep")
	if len(reports) == 0 {
		return h.noReport(a, s, p.Nsys[0], t, out)
	}
	for i, report := range reports {
		if err := h.attach(a, report, fmt.Sprintf("nsys_%d.nsys-rep", i), out); err != nil {
			return err
		}
		t.kind("nsys")
	}
	if len(t.ranks) > 0 {
		return nil // the traces of the ranks say more
	}
	return h.readNsys(ctx, reports[0], p.Nsys[0], rules, t)
}

// matching lists the files of a folder; the pattern is a constant.
func matching(dir, pattern string) []string {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		panic("host: " + err.Error())
	}
	return found
}

// noReport says why nsys left no report. What it recorded is kept where it is
// there: nsys writes a .qdstrm file first, of which an importer makes the report.
// The nsys inside of Nsight Compute has none.
func (h *Host) noReport(a *ask, s *running, nsys string, t *tracing, out worker.Emitter) error {
	last := h.log.Last(lastLines)
	recorded := matching(s.traces, "*.qdstrm")
	if len(recorded) == 0 {
		return fmt.Errorf("nsys wrote no report and recorded nothing: a recording by --capture-range=cudaProfilerApi needs a server that calls cudaProfilerStart (nsys_args or nsys_body of the profiler block); its last lines:\n%s", last)
	}
	var errs []error
	for i, file := range recorded {
		if err := h.attach(a, file, fmt.Sprintf("nsys_%d.qdstrm", i), out); err != nil {
			errs = append(errs, err)
			continue
		}
	}
	errs = append(errs, fmt.Errorf("%s recorded %s and made no report of it: its importer (QdstrmImporter) is missing or failed, as in the copy that comes with Nsight Compute; "+
		"install Nsight Systems as a whole, or make the report where it is installed, by QdstrmImporter -i nsys_0.qdstrm; its last lines:\n%s", nsys, filepath.Base(recorded[0]), last))
	return errors.Join(errs...)
}

// underNsys puts the short load on a server that nsys watches.
func (h *Host) underNsys(ctx context.Context, a *ask, s *running, within time.Duration) error {
	p := h.options.Profiler
	set, o, err := h.short(h.load(s), a)
	if err != nil {
		return err
	}
	if p == nil || len(p.NsysArgs) == 0 && len(p.NsysBody) == 0 {
		return shortLoad(ctx, set, o, within)
	}
	prof := &server.Profiler{Start: s.base + p.Start, Stop: s.base + p.Stop, Dir: s.traces, Within: within, Poll: h.poll}
	if prof.StartBody, err = body(p.NsysBody, s); err != nil {
		return err
	}
	if err := prof.Begin(ctx); err != nil {
		return err
	}
	err = shortLoad(ctx, set, o, within)
	_, endErr := prof.End(ctx, nil, 0)
	return errors.Join(err, endErr)
}

// body is what is posted to a server's profiler; nil for nothing.
func body(of []byte, s *running) ([]byte, error) {
	if len(of) == 0 || string(of) == "null" {
		return nil, nil
	}
	text, err := server.Expand(string(of), s.values)
	return []byte(text), err
}

// readNsys takes figures from a report, by nsys itself.
func (h *Host) readNsys(ctx context.Context, report, nsys string, rules trace.Rules, t *tracing) error {
	cmd := exec.CommandContext(ctx, nsys, "stats", "--report", "cuda_gpu_trace", "--format", "csv", report)
	csv, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var said tail
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("nsys stats: %w", err)
	}
	results, err := trace.ReadFrom(csv, "nsys_0.csv", trace.Options{Rules: rules})
	_, _ = io.Copy(io.Discard, csv) // so that it can end
	if failed := cmd.Wait(); failed != nil {
		return fmt.Errorf("nsys stats: %w: %s", failed, said.text)
	}
	if err != nil {
		return fmt.Errorf("nsys stats: %w", err)
	}
	for i, r := range results {
		t.ranks[i] = figures(r)
		if r.Error != "" {
			t.fail(fmt.Errorf("the report of nsys: %s", r.Error))
		}
	}
	return nil
}

// tail keeps the end of what a command says.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	const most = 1000
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(b), nil
}

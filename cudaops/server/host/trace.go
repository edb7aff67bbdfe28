package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"aicplan/cudaops/load"
	"aicplan/cudaops/server"
	"aicplan/cudaops/trace"
	"aicplan/cudaops/worker"
)

// tracing is the result of the second pass of a case.
type tracing struct {
	*ask
	within    time.Duration
	processes map[string]int // ranks by process id

	err   error // why traces are missing or incomplete
	ranks map[int]*rankFigures
	nccl  string
	kinds []string // kineto_trace, torch_et, nsys
	note  string   // why ranks were not compared
}

// traced records and evaluates the traces of a case, or returns nil if none are requested. The pass does
// not affect the times in the row.
func (h *Host) traced(ctx context.Context, a *ask) *tracing {
	if a.trace == nil || !a.trace.torch() && !a.trace.Nsys {
		return nil
	}

	t := &tracing{ask: a, within: time.Duration(a.trace.Within), processes: map[string]int{},
		ranks: map[int]*rankFigures{}}
	if a.trace.torch() {
		t.fail(h.torch(ctx, t))
	}

	if a.trace.Nsys && ctx.Err() == nil {
		t.fail(h.nsys(ctx, t))
	}

	if t.err != nil {
		h.out.Log("warn", "no complete traces of %s: %v", t.about(), t.err)
	}

	if t.note != "" {
		h.out.Log("warn", "%s", t.note)
	}

	return t
}

func (t *tracing) fail(err error) { t.err = errors.Join(t.err, err) }

// torch records traces with the server's profiler.
func (h *Host) torch(ctx context.Context, t *tracing) error {
	p := &h.options.Profiler
	if !h.options.profiled {
		return errors.New("the runtime has no profiler block that states how its server records traces")
	}

	prof, err := h.profiler(h.current, t, p.StartBody)
	if err != nil {
		return err
	}

	before, err := prof.Files()
	if err != nil {
		return err
	}

	had := h.observed()
	if err := prof.Begin(ctx); err != nil {
		return h.blame(ctx, err)
	}

	loadErr := h.shortLoad(ctx, h.current, t)
	h.out.Log(levelStatus, "server of %s: writes its traces", t.about())
	files, err := prof.End(ctx, before, max(t.gpus, 1))

	if err = errors.Join(loadErr, err); err != nil {
		return h.blame(ctx, err)
	}

	err = h.read(ctx, files, t)
	return errors.Join(err, h.observers(had, t))
}

// shortLoad runs the load of the pass on a server. It is bounded, so that a hanging server does not block the case.
func (h *Host) shortLoad(ctx context.Context, s *running, t *tracing) error {
	set, o, err := h.load(s).Settings(t.Case)
	if err != nil {
		return err
	}

	tokens := t.trace.OSL
	if tokens > int(set.OSL) && set.OSL > 0 {
		tokens = int(set.OSL)
	}

	set = few(set, t.trace.Requests, tokens)
	set.OSL = float64(tokens)
	o.Salt ^= 0x7472616365 // different prompts, so that none is cached
	bounded, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	res, err := load.Run(bounded, set, o)

	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return fmt.Errorf("the requests of the traced pass were not answered within %v", t.within)
	case err != nil:
		return err
	case res.Profiling.Summary.Succeeded == 0:
		e := res.Profiling.Summary.Errors[0]
		return fmt.Errorf("all requests of the traced pass failed; the first kind: %d %s: %s", e.Code, e.Type,
			firstLine(e.Message))
	}

	return nil
}

// blame returns the error of a failed request. If the server has ended, the error reports that.
func (h *Host) blame(ctx context.Context, err error) error {
	h.current.doubted = true
	if how := h.endOf(ctx, h.current); how != "" {
		return fmt.Errorf("the server ended with %s while traces were taken (%w)", how, err)
	}
	return err
}

// read attaches the traces of a pass and computes their figures.
func (h *Host) read(ctx context.Context, files []string, t *tracing) error {
	var all []*trace.Analysis
	var named []string // their files
	var errs []error

	for _, file := range files {
		if !server.IsTrace(file) {
			continue
		}

		results, err := whole(ctx, file, h.grown)
		if err != nil {
			errs = append(errs, err)
			continue
		}

		r := busiest(results)
		if r.Incomplete {
			errs = append(errs, fmt.Errorf("%s: %s", filepath.Base(file), r.Warning))
		}

		if r.Kernels == 0 && len(files) > 1 && r.Rank == nil {
			continue // a process without a GPU
		}

		all, named = append(all, r), append(named, file)
	}

	var compared []*trace.Analysis
	for i, rank := range numbered(all, max(t.gpus, 1)) {
		file, r := named[i], all[i]
		if t.ranks[rank] != nil {
			errs = append(errs, fmt.Errorf("two traces are of rank %d: %s is left out", rank, filepath.Base(file)))
			continue
		}

		t.ranks[rank] = figures(r)
		if r.Error != "" {
			errs = append(errs, fmt.Errorf("trace of rank %d: %s", rank, r.Error))
		}

		if r.NCCL != "" {
			t.nccl = r.NCCL
		}

		compared = append(compared, r)
		for _, pid := range r.Hosts {
			t.processes[pid] = rank
		}

		if err := h.attach(t, file, "kineto_trace_"+strconv.Itoa(rank)+ending(file)); err != nil {
			return err
		}

		t.kind("kineto_trace")
	}

	t.note = trace.Align(compared)
	if want := max(t.gpus, 1); len(t.ranks) < want {
		errs = append(errs, fmt.Errorf("there are traces of %d of %d ranks", len(t.ranks), want))
	}

	return errors.Join(errs...)
}

// numbered returns the ranks of traces in their order: as stored in the traces, or else as in their file
// names. A trace without a rank gets a free number. Replicas that number their ranks separately have
// duplicates in both. If there is one trace per GPU, they are then numbered in the order of their names.
func numbered(results []*trace.Analysis, gpus int) []int {
	told := func(of func(r *trace.Analysis) *int) (ranks []int, once bool) {
		ranks, once = make([]int, len(results)), true
		seen := map[int]bool{}

		for i, r := range results {
			if n := of(r); n != nil {
				ranks[i], once = *n, once && !seen[*n]
				seen[*n] = true
			}
		}

		free := 0
		for i, r := range results {
			if of(r) != nil {
				continue
			}
			for seen[free] {
				free++
			}
			ranks[i], seen[free] = free, true
		}

		return ranks, once
	}

	ranks, once := told(func(r *trace.Analysis) *int { return r.Rank })
	if once {
		return ranks
	}

	if byName, once := told(func(r *trace.Analysis) *int { return trace.RankOfName(r.File) }); once {
		return byName
	}

	if len(results) == gpus {
		for i := range ranks {
			ranks[i] = i
		}
	}

	return ranks
}

// allKernels is more than the number of different kernels of a trace.
const allKernels = 1 << 20

// defaultGrown is how long a truncated trace may stop growing before it is accepted as is.
const defaultGrown = 5 * time.Second

// whole reads a trace. It repeats this while the trace is truncated and still grows, because some servers
// respond before they have written all data.
func whole(ctx context.Context, file string, patience time.Duration) ([]*trace.Analysis, error) {
	for {
		before := sizeOf(file)
		results, err := trace.Read(file, trace.Options{Top: allKernels})
		if err != nil && before > 0 || err == nil && !results[0].Truncated {
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

// ending returns the file extension for a copy of a trace, determined by its content.
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

// attach attaches a file.
func (h *Host) attach(t *tracing, file, name string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()

	media := "application/json"
	switch filepath.Ext(name) {
	case ".gz":
		media = "application/gzip"
	case ".nsys-rep", ".qdstrm":
		media = "application/octet-stream"
	}

	return load.Attach(h.init, h.out, t.Seq, worker.Attachment{Name: name, MediaType: media}, from)
}

// profiler returns the profiler of a server. body is that of the request that starts it, or nil.
func (h *Host) profiler(s *running, t *tracing, body []byte) (*server.Profiler, error) {
	p := &h.options.Profiler
	prof := &server.Profiler{Start: s.base + p.Start, Stop: s.base + p.Stop, Dir: s.traces, Within: t.within, Poll: h.poll}
	if len(body) == 0 || string(body) == "null" {
		return prof, nil
	}
	text, err := server.Expand(string(body), s.values)
	prof.StartBody = []byte(text)
	return prof, err
}

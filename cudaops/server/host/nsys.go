package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"aicplan/cudaops/trace"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// nsys records a trace with a separate server under nsys, so that nsys does not slow down the measured
// server. The measured server is restarted for the next case.
func (h *Host) nsys(ctx context.Context, t *tracing) error {
	p := &h.options.Profiler
	h.end()
	command := slices.Concat(p.Nsys, h.options.Command, p.NsysArgs)

	// nsys records to the folder for temporary files before it writes the report. Use a folder that is
	// removed even if nsys fails.
	s, err := h.start(ctx, t.ask, command, false, "TMPDIR={work_dir}")
	if err != nil {
		return fmt.Errorf("under nsys: %w", err)
	}

	err = h.underNsys(ctx, s, t)
	if err == nil {
		select {
		case <-s.Done(): // ended by itself, so the recording may be incomplete
			err = fmt.Errorf("the server ended with %s while nsys recorded", s.Exit())
		default:
		}
	}

	// nsys writes its report when the server ends.
	done := s.Stop(h.options.signal, t.within)
	defer s.folder.Remove()
	if err != nil {
		return fmt.Errorf("under nsys: %w", err)
	}

	if done.Killed {
		kept, err := h.keepRecordings(s, t)
		text := "nothing of a recording was found"
		if len(kept) > 0 {
			text = "what was recorded by then is kept as " + strings.Join(kept, ", ") + ", and may be incomplete"
		}
		return errors.Join(
			err,
			fmt.Errorf(
				"under nsys: the server and nsys did not end within %v and were killed; %s; the last lines:\n%s",
				t.within,
				text,
				h.log.Last(),
			),
		)
	}

	reports := matching(s.traces, "*.nsys-rep")
	if len(reports) == 0 {
		return h.noReport(s, p.Nsys[0], t)
	}

	for i, report := range reports {
		if err := h.attach(t, report, fmt.Sprintf("nsys_%d.nsys-rep", i)); err != nil {
			return err
		}
		t.kind("nsys")
	}

	if len(t.ranks) > 0 {
		return nil // the traces of the ranks are more detailed
	}

	return h.readNsys(ctx, reports[0], p.Nsys[0], t)
}

// matching returns the files of a folder that match a pattern. It panics if the pattern is invalid.
func matching(dir, pattern string) []string {
	found, err := fileutil.Glob(dir, pattern)
	if err != nil {
		panic("host: " + err.Error())
	}
	return found
}

// noReport returns an error that explains why nsys wrote no report, and attaches the recording if there is
// one. nsys first writes a .qdstrm file, from which its importer makes the report. The nsys inside Nsight
// Compute has no importer.
func (h *Host) noReport(s *running, nsys string, t *tracing) error {
	last := h.log.Last()
	kept, err := h.keepRecordings(s, t)
	if len(kept) == 0 && err == nil {
		return fmt.Errorf(
			"nsys wrote no report and recorded nothing: a recording by --capture-range=cudaProfilerApi needs a server that "+
				"calls cudaProfilerStart (nsys_args or nsys_body of the profiler block); its last lines:\n%s",
			last,
		)
	}
	return errors.Join(
		err,
		fmt.Errorf(
			"%s recorded and made no report of it: its importer (QdstrmImporter) is missing or failed, as in the copy that "+
				"comes with Nsight Compute; "+
				"install Nsight Systems as a whole, or make the report on a machine that has it, by QdstrmImporter -i "+
				"nsys_0.qdstrm; its last lines:\n%s",
			nsys,
			last,
		),
	)
}

// keepRecordings attaches recordings without a report and returns the names of the attachments.
func (h *Host) keepRecordings(s *running, t *tracing) ([]string, error) {
	var kept []string
	var errs []error

	for i, file := range slices.Concat(matching(s.traces, "*.qdstrm"), matching(s.folder.Path, "*.qdstrm")) {
		name := fmt.Sprintf("nsys_%d.qdstrm", i)
		if err := h.attach(t, file, name); err != nil {
			errs = append(errs, err)
			continue
		}
		kept = append(kept, name)
	}
	return kept, errors.Join(errs...)
}

// underNsys runs the short load on a server under nsys.
func (h *Host) underNsys(ctx context.Context, s *running, t *tracing) error {
	p := &h.options.Profiler
	if !p.bounded() {
		return h.shortLoad(ctx, s, t)
	}

	prof, err := h.profiler(s, t, p.NsysBody)
	if err != nil {
		return err
	}

	if err := prof.Begin(ctx); err != nil {
		return err
	}

	err = h.shortLoad(ctx, s, t)
	_, endErr := prof.End(ctx, nil, 0)
	return errors.Join(err, endErr)
}

// readNsys computes the figures of a report from its export to SQLite.
func (h *Host) readNsys(ctx context.Context, report, nsys string, t *tracing) error {
	export := report + ".sqlite"
	out, err := exec.CommandContext(ctx, nsys, "export", "--type", "sqlite", "--output", export, report).CombinedOutput()
	if err != nil {
		return fmt.Errorf("nsys export: %w: %s", err, textutil.Clip(strings.TrimSpace(string(out)), 2000))
	}

	results, err := trace.Read(export, trace.Options{Top: allKernels})
	if err != nil {
		return fmt.Errorf("the report of nsys: %w", err)
	}

	// Ranks have GPUs in order. The report has the kernels of all of them in any order.
	slices.SortStableFunc(results, func(a, b *trace.Analysis) int {
		return cmp.Or(cmp.Compare(len(a.Device), len(b.Device)), cmp.Compare(a.Device, b.Device))
	})

	for i, r := range results {
		t.ranks[i] = figures(r)
		switch {
		case r.Error != "":
			t.fail(fmt.Errorf("the report of nsys: %s", r.Error))
		case r.Incomplete:
			t.fail(fmt.Errorf("the report of nsys: %s", r.Warning))
		}
	}

	t.note = trace.Align(results)
	return nil
}

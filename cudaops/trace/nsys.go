package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// table describes a supported report of nsys stats: the columns of a kernel's times, name and device. The device
// column may be missing. grid is a column that is only set for kernels, or "" if all rows are kernels.
type table struct{ start, dur, name, device, grid string }

// tables are those of the reports cuda_gpu_trace and cuda_kern_exec_trace. They are tried in order.
var tables = []table{
	{start: "Start", dur: "Duration", name: "Name", device: "Device", grid: "GrdX"},
	{start: "Kernel Start", dur: "Kernel Dur", name: "Kernel Name", device: "DevId"},
}

// looksLikeCSV reports whether a file is the output of nsys stats and not JSON: it has a header line with a
// time column.
func looksLikeCSV(head []byte) bool {
	b := bytes.TrimLeft(head, " \t\r\n\ufeff")
	if len(b) == 0 || b[0] == '{' || b[0] == '[' {
		return false
	}

	for line := range bytes.Lines(b) {
		if timed := unitPattern.Match(bytes.TrimSpace(bytes.SplitN(line, []byte(","), 2)[0])); timed ||
			bytes.Contains(line, []byte("Start (")) {
			return true
		}
	}
	return false
}

// unitPattern matches the unit at the end of a column name: "Start (ns)", or "Start(nsec)" in old versions.
var unitPattern = regexp.MustCompile(`\s*\((%|ns|nsec|us|usec|µs|ms|msec|s|sec)\)$`)

// decimals are the powers of ten from a unit to nanoseconds.
var decimals = map[string]int{"ns": 0, "nsec": 0, "us": 3, "usec": 3, "µs": 3, "ms": 6, "msec": 6, "s": 9, "sec": 9}

// columns are the column positions of a table.
type columns struct {
	table
	at   map[string]int
	unit map[string]int // decimals of the time columns
	as   map[string]string
}

// header parses a header line. c is nil if it does not belong to a supported table. named is true if it is
// the header of any report.
func header(row []string) (c *columns, named bool) {
	c = &columns{at: map[string]int{}, unit: map[string]int{}, as: map[string]string{}}
	for i, cell := range row {
		cell = strings.TrimSpace(strings.TrimPrefix(cell, "\ufeff"))
		name := cell
		if m := unitPattern.FindStringSubmatch(cell); m != nil {
			name, named = strings.TrimSuffix(cell, m[0]), true
			if d, ok := decimals[m[1]]; ok {
				c.unit[name] = d
			}
		}
		c.at[name], c.as[name] = i, cell
	}

	for _, t := range tables {
		_, start := c.unit[t.start]
		_, dur := c.unit[t.dur]
		if _, ok := c.at[t.name]; ok && start && dur {
			c.table = t
			return c, true
		}
	}

	return nil, named
}

// last returns the index of the rightmost required column.
func (c *columns) last() int {
	return max(c.at[c.name], c.at[c.dur])
}

func (c *columns) field(row []string, name string) string {
	if i, ok := c.at[name]; ok && name != "" && i < len(row) {
		return strings.TrimSpace(row[i])
	}
	return ""
}

// time returns a time of a row in nanoseconds.
func (c *columns) time(row []string, name string) (int64, error) {
	text := c.field(row, name)
	n, err := scaled([]byte(text), c.unit[name])
	if err != nil {
		return 0, fmt.Errorf("the column %s is %q, not a time", c.as[name], text)
	}
	return n, nil
}

// readNsys reads the output of "nsys stats --report cuda_gpu_trace --format csv" or cuda_kern_exec_trace. It
// skips progress messages before the header, tables of other reports, and rows of copies and memsets.
func readNsys(r io.Reader, rec *recording) error {
	cr := csv.NewReader(r)
	cr.FieldsPerRecord, cr.LazyQuotes, cr.ReuseRecord = -1, true, true
	var cols *columns // current table, nil between tables
	var first *table  // that was read
	other := ""       // header of an unsupported report
	short := ""       // error if the last line has too few columns

	for {
		row, err := cr.Read()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			if cols == nil {
				return fmt.Errorf("CSV: %w", err)
			}
			rec.cut = fmt.Sprintf("reading stopped: %v", err)
			return nil
		}

		line, _ := cr.FieldPos(0)
		if c, named := header(row); named {
			cols, short = nil, ""
			switch {
			case c == nil:
				other = strings.Join(row, ",")
			case first == nil || *first == c.table: // another report has the same kernels
				cols, first = c, &c.table
			}
			continue
		}

		if cols == nil {
			continue
		}

		if len(row) <= cols.last() {
			if len(row) == 1 && note(row[0]) {
				cols = nil
				continue
			}
			short = fmt.Sprintf("line %d has %d of %d columns: the file ends in the middle", line, len(row),
				cols.last()+1)
			continue
		}

		rec.events++
		if err := cols.take(row, rec); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}

	if rec.cut = short; first != nil {
		return nil
	}

	there := ""
	if other != "" {
		there = ": there are " + other
	}
	return fmt.Errorf(
		"no line of column names with Start (ns), Duration (ns) and Name%s; make the file with nsys stats --report "+
			"cuda_gpu_trace --format csv",
		there,
	)
}

// note reports whether nsys stats prints such a line between tables.
func note(line string) bool {
	for _, start := range []string{"Processing [", "Generating ", "Exporting ", "NOTICE", "SKIPPED", "WARNING", "** "} {
		if strings.HasPrefix(strings.TrimSpace(line), start) {
			return true
		}
	}
	return false
}

// take records the kernel of a row.
func (c *columns) take(row []string, rec *recording) error {
	name := c.field(row, c.name)
	// Kernels have a grid. Copies and memsets have a memory kind or no grid.
	if strings.HasPrefix(name, "[CUDA mem") || c.grid != "" && c.field(row, c.grid) == "" {
		return nil
	}

	dur, err := c.time(row, c.dur)
	if err != nil {
		return err
	}

	start, err := c.time(row, c.start)
	if err != nil {
		return err
	}

	if !usable(start, dur) {
		rec.skipped++
		return nil
	}

	d := rec.device(origin{device: c.field(row, c.device)})
	launch := launchOf([]byte(c.field(row, "Strm")), []byte(c.field(row, "CorrId")))
	rec.add(d, []byte(name), interval{start, start + dur}, launch, collective{})
	return nil
}

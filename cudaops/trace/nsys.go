package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// table is a report of nsys stats that can be read.
type table struct {
	report string
	// The columns of a kernel's times; of its name; of its device, which may be
	// missing.
	start, dur, name, device string
	// grid is a column that only kernels fill in; "" where all rows are kernels.
	grid string
	// count is the column of how often a kernel ran: of a summary, which has no
	// starts.
	count string
	// kind is a column that must have the value of, where it is there.
	kind, of string
}

// tables are tried in order.
var tables = []table{
	{report: "cuda_gpu_trace", start: "Start", dur: "Duration", name: "Name", device: "Device", grid: "GrdX"},
	{report: "cuda_kern_exec_trace", start: "Kernel Start", dur: "Kernel Dur", name: "Kernel Name", device: "DevId"},
	{report: "cuda_gpu_kern_sum", dur: "Total Time", count: "Instances", name: "Name"},
	{report: "cuda_gpu_sum", dur: "Total Time", count: "Instances", name: "Operation", kind: "Category", of: "CUDA_KERNEL"},
}

// looksLikeCSV tells the output of nsys stats from JSON: it has a line of column
// names with a time.
func looksLikeCSV(head []byte) bool {
	b := bytes.TrimLeft(head, " \t\r\n\ufeff")
	if len(b) == 0 || b[0] == '{' || b[0] == '[' {
		return false
	}
	for line := range bytes.Lines(b) {
		if timed := unitPattern.Match(bytes.TrimSpace(bytes.SplitN(line, []byte(","), 2)[0])); timed || bytes.Contains(line, []byte("Start (")) {
			return true
		}
	}
	return false
}

// unitPattern is the unit that a column name ends with: "Start (ns)", and of old
// versions "Start(nsec)".
var unitPattern = regexp.MustCompile(`\s*\((%|ns|nsec|us|usec|µs|ms|msec|s|sec)\)$`)

// decimals is how far a unit is from nanoseconds, in powers of ten.
var decimals = map[string]int{"ns": 0, "nsec": 0, "us": 3, "usec": 3, "µs": 3, "ms": 6, "msec": 6, "s": 9, "sec": 9}

// columns is where a table has what.
type columns struct {
	table
	at   map[string]int
	unit map[string]int // decimals of the columns of times
	as   map[string]string
}

// header reads a line of column names; nil when it is none of a table that can be
// read. named says whether it is one of some report.
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
		ok := true
		for _, need := range []string{t.start, t.dur, t.name, t.count, t.kind} {
			if _, there := c.at[need]; need != "" && !there {
				ok = false
			}
		}
		for _, time := range []string{t.start, t.dur} {
			if _, there := c.unit[time]; time != "" && !there {
				ok = false
			}
		}
		if ok {
			c.table = t
			return c, true
		}
	}
	return nil, named
}

// last is the rightmost column that is needed.
func (c *columns) last() int {
	return max(c.at[c.name], c.at[c.dur])
}

func (c *columns) field(row []string, name string) string {
	if i, ok := c.at[name]; ok && name != "" && i < len(row) {
		return strings.TrimSpace(row[i])
	}
	return ""
}

// time is a time of a row in nanoseconds.
func (c *columns) time(row []string, name string) (int64, error) {
	text := c.field(row, name)
	d := c.unit[name]
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && d == 0 {
		return n, nil
	}
	if len(text) <= 40 && exponent([]byte(text)) == 0 {
		if r, ok := new(big.Rat).SetString(text); ok {
			r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d)), nil)))
			if q := new(big.Int).Div(r.Num(), r.Denom()); q.IsInt64() {
				return q.Int64(), nil
			}
		}
	}
	return 0, fmt.Errorf("the column %s is %q, not a time", c.as[name], text)
}

// readNsys reads what "nsys stats --report cuda_gpu_trace --format csv" prints, and
// the reports like it. Lines before the column names (nsys says what it does
// there) are passed over, and tables that say the same as one before. Rows of
// copies and memsets are no kernels.
func readNsys(r io.Reader, rec *recording) error {
	cr := csv.NewReader(r)
	cr.FieldsPerRecord, cr.LazyQuotes, cr.ReuseRecord = -1, true, true
	var cols *columns // of the table that is being read; nil between tables
	report := ""      // that was read
	other := ""       // the columns of a report that cannot be read
	short := ""       // the last line has too few columns
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
			case report == "" || report == c.report:
				cols, report = c, c.report
			case rec.summary && c.count == "": // it says more
				cols, report = c, c.report
				rec.forget()
			}
			rec.summary = report != "" && (cols != nil && cols.count != "" || cols == nil && rec.summary)
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
			short = fmt.Sprintf("line %d has %d of %d columns: the file ends in the middle", line, len(row), cols.last()+1)
			continue
		}
		rec.events++
		if err := cols.take(row, rec); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	rec.cut = short
	if report != "" {
		return nil
	}
	there := ""
	if other != "" {
		there = ": there are " + other
	}
	return fmt.Errorf("no line of column names with Start (ns), Duration (ns) and Name%s; make the file with nsys stats --report cuda_gpu_trace --format csv", there)
}

// note says whether a line is one that nsys stats prints between tables.
func note(line string) bool {
	for _, start := range []string{"Processing [", "Generating ", "Exporting ", "NOTICE", "SKIPPED", "WARNING", "** "} {
		if strings.HasPrefix(strings.TrimSpace(line), start) {
			return true
		}
	}
	return false
}

// forget drops the kernels of a table, for one that says more.
func (r *recording) forget() {
	r.devices, r.order, r.skipped = map[string]*device{}, nil, 0
}

// take notes the kernel, or the kernels, of a row.
func (c *columns) take(row []string, rec *recording) error {
	name := c.field(row, c.name)
	// Kernels have a grid; copies and memsets have memory kinds or no grid.
	if strings.HasPrefix(name, "[CUDA mem") || c.grid != "" && c.field(row, c.grid) == "" || c.kind != "" && c.field(row, c.kind) != c.of {
		return nil
	}
	dur, err := c.time(row, c.dur)
	if err != nil {
		return err
	}
	if c.count != "" {
		n, err := strconv.ParseInt(c.field(row, c.count), 10, 64)
		if err != nil || n < 1 || dur < 0 {
			return fmt.Errorf("the columns %s and %s are %q and %q, not a number of kernels and their time", c.as[c.count], c.as[c.dur], c.field(row, c.count), c.field(row, c.dur))
		}
		rec.addMany(rec.device(""), []byte(name), n, dur)
		return nil
	}
	start, err := c.time(row, c.start)
	if err != nil {
		return err
	}
	if !usable(start, dur) {
		rec.skipped++
		return nil
	}
	mark := markOf([]byte(c.field(row, "Strm")), []byte(c.field(row, "CorrId")))
	rec.add(rec.device(c.field(row, c.device)), []byte(name), interval{start, start + dur}, mark, detail{}, "")
	return nil
}

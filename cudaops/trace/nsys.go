package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// looksLikeCSV tells the output of nsys stats from JSON: it has a line of
// column names with a start and a duration.
func looksLikeCSV(head []byte) bool {
	b := bytes.TrimLeft(head, " \t\r\n\ufeff")
	if len(b) == 0 || b[0] == '{' || b[0] == '[' {
		return false
	}
	return bytes.Contains(b, []byte("Start (ns)")) && bytes.Contains(b, []byte("Name"))
}

// readNsys reads what "nsys stats --report cuda_gpu_trace --format csv" prints.
// Lines before the column names (nsys says what it does there) are passed over.
// Rows of copies and memsets are no kernels.
func readNsys(r io.Reader, rec *recording) error {
	cr := csv.NewReader(r)
	cr.FieldsPerRecord, cr.LazyQuotes, cr.ReuseRecord = -1, true, true
	var cols map[string]int
	for {
		row, err := cr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("CSV: %w", err)
		}
		if cols == nil {
			if c := header(row); c != nil {
				cols = c
			}
			continue
		}
		line, _ := cr.FieldPos(0)
		if len(row) <= cols["Name"] {
			rec.cut = fmt.Sprintf("line %d has %d of %d columns: the file ends in the middle", line, len(row), cols["Name"]+1)
			continue
		}
		rec.events++
		if err := nsysRow(row, cols, rec); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	if cols == nil {
		return fmt.Errorf("no line of column names with Start (ns), Duration (ns) and Name; make the file with nsys stats --report cuda_gpu_trace --format csv")
	}
	return nil
}

// header returns the place of each column, nil when row is no header.
func header(row []string) map[string]int {
	cols := map[string]int{}
	for i, name := range row {
		cols[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	for _, need := range []string{"Start (ns)", "Duration (ns)", "Name"} {
		if _, ok := cols[need]; !ok {
			return nil
		}
	}
	return cols
}

func nsysRow(row []string, cols map[string]int, rec *recording) error {
	field := func(name string) string {
		if i, ok := cols[name]; ok && i < len(row) {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	name := field("Name")
	// Kernels have a grid; copies and memsets have memory kinds or no grid.
	if strings.HasPrefix(name, "[CUDA mem") || field("GrdX") == "" {
		return nil
	}
	start, err := strconv.ParseInt(field("Start (ns)"), 10, 64)
	if err != nil {
		return fmt.Errorf("the column Start (ns) is %q, not a whole number", field("Start (ns)"))
	}
	dur, err := strconv.ParseInt(field("Duration (ns)"), 10, 64)
	if err != nil || dur < 0 || start+dur < start {
		return fmt.Errorf("the column Duration (ns) is %q, not a length of time", field("Duration (ns)"))
	}
	rec.add(rec.device(field("Device")), []byte(name), interval{start, start + dur}, nil)
	return nil
}

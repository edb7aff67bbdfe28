// Package perf reads and writes perf files: CSV (*_perf.txt) and Parquet
// (*_perf.parquet). What it writes depends on the data alone: the same rows,
// in any order, make the same bytes.
package perf

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/atomic"
	"aicplan/sink/table"
)

// Layout is the shape of a perf file.
type Layout struct {
	// Columns are written in this order; nil means all, as they are.
	Columns []string
	// SortBy orders the rows, most significant column first, each ascending
	// (table.SortIndices has the rules). Rows that are equal in all of them are
	// ordered by the remaining columns, so the order of the input never shows.
	// Nil keeps the input's order.
	SortBy []string
}

// arrange brings rec to the layout.
func (l Layout) arrange(rec arrow.Record) (arrow.Record, error) {
	if l.Columns != nil {
		var err error
		if rec, err = table.Select(rec, l.Columns...); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// order returns the row order, or nil to keep it.
func (l Layout) order(rec arrow.Record) ([]int, error) {
	if l.SortBy == nil {
		return nil, nil
	}
	keys := table.Asc(l.SortBy...)
	order, ties, err := table.SortIndicesTies(rec, keys...)
	if err != nil || !ties {
		return order, err
	}
	seen := map[string]bool{}
	for _, n := range l.SortBy {
		seen[n] = true
	}
	for _, n := range table.Names(rec) {
		if !seen[n] {
			keys = append(keys, table.SortKey{Name: n})
		}
	}
	return table.SortIndices(rec, keys...)
}

// WriteCSV writes rec as CSV: a header, one line per row, "\n" behind each.
// Integers are plain, floats have the fewest digits that read back as the same
// float (Go's 'g'), booleans are true and false, null is empty. A field is
// quoted, as RFC 4180 has it, only when it holds a comma, a quote or a line
// break, or when it is the empty string, which sets it apart from null.
func WriteCSV(w io.Writer, rec arrow.Record, l Layout) error {
	rec, err := l.arrange(rec)
	if err != nil {
		return err
	}
	order, err := l.order(rec)
	if err != nil {
		return err
	}
	line, err := newLine(rec)
	if err != nil {
		return err
	}
	const flushAt = 1 << 16
	buf := make([]byte, 0, flushAt+1<<12)
	for i, name := range table.Names(rec) {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendText(buf, name)
	}
	buf = append(buf, '\n')
	rows := make([]int, 0, block)
	for first := 0; first < int(rec.NumRows()); first += block {
		rows = rows[:min(block, int(rec.NumRows())-first)]
		for i := range rows {
			if rows[i] = first + i; order != nil {
				rows[i] = order[first+i]
			}
		}
		line.load(rows)
		for i := range rows {
			buf = line.append(buf, i)
			if len(buf) >= flushAt {
				if _, err := w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
	}
	_, err = w.Write(buf)
	return err
}

// WriteCSVFile writes path atomically and returns the digest of the bytes,
// "sha256:<hex>".
func WriteCSVFile(path string, rec arrow.Record, l Layout) (string, error) {
	return alone(func(b *atomic.Batch) (string, error) { return StageCSV(b, path, rec, l) })
}

// StageCSV is WriteCSVFile as a part of a batch.
func StageCSV(b *atomic.Batch, path string, rec arrow.Record, l Layout) (string, error) {
	return stage(b, path, func(w io.Writer) error { return WriteCSV(w, rec, l) })
}

// alone writes a batch of one file.
func alone(stage func(*atomic.Batch) (string, error)) (string, error) {
	var b atomic.Batch
	defer b.Discard()
	digest, err := stage(&b)
	if err != nil {
		return "", err
	}
	return digest, b.Commit()
}

// stage keeps the message of a failed disk and adds the path to others.
func stage(b *atomic.Batch, path string, fill func(io.Writer) error) (string, error) {
	var content error
	digest, err := b.Stage(path, func(w io.Writer) error {
		tracked := &tracker{w: w}
		content = fill(tracked)
		if tracked.err != nil {
			content = nil
			return tracked.err
		}
		return content
	})
	if content != nil {
		return "", fmt.Errorf("cannot write %s: %w", path, content)
	}
	return digest, err
}

// tracker remembers the error of the underlying writer.
type tracker struct {
	w   io.Writer
	err error
}

func (t *tracker) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if err != nil {
		t.err = err
	}
	return n, err
}

// Package series reads and writes what was sampled over time beside a case: one
// Parquet file a case, kept as an attachment of its rows. Every series has the
// column timestamp_ns; its other columns are its own. Series of several cases
// are joined by the ids of the cases.
package series

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/perf"
	"aicplan/sink/table"
)

// MediaType is that of attachments which are series.
const MediaType = "application/vnd.apache.parquet"

// Columns that series have.
const (
	Time = "timestamp_ns" // int64, nanoseconds since the Unix epoch, never null, ascending
	Case = "case_id"      // text; only joined series have it
)

// Write writes a series as Parquet (see perf.WriteParquet), its rows in the
// order of time. It refuses a record that is no series.
func Write(w io.Writer, rec arrow.Record) error {
	rec, err := normal(rec)
	if err != nil {
		return err
	}
	if table.Has(rec, Case) {
		return fmt.Errorf("a series of one case has no column %q", Case)
	}
	return perf.WriteParquet(w, rec)
}

// Encode returns the bytes that Write writes. They depend on the data only.
func Encode(rec arrow.Record) ([]byte, error) {
	var out bytes.Buffer
	if err := Write(&out, rec); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Read reads the bytes of a series, of any writer of Parquet. Rows come in the
// order of time; those of one moment in the order of the file.
func Read(data []byte) (arrow.Record, error) {
	rec, err := perf.ReadParquet(data)
	if err != nil {
		return nil, err
	}
	return normal(rec)
}

// normal checks the column of time and brings the rows to its order.
func normal(rec arrow.Record) (arrow.Record, error) {
	rec, err := table.Normal(rec)
	if err != nil {
		return nil, err
	}
	times, err := table.Int64s(rec, Time)
	if err != nil {
		return nil, fmt.Errorf("this is no series: %w", err)
	}
	if n := times.Nulls(); n > 0 {
		return nil, fmt.Errorf("this is no series: %d rows have no %s", n, Time)
	}
	if slices.IsSorted(times.Values) {
		return rec, nil
	}
	order, err := table.SortIndices(rec, table.Asc(Time)...)
	if err != nil {
		return nil, err
	}
	return table.Take(rec, order), nil
}

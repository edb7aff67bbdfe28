package perf

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// A series is what was sampled over time beside one case: a Parquet file that is an
// attachment of the case's rows. SeriesType is the media type of the attachment.
const SeriesType = "application/vnd.apache.parquet"

// SeriesTime is the column that every series has: int64, nanoseconds since the Unix epoch,
// never null, ascending. The other columns differ between series.
const SeriesTime = "timestamp_ns"

// EncodeSeries returns a series as Parquet, its rows in the order of time. The bytes depend
// on the data only. It reports an error for a record that is not a series.
func EncodeSeries(rec arrow.Record) ([]byte, error) {
	rec, err := normalSeries(rec)
	if err != nil {
		return nil, err
	}

	var out bytes.Buffer
	err = WriteParquet(&out, rec)
	return out.Bytes(), err
}

// ReadSeries reads the Parquet bytes of a series. Its rows are in the order of time; rows
// of one moment keep their order.
func ReadSeries(data []byte) (arrow.Record, error) {
	rec, err := ReadParquet(data)
	if err != nil {
		return nil, err
	}

	return normalSeries(rec)
}

// normalSeries checks the column of time and sorts the rows by it.
func normalSeries(rec arrow.Record) (arrow.Record, error) {
	times, err := table.Int64s(rec, SeriesTime)
	if err != nil {
		return nil, fmt.Errorf("not a series: %w", err)
	}
	if n := times.Nulls(); n > 0 {
		return nil, fmt.Errorf("not a series: %d rows have no %s", n, SeriesTime)
	}
	if slices.IsSorted(times.Values) {
		return rec, nil
	}

	return table.Sort(rec, SeriesTime)
}

package perf

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet/file"
)

var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

const lfsHint = "this is a git-lfs pointer, not the data: fetch it with git lfs pull"

// noParquet returns an error for files of other formats and cut files.
func noParquet(data []byte) error {
	magic := []byte("PAR1")
	switch begins, ends := bytes.HasPrefix(data, magic), bytes.HasSuffix(data, magic); {
	case bytes.HasPrefix(data, lfsPointer):
		return errors.New(lfsHint)
	case len(data) == 0:
		return errors.New("the file is empty")
	case begins && (!ends || len(data) < 12): // 4 for each mark, 4 for the length of what is before the last
		return fmt.Errorf(
			"the file is cut off: it begins as Parquet and does not end as such, after %d bytes; copy it again",
			len(data))
	case !begins:
		return errors.New("this is no Parquet file; the name of a CSV file ends in .csv or .txt")
	}

	return nil
}

// ReadParquet reads a Parquet file of any writer as one record.
func ReadParquet(data []byte) (arrow.Record, error) {
	if err := noParquet(data); err != nil {
		return nil, err
	}

	type result struct {
		rec arrow.Record
		err error
	}
	done := make(chan result, 1)
	go func() {
		rec, err := readParquet(data)
		done <- result{rec, err}
	}()

	limit := readTime + time.Duration(len(data))*time.Microsecond
	select {
	case r := <-done:
		return r.rec, r.err
	case <-time.After(limit):
		return nil, fmt.Errorf("reading Parquet: damaged file: the reader did not finish within %s", limit)
	}
}

// readTime is how long the smallest file may take. Arrow's decoders do not return if a
// page ends early. A test shortens it.
var readTime = 30 * time.Second

func readParquet(data []byte) (rec arrow.Record, err error) {
	defer func() {
		// The reader trusts sizes and offsets in the file.
		if r := recover(); r != nil {
			rec, err = nil, fmt.Errorf("reading Parquet: damaged file: %v", r)
		}
	}()
	pf, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading Parquet: %w", err)
	}
	defer pf.Close()

	rec, err = readColumns(pf)
	if err != nil &&
		(strings.Contains(err.Error(), "unimplemented") || strings.Contains(err.Error(), "unsupported data encoding")) {
		return nil, fmt.Errorf(
			"reading Parquet: %w; write it with zstd, snappy or gzip and with plain or dictionary encoding", err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Parquet: %w", err)
	}

	return rec, nil
}

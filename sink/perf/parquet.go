package perf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet/file"

	"aicplan/sink/atomic"
	"aicplan/sink/table"
)

// ErrLFSPointer says that a file is not the data but git-lfs's note of where
// it is.
var ErrLFSPointer = errors.New(lfsHint)

var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

const lfsHint = "this is a git-lfs pointer, not the data: fetch it with git lfs pull"

// WriteParquet writes rec as Parquet with the types INT64, DOUBLE, BYTE_ARRAY
// (UTF8) and BOOLEAN, every column optional, dictionary encoded where that
// pays, compressed with zstd, in one row group.
func WriteParquet(w io.Writer, rec arrow.Record, l Layout) error {
	rec, err := l.arrange(rec)
	if err != nil {
		return err
	}
	order, err := l.order(rec)
	if err != nil {
		return err
	}
	if rec, err = table.Normal(rec); err != nil {
		return err
	}
	if order != nil {
		rec = table.Take(rec, order)
	}
	return writeRowGroup(w, rec)
}

// WriteParquetFile writes path atomically and returns the digest of the
// bytes, "sha256:<hex>".
func WriteParquetFile(path string, rec arrow.Record, l Layout) (string, error) {
	return alone(func(b *atomic.Batch) (string, error) { return StageParquet(b, path, rec, l) })
}

// StageParquet is WriteParquetFile as a part of a batch.
func StageParquet(b *atomic.Batch, path string, rec arrow.Record, l Layout) (string, error) {
	return stage(b, path, func(w io.Writer) error { return WriteParquet(w, rec, l) })
}

// ReadParquetFile reads a Parquet file of any writer as one record in normal
// form (table.Normal).
func ReadParquetFile(path string) (arrow.Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, atomic.Explain("read", path, err)
	}
	rec, err := ReadParquet(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rec, nil
}

// noParquet recognises what is often found in place of a Parquet file.
func noParquet(data []byte) error {
	magic := []byte("PAR1")
	switch begins, ends := bytes.HasPrefix(data, magic), bytes.HasSuffix(data, magic); {
	case bytes.HasPrefix(data, lfsPointer):
		return ErrLFSPointer
	case len(data) == 0:
		return errors.New("the file is empty")
	case bytes.HasPrefix(data, []byte("PARE")):
		return errors.New("this Parquet file is encrypted; write it without encryption")
	case begins && (!ends || len(data) < 12): // 4 for each mark, 4 for the length of what is before the last
		return fmt.Errorf("the file is cut off: it begins as Parquet and does not end as such, after %d bytes; copy it again", len(data))
	case !begins && ends:
		return errors.New("the beginning of this Parquet file is missing; copy it again")
	case !begins:
		return errors.New("this is no Parquet file; the name of a CSV file ends in .csv or .txt")
	}
	return nil
}

// ReadParquet is ReadParquetFile for bytes. Damaged data is an error.
func ReadParquet(data []byte) (rec arrow.Record, err error) {
	if err := noParquet(data); err != nil {
		return nil, err
	}
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
	switch {
	case err != nil && (strings.Contains(err.Error(), "unimplemented") || strings.Contains(err.Error(), "unsupported data encoding")):
		return nil, fmt.Errorf("reading Parquet: %w; write it with zstd, snappy or gzip and with plain or dictionary encoding", err)
	case err != nil:
		return nil, fmt.Errorf("reading Parquet: %w", err)
	}
	return rec, nil
}

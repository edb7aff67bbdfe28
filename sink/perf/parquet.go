package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

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
	props := parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDictionaryDefault(true),
		parquet.WithMaxRowGroupLength(max(rec.NumRows(), 1)),
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithCreatedBy("aicplan"),
	)
	fw, err := pqarrow.NewFileWriter(rec.Schema(), w, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	if err := fw.Write(rec); err != nil {
		return errors.Join(fmt.Errorf("writing Parquet: %w", err), fw.Close())
	}
	if err := fw.Close(); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	return nil
}

// WriteParquetFile writes path atomically and returns the digest of the
// bytes, "sha256:<hex>".
func WriteParquetFile(path string, rec arrow.Record, l Layout) (string, error) {
	return writeFile(path, func(w io.Writer) error { return WriteParquet(w, rec, l) })
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

// ReadParquet is ReadParquetFile for bytes. Damaged data is an error.
func ReadParquet(data []byte) (rec arrow.Record, err error) {
	if bytes.HasPrefix(data, lfsPointer) {
		return nil, ErrLFSPointer
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
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, fmt.Errorf("reading Parquet: %w", err)
	}
	tbl, err := fr.ReadTable(context.Background())
	if err != nil {
		return nil, fmt.Errorf("reading Parquet: %w", err)
	}
	cols := make([]arrow.Array, tbl.NumCols())
	for i := range cols {
		chunks := tbl.Column(i).Data().Chunks()
		switch len(chunks) {
		case 0:
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, tbl.Column(i).DataType(), 0)
		case 1:
			cols[i] = chunks[0]
		default:
			if cols[i], err = array.Concatenate(chunks, memory.DefaultAllocator); err != nil {
				return nil, fmt.Errorf("reading Parquet: column %q: %w", tbl.Column(i).Name(), err)
			}
		}
	}
	rec, err = table.Normal(array.NewRecord(tbl.Schema(), cols, tbl.NumRows()))
	if err != nil {
		return nil, fmt.Errorf("reading Parquet: %w", err)
	}
	return rec, nil
}

package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// WriteIPC writes rec as an Arrow IPC file (the random access format, also known as Feather V2), compressed with
// zstd. The bytes depend only on the data.
func WriteIPC(w io.Writer, rec arrow.Record) error {
	fw, err := ipc.NewFileWriter(&tell{w: w}, ipc.WithSchema(arrow.NewSchema(fieldsOf(Names(rec), rec.Columns()), nil)),
		ipc.WithAllocator(mem), ipc.WithZstd(), ipc.WithCompressConcurrency(compressors(rec.NumRows())))
	if err != nil {
		return fmt.Errorf("writing Arrow: %w", err)
	}

	// The writer keeps a whole compressed batch in memory.
	rows := rec.NumRows()
	for first := int64(0); first < max(rows, 1); first += batchRows {
		batch, err := Normal(rec.NewSlice(first, min(first+batchRows, rows)))
		if err == nil {
			err = fw.Write(batch)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("writing Arrow: %w", err), fw.Close())
		}
	}

	if err := fw.Close(); err != nil {
		return fmt.Errorf("writing Arrow: %w", err)
	}
	return nil
}

// compressors returns how many columns of a table with rows rows are compressed at a time. Each compressor takes some
// megabytes, which cost more time than to compress the columns of a small table one after the other.
func compressors(rows int64) int {
	if rows < smallTable {
		return 1
	}
	return min(runtime.GOMAXPROCS(0), maxCompressors)
}

const (
	// smallTable is the number of rows from which columns are compressed at the same time.
	smallTable     = 1 << 13
	maxCompressors = 4
)

// batchRows is how many rows a batch of a file has at most.
const batchRows = 1 << 18

// tell implements the only seek of the writer: reading the position.
type tell struct {
	w   io.Writer
	pos int64
}

func (t *tell) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.pos += int64(n)
	return n, err
}

func (t *tell) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.ErrUnsupported
	}

	return t.pos, nil
}

// EncodeIPC returns the bytes that WriteIPC writes.
func EncodeIPC(rec arrow.Record) ([]byte, error) {
	var buf bytes.Buffer
	if err := WriteIPC(&buf, rec); err != nil {
		return nil, err
	}

	return buf.Bytes(), nil
}

// DecodeIPC reads a file of WriteIPC as one record in normal form. The format has no checksums, and Arrow trusts the
// sizes in a file, so callers must verify the digest of data first. It returns an error for files that are cut.
func DecodeIPC(data []byte) (rec arrow.Record, err error) {
	defer func() {
		// The reader trusts the offsets in a file.
		if r := recover(); r != nil {
			rec, err = nil, fmt.Errorf("reading Arrow: damaged file: %v", r)
		}
	}()

	fr, err := ipc.NewFileReader(bytes.NewReader(data), ipc.WithAllocator(mem))
	if err != nil {
		return nil, fmt.Errorf("reading Arrow: %w", err)
	}
	defer fr.Close()

	parts := make([][]arrow.Array, fr.Schema().NumFields())
	rows := int64(0)
	for i := range fr.NumRecords() {
		r, err := fr.RecordAt(i)
		if err != nil {
			return nil, fmt.Errorf("reading Arrow: batch %d: %w", i, err)
		}

		rows += r.NumRows()
		for c := range parts {
			parts[c] = append(parts[c], r.Column(c))
		}
	}

	cols := make([]arrow.Array, len(parts))
	for i, f := range fr.Schema().Fields() {
		if len(parts[i]) == 0 {
			parts[i] = []arrow.Array{array.MakeArrayOfNull(mem, f.Type, 0)}
		}
		cols[i] = parts[i][0]
		if len(parts[i]) > 1 {
			if cols[i], err = array.Concatenate(parts[i], mem); err != nil {
				return nil, fmt.Errorf("reading Arrow: column %q: %w", f.Name, err)
			}
		}
		parts[i] = nil // the column has them
	}

	return Normal(array.NewRecord(fr.Schema(), cols, rows))
}

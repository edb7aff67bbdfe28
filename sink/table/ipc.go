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

// Compression of IPC files.
type Compression int

// The compressions. Zstd is the default of everything that is stored.
const (
	Zstd Compression = iota
	Uncompressed
)

// WriteIPC writes rec as an Arrow IPC file (the random access format, also
// known as Feather V2). The bytes depend only on the data: rec is brought to
// its normal form first.
func WriteIPC(w io.Writer, rec arrow.Record, c Compression) error {
	rec, err := Normal(rec)
	if err != nil {
		return err
	}
	opts := []ipc.Option{ipc.WithSchema(rec.Schema()), ipc.WithAllocator(mem)}
	if c == Zstd {
		opts = append(opts, ipc.WithZstd(), ipc.WithCompressConcurrency(min(runtime.GOMAXPROCS(0), compressors)))
	}
	fw, err := ipc.NewFileWriter(&tell{w: w}, opts...)
	if err != nil {
		return fmt.Errorf("writing Arrow: %w", err)
	}
	// The writer keeps a whole compressed batch in memory.
	rows := rec.NumRows()
	for first := int64(0); first < max(rows, 1); first += batchRows {
		batch := rec
		if rows > batchRows {
			batch = rec.NewSlice(first, min(first+batchRows, rows))
		}
		if err := fw.Write(batch); err != nil {
			return errors.Join(fmt.Errorf("writing Arrow: %w", err), fw.Close())
		}
	}

	if err := fw.Close(); err != nil {
		return fmt.Errorf("writing Arrow: %w", err)
	}

	return nil
}

// compressors is how many columns are compressed at a time at most; each takes some
// megabytes.
const compressors = 4

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
func EncodeIPC(rec arrow.Record, c Compression) ([]byte, error) {
	var buf bytes.Buffer
	if err := WriteIPC(&buf, rec, c); err != nil {
		return nil, err
	}

	return buf.Bytes(), nil
}

// DecodeIPC reads an Arrow IPC file of any writer as one record in normal form. It returns
// an error for files that are cut or visibly damaged. The format has no checksums, so
// callers verify the digest of data from untrusted places first.
func DecodeIPC(data []byte) (arrow.Record, error) {
	var schema *arrow.Schema
	var parts [][]arrow.Array
	rows := int64(0)
	err := eachBatch(bytes.NewReader(data), len(data), func(s *arrow.Schema) { schema, parts = s, make([][]arrow.Array, s.NumFields()) }, func(r arrow.Record) error {
		rows += r.NumRows()
		for c := range parts {
			parts[c] = append(parts[c], r.Column(c))
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	return guarded(func() (arrow.Record, error) { return join(schema, parts, rows) })
}

// DecodeIPCParts is DecodeIPC without the whole file or all rows in memory: it calls take
// with each batch, in order and in normal form.
func DecodeIPCParts(file ipc.ReadAtSeeker, size int, take func(arrow.Record) error) error {
	return eachBatch(file, size, func(*arrow.Schema) {}, func(r arrow.Record) error {
		part, err := guarded(func() (arrow.Record, error) { return Normal(r) })
		if err != nil {
			return err
		}

		return take(part)
	})
}

// eachBatch reads the batches of a file.
func eachBatch(file ipc.ReadAtSeeker, size int, begin func(*arrow.Schema), take func(arrow.Record) error) error {
	fr, err := guarded(func() (*ipc.FileReader, error) {
		return ipc.NewFileReader(file, ipc.WithAllocator(frugal{limit: sizeLimit(size)}))
	})
	if err != nil {
		return fmt.Errorf("reading Arrow: %w", err)
	}
	defer fr.Close()
	begin(fr.Schema())
	for i := range fr.NumRecords() {
		r, err := guarded(func() (arrow.Record, error) {
			r, err := fr.RecordAt(i)
			if err != nil {
				return nil, fmt.Errorf("reading Arrow: batch %d: %w", i, err)
			}
			if err := covered(r); err != nil {
				return nil, fmt.Errorf("reading Arrow: batch %d: damaged file: %w", i, err)
			}
			return r, nil
		})
		if err != nil {
			return err
		}
		if err := take(r); err != nil {
			return err
		}
	}

	return nil
}

// guarded turns the panics of the reader into errors: it trusts the offsets in a
// file.
func guarded[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading Arrow: damaged file: %v", r)
		}
	}()
	return f()
}

// frugal refuses buffers that the file cannot fill: a damaged size would end
// the process, which no recover can stop.
type frugal struct{ limit int }

// sizeLimit is the largest buffer that n bytes can decompress to: zstd makes
// at most 128 KiB of 4 bytes.
func sizeLimit(n int) int { return min(n<<15+1<<20, 4<<30) }

func (f frugal) Allocate(size int) []byte {
	f.check(size)
	return mem.Allocate(size)
}

func (f frugal) Reallocate(size int, b []byte) []byte {
	f.check(size)
	return mem.Reallocate(size, b)
}

func (f frugal) Free(b []byte) { mem.Free(b) }

func (f frugal) check(size int) {
	if size < 0 || size > f.limit {
		panic(fmt.Sprintf("a buffer of %d bytes", size))
	}
}

// covered checks that the buffers of each column reach as far as its rows.
func covered(rec arrow.Record) error {
	for i, col := range rec.Columns() {
		bufs := col.Data().Buffers()
		n := col.Len()
		if n == 0 {
			continue
		}
		short := func(buf, need int) bool {
			return buf >= len(bufs) || bufs[buf] == nil || bufs[buf].Len() < need
		}
		bits := (n + 7) / 8
		missing := col.NullN() > 0 && col.NullN() < n && short(0, bits)
		switch t := col.DataType().(type) {
		case *arrow.BooleanType:
			missing = missing || short(1, bits)
		case arrow.FixedWidthDataType:
			if t.ID() != arrow.DICTIONARY {
				missing = missing || short(1, n*t.Bytes())
			}
		case *arrow.StringType:
			missing = missing || short(1, (n+1)*4)
		case *arrow.LargeStringType:
			missing = missing || short(1, (n+1)*8)
		}

		if missing {
			return fmt.Errorf("column %q has no data for its %d rows", rec.ColumnName(i), n)
		}
	}

	return nil
}

// join makes one record in normal form of columns in parts. It forgets the parts
// of a column when that is one.
func join(schema *arrow.Schema, parts [][]arrow.Array, rows int64) (arrow.Record, error) {
	cols := make([]arrow.Array, len(parts))
	for i, f := range schema.Fields() {
		switch len(parts[i]) {
		case 0:
			cols[i] = array.MakeArrayOfNull(mem, f.Type, 0)
		case 1:
			cols[i] = parts[i][0]
		default:
			arr, err := array.Concatenate(parts[i], mem)
			if err != nil {
				return nil, fmt.Errorf("reading Arrow: column %q: %w", f.Name, err)
			}
			cols[i] = arr
		}

		parts[i] = nil
	}

	return Normal(array.NewRecord(schema, cols, rows))
}

package perf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
)

// columnReader reads a column of a row group by pages that are checked first.
func columnReader(pf *file.Reader, group, col int) (file.ColumnChunkReader, error) {
	pages, err := pf.RowGroup(group).GetColumnPageReader(col)
	if err != nil {
		return nil, err
	}
	descr := pf.MetaData().Schema.Column(col)
	pool := &sync.Pool{New: func() any { return memory.NewResizableBuffer(memory.DefaultAllocator) }}
	return file.NewColumnReader(descr, &checkedPages{PageReader: pages, level: int64(descr.MaxDefinitionLevel())}, memory.DefaultAllocator, pool), nil
}

// checkedPages ends with an error at a page whose streams of levels or of indices
// are cut off or out of range. The library's decoders take such a stream for one
// that has ended, and its reader would ask them again for ever.
type checkedPages struct {
	file.PageReader
	level int64 // of values that are there; 0 where all are
	words int64 // of the dictionary
	err   error
}

func (p *checkedPages) Next() bool {
	if p.err != nil || !p.PageReader.Next() {
		return false
	}
	p.err = p.check(p.Page())
	return p.err == nil
}

func (p *checkedPages) Err() error { return cmp.Or(p.err, p.PageReader.Err()) }

func (p *checkedPages) check(page file.Page) error {
	n := int64(page.NumValues())
	if n < 0 {
		return fmt.Errorf("a page of %d values", n)
	}
	var levels []byte
	data := page.Data()
	switch page := page.(type) {
	case *file.DictionaryPage:
		p.words = n
		return nil
	case *file.DataPageV1:
		if p.level == 0 {
			break
		}
		if page.DefinitionLevelEncoding() != parquet.Encodings.RLE {
			return fmt.Errorf("its levels are encoded as %s; write it with RLE", page.DefinitionLevelEncoding())
		}
		if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
			return errCutOff
		}
		size := binary.LittleEndian.Uint32(data)
		levels, data = data[4:4+size], data[4+size:]
	case *file.DataPageV2:
		before, size := int64(page.RepetitionLevelByteLen()), int64(page.DefinitionLevelByteLen())
		if before < 0 || size < 0 || before+size > int64(len(data)) {
			return errCutOff
		}
		levels, data = data[before:before+size], data[before+size:]
	default:
		return nil // an index, which is skipped
	}
	if p.level > 0 {
		there, err := countOf(levels, bits.Len64(uint64(p.level)), n, p.level+1)
		if err != nil {
			return err
		}
		n = there
	}
	return p.checkValues(parquet.Encoding(page.Encoding()), data, n)
}

// checkValues looks at the encodings whose decoders do not tell that values lack.
func (p *checkedPages) checkValues(encoding parquet.Encoding, data []byte, n int64) error {
	switch encoding {
	case parquet.Encodings.RLEDict, parquet.Encodings.PlainDict:
		if n == 0 {
			return nil
		}
		if len(data) == 0 {
			return errCutOff
		}
		if data[0] > 32 {
			return fmt.Errorf("indices of %d bits", data[0])
		}
		_, err := countOf(data[1:], int(data[0]), n, p.words)
		return err
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaLengthByteArray:
		if n == 0 {
			return nil
		}
		var head [3]uint64 // values of a block, its parts, values at all
		for i := range head {
			v, size := binary.Uvarint(data)
			if size <= 0 {
				return errCutOff
			}
			head[i], data = v, data[size:]
		}
		if head[0] > 1<<20 || head[1] == 0 || head[1] > head[0] || head[2] != uint64(n) {
			return fmt.Errorf("%d values in blocks of %d in %d parts, where %d are", head[2], head[0], head[1], n)
		}
	}
	return nil
}

var errCutOff = errors.New("a page is cut off")

// countOf goes through a stream of runs and packed values that are width bits wide,
// until there are n of them. All must be below limit; highest is how many are the
// one below it.
func countOf(data []byte, width int, n, limit int64) (highest int64, err error) {
	outside := func(v int64) error { return fmt.Errorf("a page has the index %d, and %d are known", v, limit) }
	for n > 0 {
		head, size := binary.Uvarint(data)
		if size <= 0 {
			return 0, errCutOff
		}
		data = data[size:]
		count := int64(head >> 1)
		if count == 0 || count > math.MaxInt32/8 {
			return 0, fmt.Errorf("a page has a run of %d", count)
		}
		if head&1 == 0 {
			size := (width + 7) / 8
			if len(data) < size {
				return 0, errCutOff
			}
			v := int64(0)
			for i, b := range data[:size] {
				v |= int64(b) << (8 * i)
			}
			if v >= limit {
				return 0, outside(v)
			}
			if v == limit-1 {
				highest += min(count, n)
			}
			n, data = n-count, data[size:]
			continue
		}
		values := min(count*8, n)
		if int64(len(data))*8 < values*int64(width) {
			return 0, errCutOff
		}
		for i := range values {
			v := bitsAt(data, i*int64(width), width)
			if v >= limit {
				return 0, outside(v)
			}
			if v == limit-1 {
				highest++
			}
		}
		n -= values
		data = data[min(int64(len(data)), count*int64(width)):]
	}
	return highest, nil
}

// bitsAt is a value of at most 32 bits, the lowest first.
func bitsAt(data []byte, at int64, width int) int64 {
	rest := data[at/8:]
	var v uint64
	if len(rest) >= 8 {
		v = binary.LittleEndian.Uint64(rest)
	} else {
		for i, b := range rest {
			v |= uint64(b) << (8 * i)
		}
	}
	return int64(v >> (at % 8) & (1<<width - 1))
}

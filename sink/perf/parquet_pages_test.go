package perf

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/parquet"
)

// TestStreamsOfPages: runs and packed values as Parquet has them, whole and damaged.
func TestStreamsOfPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data    []byte
		width   int
		n       int64
		limit   int64
		highest int64
		err     string
	}{
		"nothing":               {},
		"a run":                 {data: []byte{10 << 1, 1}, width: 1, n: 10, limit: 2, highest: 10},
		"a longer run":          {data: []byte{200<<1&0x7f | 0x80, 200 >> 6, 1}, width: 1, n: 3, limit: 2, highest: 3},
		"packed":                {data: []byte{1<<1 | 1, 0b10110001}, width: 1, n: 8, limit: 2, highest: 4},
		"packed, three bits":    {data: []byte{1<<1 | 1, 0b10_001_000, 0b1_100_011_0, 0b111_110_10}, width: 3, n: 8, limit: 8, highest: 1},
		"fewer than are packed": {data: []byte{1<<1 | 1, 0b11}, width: 1, n: 2, limit: 2, highest: 2},
		"a run and packed":      {data: []byte{2 << 1, 1, 1<<1 | 1, 1}, width: 1, n: 4, limit: 2, highest: 3},
		"bytes of a run":        {data: []byte{1 << 1, 0x01, 0x01}, width: 9, n: 1, limit: 0x102, highest: 1},
		"no width":              {data: []byte{5 << 1}, width: 0, n: 5, limit: 1, highest: 5},

		"cut off in a head":   {data: []byte{0x80}, width: 1, n: 1, limit: 2, err: "cut off"},
		"cut off in a run":    {data: []byte{4 << 1}, width: 1, n: 1, limit: 2, err: "cut off"},
		"cut off when packed": {data: []byte{2<<1 | 1, 0}, width: 1, n: 16, limit: 2, err: "cut off"},
		"values lack":         {data: []byte{2 << 1, 0}, width: 1, n: 3, limit: 2, err: "cut off"},
		"a run of none":       {data: []byte{0, 0}, width: 1, n: 1, limit: 2, err: "a run of 0"},
		"outside, run":        {data: []byte{1 << 1, 3}, width: 2, n: 1, limit: 3, err: "the index 3, and 3 are known"},
		"outside, packed":     {data: []byte{1<<1 | 1, 0b11, 0}, width: 2, n: 8, limit: 3, err: "the index 3"},
	} {
		got, err := countOf(c.data, c.width, c.n, c.limit)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || got != c.highest {
			t.Errorf("%s: %d, %v; want %d, %q", name, got, err, c.highest, c.err)
		}
	}
}

// TestEncodingsOfPages: of those whose decoders do not tell that values lack.
func TestEncodingsOfPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		encoding parquet.Encoding
		data     []byte
		n        int64
		err      string
	}{
		"plain":                {encoding: parquet.Encodings.Plain, n: 1}, // the library counts
		"dictionary":           {encoding: parquet.Encodings.RLEDict, data: []byte{1, 3 << 1, 1}, n: 3},
		"all null":             {encoding: parquet.Encodings.RLEDict},
		"dictionary, no data":  {encoding: parquet.Encodings.PlainDict, n: 1, err: "cut off"},
		"dictionary, too wide": {encoding: parquet.Encodings.RLEDict, data: []byte{33}, n: 1, err: "indices of 33 bits"},
		"delta":                {encoding: parquet.Encodings.DeltaBinaryPacked, data: []byte{0x80, 1, 4, 3, 0}, n: 3},
		"delta, fewer":         {encoding: parquet.Encodings.DeltaBinaryPacked, data: []byte{0x80, 1, 4, 2, 0}, n: 3, err: "2 values in blocks of 128 in 4 parts, where 3 are"},
		"delta, no parts":      {encoding: parquet.Encodings.DeltaByteArray, data: []byte{0x80, 1, 0, 3, 0}, n: 3, err: "in 0 parts"},
		"delta, cut off":       {encoding: parquet.Encodings.DeltaLengthByteArray, data: []byte{0x80, 1, 4}, n: 3, err: "cut off"},
		"delta, huge":          {encoding: parquet.Encodings.DeltaLengthByteArray, data: []byte{0x80, 0x80, 0x80, 0x80, 1, 4, 3, 0}, n: 3, err: "3 values in blocks of 268435456"},
	} {
		err := (&checkedPages{words: 2}).checkValues(c.encoding, c.data, c.n)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}

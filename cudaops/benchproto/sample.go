// Package benchproto compares measurement protocols on one GPU: the session of
// this program against the reference protocol, on shapes with published
// latencies.
package benchproto

import (
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
)

//go:embed sample/*.csv
var samples embed.FS

// Shape is one bfloat16 matrix product and its published latency.
type Shape struct {
	M, N, K     int64
	PublishedMS float64 // 0 when unknown
}

// The samples that are part of this program.
const (
	ByRank    = "by_rank"    // the mix of shapes of a whole grid
	ByLatency = "by_latency" // every latency counts the same
)

// Sample returns one of the built-in samples.
func Sample(name string) ([]Shape, error) {
	f, err := samples.Open("sample/" + name + ".csv")
	if err != nil {
		return nil, fmt.Errorf("there is no sample %q; there are %q and %q", name, ByRank, ByLatency)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("sample %s: %w", name, err)
	}
	out := make([]Shape, 0, len(rows)-1)
	for i, r := range rows[1:] {
		var s Shape
		var errs [4]error
		s.M, errs[0] = strconv.ParseInt(r[0], 10, 64)
		s.N, errs[1] = strconv.ParseInt(r[1], 10, 64)
		s.K, errs[2] = strconv.ParseInt(r[2], 10, 64)
		s.PublishedMS, errs[3] = strconv.ParseFloat(r[3], 64)
		for _, e := range errs {
			if e != nil {
				return nil, fmt.Errorf("sample %s, line %d: %w", name, i+2, e)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// Thin picks at most n of the shapes, evenly over their order.
func Thin(shapes []Shape, n int) []Shape {
	if n <= 0 || n >= len(shapes) {
		return shapes
	}
	out := make([]Shape, n)
	for i := range out {
		out[i] = shapes[i*len(shapes)/n]
	}
	return out
}

package perf

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

func seriesOf(t *testing.T, rows ...map[string]any) arrow.Record {
	t.Helper()
	b := table.NewBuilder()
	for _, row := range rows {
		if err := b.Append(row); err != nil {
			t.Fatal(err)
		}
	}
	return b.Record()
}

// TestSeriesRoundTrip writes random series with gaps and reads them back.
func TestSeriesRoundTrip(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var rows []map[string]any
		at := rnd.Int64N(1 << 60)
		for range rnd.IntN(20) + 1 {
			at += rnd.Int64N(3) // several rows of one moment
			row := map[string]any{SeriesTime: at}
			if rnd.IntN(4) > 0 {
				row["power_w"] = rnd.NormFloat64() * 300
			}
			if rnd.IntN(4) > 0 {
				row["gpu"] = string(rune('a' + rnd.IntN(3)))
			}
			rows = append(rows, row)
		}
		want := seriesOf(t, rows...)
		data, err := EncodeSeries(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadSeries(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(want, got); d != "" {
			t.Fatal(d)
		}
		again, err := EncodeSeries(got)
		if err != nil || !bytes.Equal(data, again) {
			t.Fatalf("the same data gives other bytes (%v)", err)
		}
	}
}

func TestReadSeriesSortsByTime(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rec := seriesOf(t, map[string]any{SeriesTime: 3, "v": 30}, map[string]any{SeriesTime: 1, "v": 10},
		map[string]any{SeriesTime: 3, "v": 31}, map[string]any{SeriesTime: 2, "v": 20})
	if err := WriteParquet(&out, rec); err != nil { // as another program might
		t.Fatal(err)
	}
	got, err := ReadSeries(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	v, err := table.Int64s(got, "v")
	if err != nil || len(v.Values) != 4 || v.Values[0] != 10 || v.Values[1] != 20 || v.Values[2] != 30 ||
		v.Values[3] != 31 {
		t.Errorf("%v %v", v, err)
	}
}

func TestSeriesErrors(t *testing.T) {
	t.Parallel()
	for want, rec := range map[string]arrow.Record{
		"no column":                seriesOf(t, map[string]any{"v": 1}),
		"1 rows have no timestamp": seriesOf(t, map[string]any{SeriesTime: 1}, map[string]any{"v": 1}),
		"timestamp_ns":             seriesOf(t, map[string]any{SeriesTime: "noon"}),
	} {
		if _, err := EncodeSeries(rec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	data, err := EncodeSeries(seriesOf(t, map[string]any{SeriesTime: 1, "v": 1.5}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSeries(data[:len(data)/2]); err == nil {
		t.Error("half a file is read")
	}
	if _, err := ReadSeries([]byte("timestamp_ns\n1\n")); err == nil {
		t.Error("a CSV is read")
	}
}

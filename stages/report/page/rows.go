package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
)

// rowsData is a table's rows for the reader to search, packed.
type rowsData struct {
	Rows int
	// Packed is base64 of gzip of JSON (packedTable); "" when left out.
	Packed string
}

type packedTable struct {
	Rows int          `json:"rows"`
	Cols []packedCols `json:"cols"`
}

// packedCols holds numbers as they are, words as indices.
type packedCols struct {
	Name  string   `json:"name"`
	Words []string `json:"words,omitempty"`
	Time  bool     `json:"time,omitempty"` // seconds since 1970
	V     []number `json:"v"`
}

// number is written in the shortest way that keeps six significant digits;
// integers in full.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return []byte("null"), nil
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	}

	return strconv.AppendFloat(nil, v, 'g', 6, 64), nil
}

// shown are the columns other than those that name a row and the metrics, which
// stand behind the first.
var shown = []string{"kernel_source", "rel_stdev", "samples", "used_cuda_graph", "sm_clock_mhz", "throttled",
	"power", "worker", "started_at"}

// embedRows packs the rows of a table, unless there are too many.
func embedRows(t *model.Table, most int) (*rowsData, error) {
	d := &rowsData{Rows: t.Rows}
	if t.Rows > most {
		return d, nil
	}

	rec := t.Data.Table
	p := packedTable{Rows: t.Rows}
	var names []string
	for _, param := range t.Facets.Params {
		names = append(names, param.Name)
	}

	metrics := []string{t.Facets.Metric.Name}
	for _, m := range t.Facets.Metrics {
		metrics = append(metrics, m.Name)
	}

	for _, n := range slices.Concat(shown[:1], metrics, shown[1:]) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}

	for _, name := range names {
		if name == "started_at" && t.Facets.Started != nil {
			c := derived(name, t.Facets.Started, 1)
			for i, v := range c.V {
				c.V[i] = number(math.Floor(float64(v)))
			}
			c.Time = true
			p.Cols = append(p.Cols, c)
		} else if c, ok := packColumn(rec, name); ok {
			p.Cols = append(p.Cols, c)
		}

		if name == t.Facets.Metric.Name {
			if t.Facets.Light != nil {
				p.Cols = append(p.Cols, derived("speed_of_light_%", t.Facets.Light, 100))
			}
			if t.Ratio != nil {
				p.Cols = append(p.Cols, derived("ratio", t.Ratio, 1))
			}
		}
	}

	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}

	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}

	if err := z.Close(); err != nil {
		return nil, err
	}

	d.Packed = base64.StdEncoding.EncodeToString(b.Bytes())
	return d, nil
}

func derived(name string, v []float64, times float64) packedCols {
	c := packedCols{Name: name, V: make([]number, len(v))}
	for i, x := range v {
		c.V[i] = number(x * times)
	}
	return c
}

// packColumn is false for columns that are not there or empty.
func packColumn(rec arrow.Record, name string) (packedCols, bool) {
	c := packedCols{Name: name}
	at := table.Index(rec, name)
	if at < 0 {
		return c, false
	}

	switch rec.Column(at).DataType().ID() {
	case arrow.STRING:
		codes, words, err := table.Codes(rec, name)
		if err != nil || len(words) == 0 || len(words) == 1 && words[0] == "" {
			return c, false
		}

		for i, w := range words {
			words[i] = textutil.VisibleLine(w)
		}

		c.Words, c.V = words, make([]number, len(codes))
		for i, k := range codes {
			c.V[i] = number(k)
		}

	case arrow.BOOL:
		flags, err := table.Bools(rec, name)
		if err != nil {
			return c, false
		}

		c.Words, c.V = []string{"no", "yes"}, make([]number, len(flags.Values))
		for i, v := range flags.Values {
			switch {
			case flags.Null(i):
				c.V[i] = -1
			case v:
				c.V[i] = 1
			}
		}

	default:
		values := model.ParamOf(rec, name).Value
		return derived(name, values, 1), values != nil
	}

	return c, true
}

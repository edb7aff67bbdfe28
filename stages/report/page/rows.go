package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"aicplan/sink/base/textutil"
	"aicplan/stages/report/model"
)

// rowsData is a table's rows for the reader to search, packed.
type rowsData struct {
	Rows int
	// Packed is base64 of gzip of JSON (packedTable); "" when left out.
	Packed string
}

type packedTable struct {
	Rows int            `json:"rows"`
	Cols []packedColumn `json:"cols"`
}

// packedColumn has a value for each row: numbers, or texts.
type packedColumn struct {
	Name string `json:"name"`
	Text bool   `json:"text,omitempty"`
	Time bool   `json:"time,omitempty"` // seconds since 1970
	V    any    `json:"v"`              // []number or []string
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
	"power", "search_value", "search_missed", "worker", "started_at"}

// embedRows packs the rows of a table, unless there are too many.
func embedRows(t *model.Table, most int) (*rowsData, error) {
	d := &rowsData{Rows: t.Rows}
	if t.Rows > most {
		return d, nil
	}

	rec, f := t.Data.Table, t.Facets
	p := packedTable{Rows: t.Rows}
	var names []string
	for _, param := range f.Params {
		names = append(names, param.Name)
	}

	others := []string{shown[0], f.Metric.Name}
	for _, m := range f.Metrics {
		others = append(others, m.Name)
	}

	for _, n := range append(others, shown[1:]...) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}

	add := func(c packedColumn) { p.Cols = append(p.Cols, c) }
	for _, name := range names {
		switch col := model.ParamOf(rec, name); {
		case name == "started_at" && f.Started != nil:
			seconds := make([]float64, len(f.Started))
			for i, v := range f.Started {
				seconds[i] = math.Floor(v)
			}
			add(packedColumn{Name: name, Time: true, V: numbers(seconds, 1)})
		case col.Value != nil:
			add(packedColumn{Name: name, V: numbers(col.Value, 1)})
		case slices.ContainsFunc(col.Text, func(v string) bool { return v != "" }):
			texts := make([]string, len(col.Text))
			for i, v := range col.Text {
				texts[i] = textutil.VisibleLine(v)
			}
			add(packedColumn{Name: name, Text: true, V: texts})
		}

		if name == f.Metric.Name && f.Light != nil {
			add(packedColumn{Name: "speed_of_light_%", V: numbers(f.Light, 100)})
		}
		if name == f.Metric.Name && t.Ratio != nil {
			add(packedColumn{Name: "ratio", V: numbers(t.Ratio, 1)})
		}
	}

	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}

	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(raw)
	if err = cmp.Or(err, z.Close()); err != nil {
		return nil, err
	}

	d.Packed = base64.StdEncoding.EncodeToString(b.Bytes())
	return d, nil
}

func numbers(v []float64, times float64) []number {
	out := make([]number, len(v))
	for i, x := range v {
		out[i] = number(x * times)
	}
	return out
}

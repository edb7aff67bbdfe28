package page

import (
	"bytes"
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
		switch col := model.ParamOf(rec, name); {
		case name == "started_at" && t.Facets.Started != nil:
			seconds := make([]float64, len(t.Facets.Started))
			for i, v := range t.Facets.Started {
				seconds[i] = math.Floor(v)
			}
			p.Cols = append(p.Cols, packedColumn{Name: name, Time: true, V: numbers(seconds, 1)})
		case col.Value != nil:
			p.Cols = append(p.Cols, packedColumn{Name: name, V: numbers(col.Value, 1)})
		case slices.ContainsFunc(col.Text, func(v string) bool { return v != "" }):
			texts := make([]string, len(col.Text))
			for i, v := range col.Text {
				texts[i] = textutil.VisibleLine(v)
			}
			p.Cols = append(p.Cols, packedColumn{Name: name, Text: true, V: texts})
		}

		if name == t.Facets.Metric.Name {
			if t.Facets.Light != nil {
				p.Cols = append(p.Cols, packedColumn{Name: "speed_of_light_%", V: numbers(t.Facets.Light, 100)})
			}
			if t.Ratio != nil {
				p.Cols = append(p.Cols, packedColumn{Name: "ratio", V: numbers(t.Ratio, 1)})
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

func numbers(v []float64, times float64) []number {
	out := make([]number, len(v))
	for i, x := range v {
		out[i] = number(x * times)
	}
	return out
}

package charts

import (
	"fmt"
	"math"
	"slices"

	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/report/facets"
	"aicplan/stages/report/model"
)

// The classes of a coverage matrix, best first.
var coverClasses = []string{"v-full", "v-part", "v-skip", "v-fail", "v-none"}

const (
	coverFull = iota
	coverPart
	coverSkip
	coverFail
	coverNone
)

// coverData has counts for every cell: planned, covered, failed, skipped.
type coverData struct {
	Kind string    `json:"kind"`
	X    string    `json:"x"`
	Y    string    `json:"y"`
	Xs   []string  `json:"xs"`
	Ys   []string  `json:"ys"`
	Box  []float64 `json:"box"`
	N    [][4]int  `json:"n"`
}

// coverage draws which planned cases have a row: the words that set rows apart
// against the sizes along which work grows. Nil for data without a plan.
func coverage(id string, t *model.Table) *Chart {
	if t.Planned == 0 || t.Data == nil || t.SplitBy == "" {
		return nil
	}

	rec := t.Data.Planned
	ids, err := table.Strings(rec, "case_id")
	if err != nil {
		return nil
	}

	ys, ok := plannedAxis(t, t.SplitBy)
	xs, okX := sizeAxis(t)
	if !ok || !okX || len(ys.names) > maxCells {
		return nil
	}

	d := coverData{Kind: "cover", X: xs.name, Y: ys.name, Xs: xs.names, Ys: ys.names,
		N: make([][4]int, len(xs.names)*len(ys.names))}
	lost := lostCases(t)
	for i, id := range ids.Values {
		if xs.at[i] < 0 || ys.at[i] < 0 {
			continue
		}

		n := &d.N[ys.at[i]*len(xs.names)+xs.at[i]]
		n[0]++

		switch {
		case t.Cover[id]:
			n[1]++
		case lost[id] == "failed":
			n[2]++
		case lost[id] == "skipped":
			n[3]++
		}
	}

	m := &cells{nx: len(xs.names), ny: len(ys.names), class: make([]int, len(d.N)), classes: coverClasses}
	for i, n := range d.N {
		m.class[i] = coverClass(n)
	}

	c := &Chart{ID: id, Title: fmt.Sprintf("Coverage over %s and %s", xs.name, ys.name), W: width,
		H: min(max(140, 74+m.ny*18), 420)}
	c.Body = matrix(m, xs.name, ys.name, xs.names, ys.names, c.H)
	d.Box = []float64{short(m.box[0]), short(m.box[1]), short(m.box[2]), short(m.box[3])}
	c.Data = d
	c.Legend = []Key{{Name: "all measured", Class: "v-full"}, {Name: "in part", Class: "v-part"},
		{Name: "skipped", Class: "v-skip"}, {Name: "failed", Class: "v-fail"}}
	c.Caption = "Cells without colour were not planned."
	c.Alt = fmt.Sprintf("%s: %d of %d planned cases have a row.", c.Title, t.Covered, t.Planned)

	return c
}

func coverClass(n [4]int) int {
	switch {
	case n[0] == 0:
		return -1
	case n[1] == n[0]:
		return coverFull
	case n[1] > 0:
		return coverPart
	case n[2] > 0:
		return coverFail
	case n[3] > 0:
		return coverSkip
	}

	return coverNone
}

func lostCases(t *model.Table) map[string]string {
	out := map[string]string{}
	if t.Data.Ledger == nil {
		return out
	}

	ids, err1 := table.Strings(t.Data.Ledger, "case_id")
	status, err2 := table.Strings(t.Data.Ledger, "status")
	if err1 != nil || err2 != nil {
		return out
	}

	for i, id := range ids.Values {
		out[id] = status.Values[i]
	}

	return out
}

func plannedAxis(t *model.Table, name string) (axisOf, bool) {
	// Cases without a value stand by themselves, and not with those of 0 or "".
	p := facets.Param{Name: name}
	if c, err := table.Float64s(t.Data.Planned, name); err == nil {
		p.Value, p.Numeric = slices.Clone(c.Values), true
		for i := range p.Value {
			if c.Null(i) {
				p.Value[i] = math.NaN()
			}
		}
	} else if c, err := table.Strings(t.Data.Planned, name); err == nil {
		p.Text = slices.Clone(c.Values)
		for i := range p.Text {
			if c.Null(i) {
				p.Text[i] = noValue
			}
		}
	} else {
		return axisOf{}, false
	}

	a := categories(p)
	if p.Numeric && slices.Contains(a.at, -1) {
		a.names = append(a.names, noValue)
		for i, at := range a.at {
			if at < 0 {
				a.at[i] = len(a.names) - 1
			}
		}
	}

	return a, len(a.names) >= 1
}

const noValue = "null"

// sizeAxis is the planned column along which work grows, the one with the most
// values that still fit.
func sizeAxis(t *model.Table) (axisOf, bool) {
	var best axisOf
	for _, name := range append(slices.Clone(rules.Axes), t.Data.Info.Params...) {
		if name == t.SplitBy {
			continue
		}
		a, ok := plannedAxis(t, name)
		if ok && len(a.names) > len(best.names) && len(a.names) <= maxCells {
			best = a
		}
	}

	return best, len(best.names) > 1
}

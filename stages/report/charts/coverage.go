package charts

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
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
	matrixData
	N [][4]int `json:"n"`
}

// coverage draws which planned cases have a row: the column of words that distinguishes rows against the
// sizes along which work grows. It returns nil for data without a plan.
func coverage(id string, t *model.Table) *Chart {
	if t.Planned == 0 || t.Data == nil {
		return nil
	}

	ids, err := table.Strings(t.Data.Planned, "case_id")
	if err != nil {
		return nil
	}

	by := splitBy(t)
	ys, ok := plannedAxis(t, by)
	xs, okX := sizeAxis(t, by)
	if !ok || !okX || len(ys.names) > maxCells {
		return nil
	}

	counts := make([][4]int, len(xs.names)*len(ys.names))
	lost := dedupe.LostCases(t.Data)
	for i, id := range ids.Values {
		if xs.at[i] < 0 || ys.at[i] < 0 {
			continue
		}

		n := &counts[ys.at[i]*len(xs.names)+xs.at[i]]
		n[0]++

		switch {
		case t.Cover[id]:
			n[1]++
		case lost[id].Status == "failed":
			n[2]++
		case lost[id].Status == "skipped":
			n[3]++
		}
	}

	class := make([]int, len(counts))
	for i, n := range counts {
		class[i] = coverClass(n)
	}

	c := &Chart{ID: id, Title: fmt.Sprintf("Coverage over %s and %s", xs.name, ys.name),
		Caption: "Cells without colour were not planned.",
		Legend: []Key{{Name: "all measured", Class: "v-full"}, {Name: "in part", Class: "v-part"},
			{Name: "skipped", Class: "v-skip"}, {Name: "failed", Class: "v-fail"}}}
	c.Alt = fmt.Sprintf("%s: %d of %d planned cases have a row.", c.Title, t.Covered, t.Planned)
	c.Data = coverData{matrix(c, xs, ys, class, coverClasses), counts}
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

// splitBy returns the column of words that sets the planned cases apart, or "".
func splitBy(t *model.Table) string {
	for _, name := range append([]string{t.Facets.Series.Column}, t.Data.Info.Params...) {
		if i := table.Index(t.Data.Planned, name); i >= 0 && t.Data.Planned.Column(i).DataType().ID() == arrow.STRING {
			return name
		}
	}
	return ""
}

// plannedAxis returns a column of the planned cases. Cases without a value have a category of their own:
// null is neither 0 nor "".
func plannedAxis(t *model.Table, name string) (categories, bool) {
	const null = "null"
	p := model.ParamOf(t.Data.Planned, name)
	if p.Value == nil && p.Text == nil {
		return categories{}, false
	}

	if col := t.Data.Planned.Column(table.Index(t.Data.Planned, name)); col.NullN() > 0 {
		p.Text = slices.Clone(p.Text)
		for i := range p.Text {
			if col.IsNull(i) {
				p.Text[i] = null
			}
		}
	}

	a := categoriesOf(p)
	if slices.Contains(a.at, -1) {
		a.names = append(a.names, null)
		for i, at := range a.at {
			if at < 0 {
				a.at[i] = len(a.names) - 1
			}
		}
	}

	return a, len(a.names) >= 1
}

// sizeAxis is the planned column along which work grows, the one with the most
// values that still fit.
func sizeAxis(t *model.Table, by string) (categories, bool) {
	var best categories
	for _, name := range append(slices.Clone(rules.Axes), t.Data.Info.Params...) {
		if name == by {
			continue
		}
		a, ok := plannedAxis(t, name)
		if ok && len(a.names) > len(best.names) && len(a.names) <= maxCells {
			best = a
		}
	}

	return best, len(best.names) > 1
}

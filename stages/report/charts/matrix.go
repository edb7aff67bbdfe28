package charts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
	"aicplan/stages/report/model"
)

// maxCells is the largest number of columns or rows of a matrix.
const maxCells = 80

// categories is a column that a matrix can be laid out by.
type categories struct {
	name  string
	at    []int // by row: index into names, -1 without a value
	names []string
}

func categoriesOf(p model.Param) categories {
	if !p.Numeric {
		names := slices.Compact(slices.Sorted(slices.Values(p.Text)))
		return categories{p.Name, model.Places(names, p.Text), names}
	}

	values := model.Distinct(p.Value)
	return categories{p.Name, model.Places(values, p.Value), distinctNames(values)}
}

// distinctNames formats numbers so that different values have different texts: with all
// digits if short forms would be equal, such as those of 151,936 and 152,064.
func distinctNames(values []float64) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = whole(v)
	}

	if len(slices.Compact(slices.Clone(out))) < len(out) {
		for i, v := range values {
			out[i] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}

	return out
}

// matrixData is what the script needs to find the cell at the pointer.
type matrixData struct {
	Kind string    `json:"kind"`
	X    string    `json:"x"`
	Y    string    `json:"y"`
	Xs   []string  `json:"xs"`
	Ys   []string  `json:"ys"`
	Box  []float64 `json:"box"` // the cells: x, y, width, height
}

// matrix draws cells of classes over two columns, one path for all cells of a class. Row 0 is at the bottom.
// A class of -1 is an empty cell.
func matrix(c *Chart, x, y categories, class []int, classes []string) matrixData {
	c.W, c.H = width, min(max(140, 74+len(y.names)*18), 420)
	xs, ys := tickNames(x.names), tickNames(y.names)

	longest := 0.0
	for _, name := range xs {
		longest = max(longest, textWidth(name))
	}

	f := newFrame(c.W, c.H,
		axis{label: x.name, lo: -0.5, hi: float64(len(xs)) - 0.5, ticks: nameTicks(xs, every(xs, width-90, longest+8))},
		axis{label: y.name, lo: -0.5, hi: float64(len(ys)) - 0.5, ticks: nameTicks(ys, every(ys, float64(c.H)-60, 13))})
	w, h := (f.right-f.left)/float64(len(xs)), (f.bottom-f.top)/float64(len(ys))

	gap := 0.5
	if w < 4 || h < 4 {
		gap = 0
	}

	paths := make([]strings.Builder, len(classes))
	for i, k := range class {
		if k >= 0 {
			ix, iy := i%len(xs), i/len(xs)
			paths[k].WriteString(box(f.left+float64(ix)*w, f.top+float64(len(ys)-1-iy)*h, w-gap, h-gap))
		}
	}

	for k := range paths {
		fmt.Fprintf(f, `<path class="%s" d="%s"/>`, classes[k], paths[k].String())
	}

	c.Body = f.String()
	return matrixData{Kind: "cover", X: x.name, Y: y.name, Xs: x.names, Ys: y.names,
		Box: []float64{short(f.left), short(f.top), short(f.right - f.left), short(f.bottom - f.top)}}
}

// tickNames shortens names in their middle, for axes: a long one would leave no room
// for the cells, and names often differ at their ends. The pointer shows them in full.
func tickNames(names []string) []string {
	const most, ends = 19, 9
	out := make([]string, len(names))
	for i, n := range names {
		n = textutil.VisibleLine(n) // as it is going to be written
		if r := []rune(n); len(r) > most {
			n = string(r[:ends]) + "…" + string(r[len(r)-ends:])
		}
		out[i] = n
	}

	return out
}

// every returns the step at which labels fit into so many pixels.
func every(names []string, pixels, perLabel float64) int {
	return max(1, int(float64(len(names))*perLabel/pixels+0.999))
}

// Package charts draws a report's tables as SVG: latency against size, share of the speed of light,
// coverage, ratios, and noise and clocks over time. All charts share the frame,
// the axes and the ticks, and have the values that the page shows at the pointer.
package charts

// Chart is one drawing.
type Chart struct {
	ID      string
	Title   string
	Caption string
	Alt     string // text for screen readers
	W, H    int
	Body    string // SVG elements
	Legend  []Key
	// Data is passed to the page's script as JSON.
	Data any
}

// Key is an entry of a legend.
type Key struct {
	Name  string
	Class string // colour: c0..c7, g (good), w, b, x
	Shape int
	Note  string
}

// Group is the charts of one part of the report.
type Group struct {
	Address string // the table's; empty for the run as a whole
	Charts  []*Chart
}

// add appends the charts that are not nil.
func (g *Group) add(charts ...*Chart) {
	for _, c := range charts {
		if c != nil {
			g.Charts = append(g.Charts, c)
		}
	}
}

const (
	// Charts are drawn for a column of a phone and scaled up on wider screens, so that their text stays readable.
	width      = 380
	height     = 260
	loadHeight = 210
)

// Shapes are the forms of marks, one for each series, which differ without colours too:
// each is a sub-path that follows the mark's centre. The first is a dot: a line
// of no length with round ends.
var Shapes = []string{"h0", "m-2.6-2.6h5.2v5.2h-5.2z", "m0-3.6l3.4 6h-6.8z", "m0-3.6l3.6 3.6-3.6 3.6-3.6-3.6z",
	"m0 3.6l3.4-6h-6.8z", "m-3.6-1h7.2v2h-7.2z", "m-1-3.6h2v7.2h-2z", "m-3.2 0l3.2-1.6 3.2 1.6-3.2 1.6z"}

// small are the same forms for drawings with many marks.
var small = []string{"h0", "m-1.6-1.6h3.2v3.2h-3.2z", "m0-2.2l2.1 3.7h-4.2z", "m0-2.3l2.3 2.3-2.3 2.3-2.3-2.3z",
	"m0 2.2l2.1-3.7h-4.2z", "m-2.3-.7h4.6v1.4h-4.6z", "m-.7-2.3h1.4v4.6h-1.4z", "m-2.1 0l2.1-1.1 2.1 1.1-2.1 1.1z"}

// ShapeClass is the class of the path that draws a shape.
func ShapeClass(shape int) string {
	if shape%len(Shapes) == 0 {
		return "pd"
	}
	return "ps"
}

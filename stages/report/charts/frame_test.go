package charts

import (
	"strings"
	"testing"
)

// TestFrameDrawsAxesAndEscapesText checks positions on both scales, and that text cannot become markup.
func TestFrameDrawsAxesAndEscapesText(t *testing.T) {
	t.Parallel()
	f := newFrame(300, 200, axis{label: "a < b & c", lo: 0, hi: 10, grid: true},
		axis{label: "latency", lo: 1, hi: 100, log: true})
	f.level(10)

	if x := f.px(10); x != f.right || f.px(0) != f.left {
		t.Errorf("the x axis reaches from %v to %v, want %v to %v", f.px(0), x, f.left, f.right)
	}

	if y := f.py(10); y != (f.top+f.bottom)/2 {
		t.Errorf("the middle of two decades is drawn at %v, want %v", y, (f.top+f.bottom)/2)
	}

	for _, want := range []string{"a &lt; b &amp; c", "rotate(-90 ", `class="s-grid"`, `stroke-dasharray="5 3"`,
		">10</text>"} {
		if !strings.Contains(f.String(), want) {
			t.Errorf("the drawing lacks %q:\n%s", want, f.String())
		}
	}
}

// TestLastLabelEndsInsideOfTheDrawing checks that a long label at the end of the x axis is not cut off.
func TestLastLabelEndsInsideOfTheDrawing(t *testing.T) {
	t.Parallel()
	long := func(lo, hi float64) []tick { return []tick{{lo, "0"}, {hi, "a rather long label"}} }
	f := newFrame(300, 200, axis{lo: 0, hi: 1, ticks: long}, axis{lo: 0, hi: 1})
	if end := f.px(1) + textWidth("a rather long label")/2; end > 300 {
		t.Errorf("the label ends at %v of 300", end)
	}
}

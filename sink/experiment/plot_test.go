package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// families are cells of one model and load: a baseline, and each family of parallelism.
func families() []Cell {
	cell := func(id string, tp, pp, dp, ep int, throughput float64) Cell {
		return Cell{Experiment: id, Model: "moe", TP: at(tp), PP: at(pp), DP: at(dp), EP: at(ep), GPUs: at(tp * pp * dp),
			Throughput: at(throughput), Batch: at(4), Seq: at(2048), Max: at(512)}
	}
	return []Cell{
		cell("E1.1", 1, 1, 1, 1, 750), cell("E1.2", 2, 1, 1, 1, 1050), cell("E1.3", 4, 1, 1, 1, 1500), cell("E1.2b", 2, 1, 1,
			1, 900),
		cell("E2.1", 1, 2, 1, 1, 750), cell("E3.2", 2, 1, 1, 2, 1200), cell("E3.3", 4, 1, 1, 4, 1800), cell("E4.1", 1, 1, 2,
			1, 1425),
		cell("E5.1", 2, 1, 2, 4, 1800),
	}
}

// Each family is a line that starts at the cell on one GPU. Cells with the same number of GPUs are in
// different lines.
func TestLinesOfFamilies(t *testing.T) {
	t.Parallel()
	other := families()[:2]
	other[0].Batch, other[1].Batch = at(8), at(8)
	other[0].Experiment, other[1].Experiment = "E1.1 large", "E1.2 large"
	for name, c := range map[string]struct {
		cells []Cell
		want  string
	}{
		"families": {families(), "DP: E1.1 E4.1 | EP: E1.1 E3.2 E3.3 | PP: E1.1 E2.1 | TP: E1.1 E1.2 E1.3 | TP, E1.2b: " +
			"E1.2b | TP+DP+EP: E1.1 E5.1"},
		"two loads": {append(families()[:2], other...),
			"TP, batch 4 seq 2048 max 512: E1.1 E1.2 | TP, batch 8 seq 2048 max 512: E1.1 large E1.2 large"},
		"one cell":   {families()[:1], "one GPU, E1.1: E1.1"},
		"two models": {append(families()[:2], cells()[:3]...), "llama-8b, TP: E1.1 E1.2 E1.3 | moe, TP: E1.1 E1.2"},
	} {
		Sort(c.cells)
		var got []string
		for _, s := range seriesOf(c.cells) {
			line := s.name + ":"
			for _, cell := range s.cells {
				line += " " + cell.Experiment
			}
			got = append(got, line)
		}
		if strings.Join(got, " | ") != c.want {
			t.Errorf("%s: %s\nwant %s", name, strings.Join(got, " | "), c.want)
		}
	}
}

// The baseline of all families is the cell with the fewest GPUs.
func TestEfficiencyOfFamilies(t *testing.T) {
	t.Parallel()
	efficiencies := func(cells []Cell) string {
		var out []string
		for i := range cells {
			text := "-"
			if v := Efficiency(cells, &cells[i]); v != nil {
				text = fmt.Sprintf("%.4g", *v)
			}
			out = append(out, cells[i].Experiment+" "+text)
		}
		return strings.Join(out, ", ")
	}

	all := families()
	if got, want := efficiencies(all), "E1.1 100, E1.2 70, E1.3 50, E1.2b 60, E2.1 50, E3.2 80, E3.3 60, E4.1 95, E5.1 60"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}

	// Loads without closed batches differ in concurrency or rate.
	open := slices.Concat(families()[:2], families()[:2], families()[:2])
	for i := range open {
		c := &open[i]
		c.Batch, c.Seq, c.Max, c.ISL, c.OSL = nil, nil, nil, at(100), at(10)
		*c.Throughput *= float64(i/2 + 1)
		if i < 4 {
			c.Concurrency = at(i/2 + 1)
		} else {
			c.Rate = at(2.5)
		}
	}
	if got, want := efficiencies(open), "E1.1 100, E1.2 70, E1.1 100, E1.2 70, E1.1 100, E1.2 70"; got != want {
		t.Errorf("several loads: %s\nwant %s", got, want)
	}

	failed := families()[:3]
	failed[0].Throughput = nil
	if got, want := efficiencies(failed), "E1.1 -, E1.2 -, E1.3 -"; got != want {
		t.Errorf("without a baseline: %s", got)
	}

	// A model that does not fit on one GPU.
	large := slices.DeleteFunc(families(), func(c Cell) bool { return *c.TP < 2 || *c.EP > 1 || c.Experiment == "E1.2b" })
	if got, want := efficiencies(large), "E1.2 100, E1.3 71.43"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	several := slices.DeleteFunc(families(), func(c Cell) bool { return *c.GPUs < 2 })
	if v := Efficiency(several, &several[0]); v != nil {
		t.Errorf("several families have the fewest GPUs: %v", *v)
	}
}

// The plot names lines and cells once.
func TestNamesInPlot(t *testing.T) {
	t.Parallel()
	svg, _, err := Scaling(families())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"DP", "EP", "PP", "TP", "E1.1", "E3.3", "E4.1"} {
		if n := strings.Count(string(svg), ">"+name+"</text>"); n != 1 {
			t.Errorf("%s is in the plot %d times", name, n)
		}
	}
}

package charts

import (
	"bytes"

	"aicplan/sink/experiment"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
)

// Size of the plots of an experiment in pixels.
const (
	scalingWidth  = 960
	scalingHeight = 672
)

// scaling draws the cells of an experiment over the number of GPUs, as the export of the layout experiment
// does. It returns nil if the number of GPUs does not vary, or if the plot cannot be drawn.
func scaling(id string, t *model.Table) *Chart {
	speedUp, _ := t.Facets.SpeedUp()
	if speedUp == nil || t.Data == nil || t.Facets.Column("iteration_wall_clock") == nil {
		return nil
	}

	var cells []experiment.Cell
	for row := range int(t.Data.Table.NumRows()) {
		cells = append(cells, experiment.CellOf(table.Row(t.Data.Table, row)))
	}

	svg, _, err := experiment.Scaling(cells)
	at := bytes.Index(svg, []byte("<svg"))
	if err != nil || at < 0 {
		return nil // the report has the figures as a table
	}

	return &Chart{
		ID: id, Title: "Scaling over GPUs", W: scalingWidth, H: scalingHeight,
		Alt: "throughput, time of an iteration, efficiency and communication over the number of GPUs",
		Caption: "A line per family of parallelism. The efficiency is that of the cell with the fewest GPUs and the same " +
			"load. Dashed: as efficient as it.",
		Body: string(svg[at:]),
	}
}

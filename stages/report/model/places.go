package model

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"aicplan/cudaops/measure"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// places are the nodes that the rows of a dataset name, each with what sets it
// apart, and one without a name for rows that name none. The name is that of an executor's task.
func places(ds *stage.Dataset) []Node {
	if table.Len(ds.Table) == 0 {
		return []Node{{}}
	}

	names, uuids, drivers := texts(ds.Table, "node"), texts(ds.Table, "device_uuid"), texts(ds.Table, "driver")
	clocks := numbers(ds.Table, "sm_clock_mhz")
	rows := map[string][]int{}
	for i := range table.Len(ds.Table) {
		name := ""
		if names != nil {
			name = names[i]
		}
		rows[name] = append(rows[name], i)
	}

	var out []Node
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		p := Node{Host: name, Devices: namesAt(uuids, rows[name])}
		if name != "" {
			p.Rows = len(rows[name])
			for _, d := range namesAt(drivers, rows[name]) {
				p.Facts = append(p.Facts, Fact{"driver", d})
			}

			if clocks != nil {
				for _, i := range rows[name] {
					if !math.IsNaN(clocks[i]) {
						p.clocks = append(p.clocks, clocks[i])
					}
				}
			}
		}

		out = append(out, p)
	}

	return out
}

// namesAt returns the names that a column has in the rows, sorted.
func namesAt(column []string, rows []int) []string {
	var out []string
	for _, i := range rows {
		if column != nil {
			out = addWord(out, column[i])
		}
	}

	slices.Sort(out)
	return out
}

// sum puts what was added into facts.
func (n *Node) sum() {
	if len(n.clocks) > 0 {
		m := measure.Median(n.clocks)
		n.Clock = &m
		n.Facts = append(n.Facts, Fact{"SM clock (median)", fmt.Sprintf("%.0f MHz", m)})
	}

	if n.Rows > 0 {
		n.Facts = append(n.Facts, Fact{"rows", fmt.Sprint(n.Rows)})
	}
}

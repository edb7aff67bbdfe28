package model

import (
	"fmt"
	"maps"
	"slices"

	"aicplan/cudaops/measure"
	"aicplan/engine/stage"
)

// places are the nodes that the rows of a dataset name, each with what sets it
// apart, and one without a name for rows that name none. The name is that of an executor's task.
func places(ds *stage.Dataset) []Node {
	names, uuids, drivers := texts(ds.Table, "node"), texts(ds.Table, "device_uuid"), texts(ds.Table, "driver")
	clocks := numbers(ds.Table, "sm_clock_mhz")
	if names == nil {
		return []Node{{Devices: sortedWords(uuids)}}
	}

	rows := map[string][]int{}
	for i, name := range names {
		rows[name] = append(rows[name], i)
	}

	var out []Node
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		p := Node{Host: name, Devices: sortedWords(pick(uuids, rows[name]))}
		if name != "" {
			p.Rows, p.clocks = len(rows[name]), Sorted(pick(clocks, rows[name]))
			for _, d := range sortedWords(pick(drivers, rows[name])) {
				p.Facts = append(p.Facts, Fact{"driver", d})
			}
		}

		out = append(out, p)
	}

	return out
}

// pick returns the values of some rows, or nil if the column does not exist.
func pick[T any](column []T, rows []int) (out []T) {
	for _, i := range rows {
		if column != nil {
			out = append(out, column[i])
		}
	}
	return out
}

// sortedWords returns the words that occur, sorted.
func sortedWords(words []string) (out []string) {
	for _, w := range words {
		out = addWord(out, w)
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

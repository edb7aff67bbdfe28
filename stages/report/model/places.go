package model

import (
	"fmt"
	"slices"

	"aicplan/cudaops/measure"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// place is a node on which rows of a dataset were measured.
type place struct {
	name  string // of the node, from an executor's tasks; "" if unknown
	uuids []string
	facts []Fact
	rows  int

	clocks []float64
}

// add takes the rows of one more table that a node measured.
func (n *Node) add(p place) {
	n.Rows += p.rows
	n.clocks = append(n.clocks, p.clocks...)
}

// places are the nodes that the rows of a dataset name, each with what sets it
// apart, and one without a name for rows that name none.
func places(ds *stage.Dataset) []place {
	if ds.Table == nil || ds.Table.NumRows() == 0 {
		return []place{{}}
	}

	names := texts(ds, "node")
	uuids, drivers := texts(ds, "device_uuid"), texts(ds, "driver")
	clocks := numbersOf(ds, "sm_clock_mhz")
	rows := map[string][]int{}

	var order []string
	for i := range int(ds.Table.NumRows()) {
		name := names(i)
		if rows[name] == nil {
			order = append(order, name)
		}
		rows[name] = append(rows[name], i)
	}

	slices.Sort(order)
	var out []place
	for _, name := range order {
		p := place{name: name, uuids: distinct(rows[name], uuids)}
		if name != "" {
			p.rows = len(rows[name])
			for _, d := range distinct(rows[name], drivers) {
				p.facts = append(p.facts, Fact{"driver", d})
			}
			p.clocks = some(rows[name], clocks)
		}

		out = append(out, p)
	}

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

// texts reads a column of text: "" if a row or the table has none.
func texts(ds *stage.Dataset, name string) func(int) string {
	col, err := table.Strings(ds.Table, name)
	if err != nil {
		return func(int) string { return "" }
	}
	return func(i int) string { return col.Values[i] }
}

// numbersOf reads a column of numbers: false if a row or the table has none.
func numbersOf(ds *stage.Dataset, name string) func(int) (float64, bool) {
	col, err := table.Float64s(ds.Table, name)
	if err != nil {
		return func(int) (float64, bool) { return 0, false }
	}
	return func(i int) (float64, bool) { return col.Values[i], !col.Null(i) }
}

func distinct(rows []int, value func(int) string) []string {
	var out []string
	for _, i := range rows {
		if v := value(i); v != "" {
			out = append(out, v)
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

func some(rows []int, value func(int) (float64, bool)) (out []float64) {
	for _, i := range rows {
		if v, ok := value(i); ok {
			out = append(out, v)
		}
	}
	return out
}
